"""What a worker logs of itself at level `info`: how it began, which partitions it has, which
policies hold.

One event for each, with the figures as fields, so that a log read from its top says what ran where.
"""

import logging
from collections.abc import Collection
from importlib.metadata import version

from schemas.connection import KafkaSettings
from streams.stage.statistics import Counts
from streams.worker.settings import WorkerSettings

logger = logging.getLogger(__name__)


def began(worker: WorkerSettings, kafka: KafkaSettings) -> None:
    """The worker begins with these settings."""
    port = f"{worker.metrics_host or '*'}:{worker.metrics_port}" if worker.metrics_port else "none"
    logger.info(
        "loadstream %s begins: stages %s, brokers %s, %d partitions a topic, metrics on %s",
        version("loadstream"),
        worker.stages,
        ",".join(kafka.servers()),
        kafka.partitions,
        port,
    )
    for variable, why in worker.without_effect().items():
        logger.info("%s has no effect: %s", variable, why)


def recovered(stage: str, partitions: Collection[int], rows: int, seconds: float) -> None:
    """A stage has its partitions, and their state."""
    logger.info(
        "stage %s has the partitions %s, recovered from %d rows in %.1f s",
        stage,
        ", ".join(map(str, sorted(partitions))) or "none",
        rows,
        seconds,
    )


def revoked(stage: str, partitions: Collection[int]) -> None:
    """Partitions are handed over, or come back after a rebalance."""
    if partitions:
        named = ", ".join(map(str, sorted(partitions)))
        logger.info("stage %s gives the partitions %s back for a rebalance", stage, named)


def counted(counts: Counts) -> None:
    """Policies were applied."""
    for cluster, policy in counts.policies.items():
        logger.info("cluster %s: policy applied, %s", cluster, policy)
