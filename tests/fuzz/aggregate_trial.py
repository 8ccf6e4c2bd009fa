"""The aggregate stage under trial, with windows and limits that short histories reach."""

from typing import Any

from streams.aggregate.collect import AggregateLimits, Collecting, CollectPolicy
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.stage.records import InputRecord, StageResult
from streams.stage.statistics import Counts
from tests.fuzz.failure import require
from tests.fuzz.trial import Trial
from tests.fuzz.workers import WriteThroughWorker
from tests.fuzz.world import PARTITION, PARTITIONS
from tests.streams.aggregate.content import content

_COLLECTING = Collecting(
    CollectPolicy(60_000, 30_000, (40_000, 120_000)),
    {"slow": CollectPolicy(60_000, 90_000, (120_000,))},
)
_LIMITS = AggregateLimits(
    forget_after_ms=300_000,
    sweep_records=16,
    nodes_per_partition=12,
    samples_per_node=60,
    resources_per_node=12,
    pods_per_node=100,
    metric_bytes=20_000,
)
#: What happens to a record; one that is taken may reach a limit as well.
_DONE = ("taken", "taken_late", "duplicate", "redelivered")


class AggregateTrial(Trial):
    """One history of the aggregate stage."""

    def __init__(self, seed: int) -> None:
        state = PartitionState(PARTITION, _COLLECTING)
        self._plain = AggregateStage(state, PARTITIONS, _LIMITS)
        self._written = WriteThroughWorker(PARTITION, PARTITIONS, _COLLECTING, _LIMITS)
        super().__init__(seed, self._plain, self._written)

    def check_counts(self, record: InputRecord, counts: Counts, result: StageResult) -> None:
        """Taken, known or refused; nothing is said of one that is not taken."""
        done = sum(counts.results[each] for each in _DONE)
        refused = sum(counts.refused.values())
        require(done <= 1, "a record came to several things", f"{counts}")
        require(done + refused >= 1, "a record came to nothing", f"{counts}")
        if done and refused:
            reported = counts.results["reported"] and counts.results["refused_limit"]
            require(bool(reported), "a record is taken and refused", f"{counts}")
        if result.outputs:
            require(counts.results["taken"] == 1, "a record that is not taken has outputs")

    def check_record(self, record: InputRecord, result: StageResult, said: list[Any]) -> None:
        """A metric is as old as its newest sample."""
        for metric in said:
            node = self._plain.state.nodes.get(f"{metric.cluster}/{metric.node}")
            # It may be forgotten by the very sample that it reported.
            newest = node is None or metric.updated_at_ms == node.newest_ms
            require(newest, "a metric is not as old as its newest sample")

    def compare(self) -> None:
        """The state is that of the plain stage."""
        same = content(self._written.stage) == content(self._plain)
        require(same, "a worker that starts has another state than a stage that never ends")
