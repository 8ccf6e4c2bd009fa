"""A broker with a worker, a sender and a receiver of records, and usage of processes.

Messages are encoded before the measurement, to leave the CPU to the worker. The receiver reads all
partitions and adds the time of arrival to each record.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import orjson
from confluent_kafka import Producer

from benchmarks import messages
from benchmarks.figures import CheckFailed
from connectors.brokers.embedded import EmbeddedBroker
from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.producer import COMPRESSION
from connectors.kafka.reader import Gap, Reader
from connectors.kafka.topics import changelog_name, expected_topics
from schemas.settings.connection import ENV_PREFIX, KafkaSettings
from schemas.storage.tables import PARTITION, TABLE_OF_KIND, kind_of_key
from schemas.topics.catalog import TOPIC_BY_NAME, RecordPlace, place_record
from schemas.topics.codec import encode
from simulation.processes import LoadstreamProcess, make_worker, run_processes

#: Longest wait for the next answer of a process.
TIMEOUT_S = 90.0


class EncodedRecord(NamedTuple):
    topic: str
    value: bytes
    target: RecordPlace


@dataclass(frozen=True, slots=True)
class Arrival:
    topic: str
    key: bytes
    value: bytes
    at_s: float
    """Time of arrival by the monotonic clock."""


def to_records(topic: str, messages: Iterable[Any]) -> list[EncodedRecord]:
    return [
        EncodedRecord(topic, encode(message), place_record(TOPIC_BY_NAME[topic], message))
        for message in messages
    ]


class Sender:
    """Sends records with librdkafka, which uses less CPU than our producer."""

    def __init__(self, settings: KafkaSettings) -> None:
        options = {"partitioner": "murmur2_random", "compression.type": COMPRESSION, "linger.ms": 1}
        room = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2**21 - 1}
        self._producer: Any = Producer({**settings.librdkafka_options(), **options, **room})

    def enqueue(self, record: EncodedRecord) -> None:
        """Queue a record; the client sends queued records within milliseconds."""
        topic, value, target = record
        where = {} if target.partition is None else {"partition": target.partition}
        self._producer.produce(
            topic, value, target.key, timestamp=target.timestamp_ms or 0, **where
        )

    def send(self, records: Sequence[EncodedRecord]) -> float:
        """Send all records; return the number of acknowledged records per second."""
        began = time.perf_counter()
        for record in records:
            self.enqueue(record)
        if self._producer.flush(TIMEOUT_S):
            raise CheckFailed("the broker did not acknowledge all records")
        return len(records) / (time.perf_counter() - began)


class Receiver:
    """Reads topics from their current end or from their beginning; a context manager."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        from_beginning: bool = False,
        fetch_wait_ms: int = 10,
    ) -> None:
        """`fetch_wait_ms` is the longest time that the broker waits for a record."""
        connection = connect(settings)
        extents = {(t, e.partition): e for t in topics for e in read_topic_extents(connection, t)}
        self._ends = {partition: extent.next_offset for partition, extent in extents.items()}
        starts = {
            partition: extent.first_offset if from_beginning else extent.next_offset
            for partition, extent in extents.items()
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=fetch_wait_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def receive(self, wait_s: float) -> Iterator[Arrival]:
        """Wait at most `wait_s` for a record; yield all received records without tombstones."""
        deadline_s = time.monotonic() + wait_s
        records = self._reader.poll(wait_s)
        # A poll also returns without records at the end of a partition.
        while not records and (left_s := deadline_s - time.monotonic()) > 0:
            records = self._reader.poll(left_s)
        at_s = time.monotonic()
        for record in records:
            if isinstance(record, Gap):
                raise CheckFailed(str(record))
            if record.value is not None:
                yield Arrival(record.topic, record.key or b"", record.value, at_s)

    def receive_all(self) -> Iterator[Arrival]:
        """Yield all records up to the ends of the topics at the creation of this receiver."""
        deadline = time.monotonic() + TIMEOUT_S
        while not all(self._reader.has_passed(*end) for end in self._ends.items()):
            yield from self.receive(0.2)
            if time.monotonic() > deadline:
                raise CheckFailed(
                    f"{', '.join(sorted({t for t, _ in self._ends}))}: not read to the end"
                )


def check_decisions(decisions: Iterable[Arrival], expected: set[str], nodes: int) -> None:
    """Raise CheckFailed unless every pod in `expected` was placed exactly once.

    Args:
        decisions: records of decisions.
        expected: names of the pods with a request.
        nodes: expected number of nodes in each decision; no node may be stale.
    """
    placed: set[str] = set()
    for arrival in decisions:
        decision = orjson.loads(arrival.value)
        name = decision["pod"]["name"]
        if decision["outcome"] != "placed" or decision["nodes"] != nodes:
            raise CheckFailed(f"{name} was not placed among {nodes} nodes: {arrival.value[:500]!r}")
        if decision["stale_nodes"]:
            raise CheckFailed(f"the decision of {name} has {decision['stale_nodes']} stale nodes")
        if name in placed:
            raise CheckFailed(f"{name} was placed twice")
        placed.add(name)
    if placed != expected:
        lost, strange = expected - placed, placed - expected
        raise CheckFailed(f"{len(lost)} requests have no decision; {len(strange)} have no request")


BrokerKind = Literal["kafka", "embedded"]

#: Changelog with the offsets of the cluster stage.
_POSITIONS = changelog_name(TABLE_OF_KIND[PARTITION])
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """CPU and memory of a process since its start."""

    cpu_s: float
    """User and system CPU time."""
    queued_s: float
    """Time that runnable threads waited for a core."""
    rss_mib: float
    """Current resident memory."""


def read_usage(pid: int) -> ProcessUsage:
    # The name of the process, in brackets, may contain blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(fields[21])
    waits = (path.read_text().split()[1] for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return ProcessUsage(
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS_PER_S,
        queued_s=sum(map(int, waits)) / 1e9,
        rss_mib=pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


class Rig:
    """A broker, its sender, and the workers of a benchmark."""

    def __init__(self, settings: KafkaSettings, directory: Path, broker_pid: int | None) -> None:
        self.settings = settings
        self.broker_pid = broker_pid
        """Process id of the broker; None for the embedded broker, which is in this process."""
        self.sender = Sender(settings)
        self._directory = directory
        self._workers = 0

    @contextmanager
    def run_worker(self, stages: str) -> Iterator[LoadstreamProcess]:
        """Run a worker with these stages, default settings and an empty directory."""
        self._workers += 1
        settings = {
            f"{ENV_PREFIX}BOOTSTRAP_SERVERS": self.settings.bootstrap_servers,
            "LOADSTREAM_WORKER_STAGES": stages,
        }
        process = make_worker(self._directory / f"{self._workers}", settings)
        with run_processes([process]):
            yield process

    def send_cluster(
        self, worker: LoadstreamProcess, nodes: int, *, pods_per_node: int = 0
    ) -> None:
        """Send nodes, pods and metrics, and wait until the worker has applied all records."""
        counts = {"node-state": nodes, "pod-lifecycle": nodes * pods_per_node}
        with Receiver(self.settings, [_POSITIONS, "dead-letters"]) as receiver:
            self.sender.send(to_records("node-state", messages.make_node_states(nodes)))
            pods = messages.make_running_pods(nodes, pods_per_node)
            self.sender.send(to_records("pod-lifecycle", pods))
            self._wait_until_applied(worker, receiver, counts)
            # Metrics are last, because a metric is only valid for three minutes.
            self.sender.send(to_records("node-metrics", messages.make_node_metrics(nodes)))
            self._wait_until_applied(worker, receiver, {"node-metrics": nodes})

    def _wait_until_applied(
        self, worker: LoadstreamProcess, receiver: Receiver, counts: dict[str, int]
    ) -> None:
        """Wait until the worker has applied `counts` records of each topic, all in one partition."""
        deadline = time.monotonic() + TIMEOUT_S
        applied: dict[str, int] = {}
        while any(applied.get(topic, -1) < count - 1 for topic, count in counts.items()):
            for arrival in receive(receiver, worker):
                if arrival.topic == _POSITIONS and kind_of_key(arrival.key.decode()) == PARTITION:
                    for topic, offset in orjson.loads(arrival.value)["offsets"].items():
                        applied[topic] = max(applied.get(topic, -1), offset)
                    deadline = time.monotonic() + TIMEOUT_S
            if time.monotonic() > deadline:
                raise CheckFailed(
                    f"applied offsets {applied}; expected {counts}; {worker.describe_log()}"
                )

    def count_bytes(self, topics: Sequence[str]) -> int:
        """Return the uncompressed size of all current values of topics."""
        with Receiver(self.settings, topics, from_beginning=True) as receiver:
            return sum(len(arrival.value) for arrival in receiver.receive_all())


def receive(
    receiver: Receiver, worker: LoadstreamProcess, wait_s: float = 0.2
) -> Iterator[Arrival]:
    """Yield new records. Raises CheckFailed for a dead letter, and ProcessDied if the worker has ended."""
    worker.check()
    for arrival in receiver.receive(wait_s):
        if arrival.topic == "dead-letters":
            raise CheckFailed(f"found a dead letter: {arrival.value[:500]!r}")
        yield arrival


@contextmanager
def start_rig(kind: BrokerKind) -> Iterator[Rig]:
    """Start a broker with empty topics."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loadstream-")))
        broker: Any
        if kind == "embedded":
            broker = stack.enter_context(EmbeddedBroker())
        else:
            broker = stack.enter_context(KafkaServer(directory / "kafka"))
            # A clean stop takes seconds, and nobody reads the data.
            stack.callback(broker.members[0].kill)
            create_topics(connect(broker.settings), expected_topics(broker.settings))
        yield Rig(broker.settings, directory, None if kind == "embedded" else broker.members[0].pid)
