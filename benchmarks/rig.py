"""A worker and its broker: records in and out, the processes, and the check of decisions.

The measuring side costs little, so that the worker is measured: messages are encoded before the clock
starts. All partitions are read, and the arrival time of each record is noted.
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
from benchmarks.figures import Unproven
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
from simulation.processes import Loadstream, make_worker, run_processes

#: Longest time without any answer of the worker.
PATIENCE_S = 90.0


class Encoded(NamedTuple):
    """A record that is ready to be sent."""

    topic: str
    value: bytes
    target: RecordPlace


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came."""

    topic: str
    key: bytes
    value: bytes
    at_s: float
    """When, by the monotonic clock."""


def encoded(topic: str, messages: Iterable[Any]) -> list[Encoded]:
    """Messages as records."""
    return [
        Encoded(topic, encode(message), place_record(TOPIC_BY_NAME[topic], message))
        for message in messages
    ]


class Sender:
    """Sends records by librdkafka, which leaves more of the machine to the worker than our producer."""

    def __init__(self, settings: KafkaSettings) -> None:
        own = {"partitioner": "murmur2_random", "compression.type": COMPRESSION, "linger.ms": 1}
        room = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2**21 - 1}
        self._producer: Any = Producer({**settings.librdkafka_options(), **own, **room})

    def hand_over(self, record: Encoded) -> None:
        """Give a record to the client; it is on its way a moment later."""
        key, partition, at_ms = (
            record.target.key,
            record.target.partition,
            record.target.timestamp_ms,
        )
        where = {} if partition is None else {"partition": partition}
        self._producer.produce(record.topic, record.value, key, timestamp=at_ms or 0, **where)

    def send(self, records: Sequence[Encoded]) -> float:
        """Send all as fast as they go; answers how many a second the broker took."""
        began = time.perf_counter()
        for record in records:
            self.hand_over(record)
        if self._producer.flush(PATIENCE_S):
            raise Unproven("the broker did not acknowledge all records")
        return len(records) / (time.perf_counter() - began)


class Receiver:
    """Reads topics from where they end now, or from their beginning; a context manager."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        from_beginning: bool = False,
        fetch_wait_ms: int = 10,
    ) -> None:
        """`fetch_wait_ms` is how long a broker may wait for the first record of any partition."""
        connection = connect(settings)
        extents = {(t, e.partition): e for t in topics for e in read_topic_extents(connection, t)}
        self._ends = {place: extent.next_offset for place, extent in extents.items()}
        starts = {
            place: extent.first_offset if from_beginning else extent.next_offset
            for place, extent in extents.items()
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=fetch_wait_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def arrivals(self, wait_s: float) -> Iterator[Arrival]:
        """What has come, waiting so long for the first record; deletions, as claims of partitions are, left out."""
        deadline_s = time.monotonic() + wait_s
        records = self._reader.poll(wait_s)
        # The end of a partition answers a poll, too, without a record.
        while not records and (left_s := deadline_s - time.monotonic()) > 0:
            records = self._reader.poll(left_s)
        at_s = time.monotonic()
        for record in records:
            if isinstance(record, Gap):
                raise Unproven(str(record))
            if record.value is not None:
                yield Arrival(record.topic, record.key or b"", record.value, at_s)

    def whole(self) -> Iterator[Arrival]:
        """Everything up to where the topics ended when this was made, from the beginning."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(self._reader.has_passed(place, end) for place, end in self._ends.items()):
            yield from self.arrivals(0.2)
            if time.monotonic() > deadline:
                raise Unproven(
                    f"{', '.join(sorted({t for t, _ in self._ends}))}: not read to the end"
                )


def check_decisions(values: Iterable[bytes], expected: set[str], nodes: int) -> None:
    """Raises Unproven unless every expected pod, by name, was placed exactly once.

    Args:
        values: the decisions as they came.
        expected: names of the pods that asked.
        nodes: number of nodes of each decision, none of them stale.
    """
    placed: set[str] = set()
    for value in values:
        decision = orjson.loads(value)
        name = decision["pod"]["name"]
        if decision["outcome"] != "placed" or decision["nodes"] != nodes:
            raise Unproven(f"{name} was not placed among {nodes} nodes: {value[:500]!r}")
        if decision["stale_nodes"]:
            raise Unproven(f"{name} met {decision['stale_nodes']} stale nodes")
        if name in placed:
            raise Unproven(f"{name} was placed twice")
        placed.add(name)
    if placed != expected:
        lost, strange = expected - placed, placed - expected
        raise Unproven(f"{len(lost)} requests have no decision; {len(strange)} have no request")


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
        process = make_worker(self._directory / f"{self._workers}", settings)
        with run_processes([process]):
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
                raise Unproven(
                    f"applied up to {applied}; expected {counts}; {worker.describe_log()}"
                )

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
