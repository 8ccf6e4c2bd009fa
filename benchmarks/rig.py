"""A broker with its topics, one worker in its own process, and what they use."""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from benchmarks import messages
from benchmarks.figures import Unproven
from benchmarks.wire import PATIENCE_S, Arrival, Receiver, Sender, encoded
from connectors.brokers.embedded import EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import changelog_name, expected_topics
from schemas.settings.connection import ENV_PREFIX, KafkaSettings
from schemas.storage.tables import PARTITION, TABLE_OF_KIND, kind_of_key
from simulation.processes import Loadstream, running
from simulation.processes import worker as worker_process

BrokerKind = Literal["kafka", "embedded"]

#: Changelog with the row that says how far the cluster stage has come.
_PLACES = changelog_name(TABLE_OF_KIND[PARTITION])
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used."""

    cpu_s: float
    """CPU time since its start, user and system."""
    queued_s: float
    """Time since its start that its threads were ready to run and no core was free."""
    rss_mib: float
    """Memory that it has now."""


def usage(pid: int) -> Usage:
    """What a process has used so far."""
    # The name, in brackets, may hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(fields[21])
    waits = (path.read_text().split()[1] for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return Usage(
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        queued_s=sum(map(int, waits)) / 1e9,
        rss_mib=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


class Rig:
    """What a benchmark works with."""

    def __init__(self, settings: KafkaSettings, directory: Path, broker_pid: int | None) -> None:
        self.settings = settings
        self.broker_pid = broker_pid
        """The broker's process; none: it is this one."""
        self.sender = Sender(settings)
        self._directory = directory
        self._workers = 0

    @contextmanager
    def worker(self, stages: str) -> Iterator[Loadstream]:
        """A worker with default settings and fresh data that runs these stages."""
        self._workers += 1
        settings = {
            f"{ENV_PREFIX}BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
            "LOADSTREAM_WORKER_STAGES": stages,
        }
        process = worker_process(self._directory / f"{self._workers}", settings)
        with running([process]):
            yield process

    def describe_cluster(
        self, worker: Loadstream, nodes: int, *, pods_per_node: int = 0, seed: int = 1
    ) -> None:
        """Tell of nodes, pods and metrics; returns when the worker's rows hold all of them."""
        counts = {"node-state": nodes, "pod-lifecycle": nodes * pods_per_node}
        with Receiver(self.settings, [_PLACES, "dead-letters"]) as receiver:
            self.sender.send(encoded("node-state", messages.node_states(nodes)))
            self.sender.send(encoded("pod-lifecycle", messages.running_pods(nodes, pods_per_node)))
            self._until_applied(worker, receiver, counts)
            # Last, because a metric is believed for three minutes only.
            self.sender.send(encoded("node-metrics", messages.node_metrics(nodes, seed)))
            self._until_applied(worker, receiver, {"node-metrics": nodes})

    def _until_applied(
        self, worker: Loadstream, receiver: Receiver, counts: dict[str, int]
    ) -> None:
        """Wait until this number of records of each topic was applied; all are in one partition."""
        deadline = time.monotonic() + PATIENCE_S
        applied: dict[str, int] = {}
        while any(applied.get(topic, -1) < count - 1 for topic, count in counts.items()):
            for arrival in watched(receiver, worker):
                if arrival.topic == _PLACES and kind_of_key(arrival.key.decode()) == PARTITION:
                    for topic, offset in orjson.loads(arrival.value)["offsets"].items():
                        applied[topic] = max(applied.get(topic, -1), offset)
                    deadline = time.monotonic() + PATIENCE_S
            if time.monotonic() > deadline:
                raise Unproven(f"applied up to {applied}; expected {counts}; {worker.last_words()}")

    def values_in(self, topics: Iterable[str]) -> Iterator[bytes]:
        """All values in these topics so far, partition by partition."""
        with Receiver(self.settings, list(topics), from_beginning=True) as receiver:
            yield from (arrival.value for arrival in receiver.whole())

    def bytes_in(self, topics: Iterable[str]) -> int:
        """Bytes of all values in these topics so far, before any compression."""
        return sum(map(len, self.values_in(topics)))


def watched(receiver: Receiver, worker: Loadstream, wait_s: float = 0.2) -> Iterator[Arrival]:
    """What has come; raises Unproven at a dead letter and ProcessDied where there is no worker."""
    worker.check()
    for arrival in receiver.arrivals(wait_s):
        if arrival.topic == "dead-letters":
            raise Unproven(f"a dead letter came: {arrival.value[:500]!r}")
        yield arrival


@contextmanager
def rig(kind: BrokerKind) -> Iterator[Rig]:
    """A new broker with all topics and nothing in them."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loadstream-")))
        broker: Any
        if kind == "embedded":
            broker = stack.enter_context(EmbeddedBroker())
        else:
            broker = stack.enter_context(KafkaServer(directory / "kafka"))
            stack.callback(
                broker.kill_broker
            )  # nothing is read any more; to stop cleanly takes seconds
            create_topics(connect(broker.settings), expected_topics(broker.settings))
        yield Rig(broker.settings, directory, None if kind == "embedded" else broker.pid())
