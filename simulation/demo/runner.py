"""Runs a scenario against a real worker: the broker, the worker's process, and a run in lock-step.

Records of one topic go to the broker, and the run waits until the journal names their offsets as
applied. The worker's answers are read from the journal, in the order in which they were decided. So
the result of a run depends on its scenario alone: a slow machine takes longer for the same
decisions. Whatever happens, the broker and the worker are gone at the end.
"""

import hashlib
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import connect
from connectors.kafka.extents import extents_of
from connectors.kafka.reader import Gap, Reader, Record
from connectors.kafka.sender import Sender
from connectors.kafka.topics import EMBEDDED_PARTITIONS
from connectors.process.wall_clock import now_ms
from schemas.base.message import Message
from schemas.base.refusals import Refusal
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.rounds import RebalanceRound
from schemas.settings.announcement import AlreadyAnnounced, announce
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from schemas.topics.partitions import partition_for
from simulation.demo.course import Course
from simulation.demo.display import Display
from simulation.demo.scenario import CLUSTER, Scenario
from simulation.demo.session import READ_TOPICS, Session
from simulation.demo.status import Status
from simulation.demo.worker import WorkerProcess
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.stage import journal
from streams.stage.journal_records import Batch
from streams.stage.records import InputRecord

#: The worker must apply a first record within this time,
_START_TIMEOUT_S = 50.0
#: and each later one within this time.
_SILENCE_TIMEOUT_S = 20.0
_POLL_S = 0.05
#: What is written down as it is read, and where.
_KEPT: dict[type[Message], str] = {
    PlacementDecision: "decisions.jsonl",
    EvictionCommand: "evictions.jsonl",
    RebalanceRound: "rounds.jsonl",
}
_SAMPLES, _METRICS, _JOURNAL, _REFUSED = "node-usage", "node-metrics", "journal", "dead-letters"


class WorkerSilent(RuntimeError):
    """The worker runs and does not answer; the message holds the last lines of its log."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is left of a run."""

    session: Session
    real_s: float
    """Real time from the worker's first answer to the end."""
    digest: str
    """Of everything that the cluster stage decided, in order."""
    interrupted: bool


def run(scenario: Scenario, output: Path, display: Display) -> Run:
    """Run a scenario, and write decisions, evictions and rounds to `output`.

    Raises WorkerDied, WorkerSilent or BrokerUnavailable. An interrupt ends the run early and is no
    error.
    """
    policy = output / "policy.yaml"
    policy.write_text(scenario.policy_text, encoding="utf-8")
    with ExitStack() as stack:
        stack.enter_context(_terminable())
        broker = stack.enter_context(EmbeddedBroker())
        note = _announce(stack, broker.bootstrap_servers)
        settings = {
            "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "LOADSTREAM_KAFKA_PARTITIONS": str(EMBEDDED_PARTITIONS),
            "LOADSTREAM_LOG_FORMAT": "console",
            "LOADSTREAM_WORKER_CLOCK": "external",
            "LOADSTREAM_WORKER_COLLECT_FILE": str(policy.absolute()),
            "LOADSTREAM_WORKER_DATA_DIR": str((output / "worker").absolute()),
            # The embedded broker does not wake a waiting fetch.
            "LOADSTREAM_WORKER_FETCH_WAIT_MS": "10",
        }
        worker = stack.enter_context(WorkerProcess(settings, output / "worker.log"))
        stages = stack.enter_context(_WorkerStages(broker.settings, worker))
        files = {
            kind: stack.enter_context((output / name).open("wb")) for kind, name in _KEPT.items()
        }

        def deliver(topic: str, messages: list[Any]) -> Iterator[Any]:
            for answer in stages.deliver(topic, messages):
                if (file := files.get(type(answer))) is not None:
                    file.write(encode(answer) + b"\n")
                yield answer

        course = Course(scenario, deliver, stages.partition)
        session, interrupted = course.session, False
        try:
            with display:
                display.show(session, Status("starting", 0.0, note))
                for _ in course.steps():
                    display.show(session, Status("running", stages.real_s, note))
        except KeyboardInterrupt:
            interrupted = True
        return Run(session, stages.real_s, stages.digest.hexdigest(), interrupted)


class _WorkerStages:
    """The stages of a worker process, fed through its topics; a context manager."""

    def __init__(self, settings: KafkaSettings, worker: WorkerProcess) -> None:
        self.partition = partition_for(CLUSTER.encode(), EMBEDDED_PARTITIONS)
        self.digest = hashlib.sha256()
        self._worker = worker
        self._connection = connect(settings)
        # The embedded broker hands out one batch of records at a fetch: few large ones are faster.
        self._sender = Sender(self._connection, linger_ms=5)
        self._reader = Reader(
            self._connection,
            {
                (_JOURNAL, self.partition): 0,
                (_METRICS, self.partition): 0,
                **{(_REFUSED, each): 0 for each in range(EMBEDDED_PARTITIONS)},
            },
            fetch_wait_ms=10,
        )
        self._journal = journal.Reader(journal.Place(), self.partition)
        self._sent: Counter[str] = Counter()
        self._applied: Counter[str] = Counter()
        """Records of each topic that the journal names as applied."""
        # The same fold as the worker's says how many metrics come of the samples.
        self._aggregates = [
            AggregateStage(
                PartitionState(number, Collecting(), first=True),
                EMBEDDED_PARTITIONS,
                AggregateLimits(),
                has_table=False,
            )
            for number in range(EMBEDDED_PARTITIONS)
        ]
        self._folded = [0] * EMBEDDED_PARTITIONS
        """Records that each of these has applied."""
        self._collected: list[tuple[bytes, bytes]] = []
        """Collect policies that the cluster stage has written for the aggregate stage."""
        self._written = self._metrics_read = 0
        self._began_s = time.monotonic()

    def __enter__(self) -> "_WorkerStages":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._sender.close()

    @property
    def real_s(self) -> float:
        """Real time since the worker's first answer."""
        return time.monotonic() - self._began_s if self._applied else 0.0

    def deliver(self, topic: str, messages: list[Any]) -> Iterator[Any]:
        """Send records of one topic; yield the answers until all of them are applied.

        Raises WorkerDied, WorkerSilent or BrokerUnavailable.
        """
        if topic == _SAMPLES:
            self._wait_for_collect_policies()
        for message in messages:
            self._sender.send(topic, message)
        self._sender.flush()
        if topic == _SAMPLES:
            records = [(key_of(topic, each).encode(), encode(each)) for each in messages]
            topic, count = _METRICS, self._fold(records)
        else:
            count = len(messages)
        self._sent[topic] += count
        waited_s = time.monotonic()
        while self._applied[topic] < self._sent[topic] or self._metrics_read < self._sent[_METRICS]:
            for record in self._reader.poll(_POLL_S):
                if isinstance(record, Gap):
                    raise WorkerSilent(f"the broker has dropped records: {record}")
                yield from self._read(record)
            self._check(topic, waited_s)

    def _read(self, record: Record) -> Iterator[Any]:
        if record.topic != _JOURNAL:
            self._metrics_read += record.topic == _METRICS
            yield _message(record.topic, record.value)
            return
        batch = self._journal.take(record.offset, record.value)
        if batch is not None:
            yield from self._answers(batch)

    def _answers(self, batch: Batch) -> Iterator[Any]:
        if not self._applied:
            self._began_s = time.monotonic()
        for applied in batch.inputs:
            self._applied[applied.topic] = applied.last_offset + 1
        for output in batch.outputs:
            if output.topic == _SAMPLES:
                self._collected.append((output.key.encode(), output.value))
            elif output.topic in READ_TOPICS and output.topic != _REFUSED:
                self.digest.update(output.topic.encode() + output.value)
                yield _message(output.topic, output.value)

    def _wait_for_collect_policies(self) -> None:
        """Wait until collect policies stand before the samples that are sent next."""
        self._fold(self._collected)
        while self._collected:
            extents = extents_of(self._connection, _SAMPLES)
            if sum(each.next_offset for each in extents) >= self._written:
                self._collected = []

    def _fold(self, records: list[tuple[bytes, bytes]]) -> int:
        """Apply records of the samples' topic; return how many metrics come of them."""
        self._written += len(records)
        metrics = 0
        for key, value in records:
            number = partition_for(key, EMBEDDED_PARTITIONS)
            record = InputRecord(_SAMPLES, number, self._folded[number], key, value, now_ms())
            self._folded[number] += 1
            metrics += len(self._aggregates[number].apply([record]).outputs)
        return metrics

    def _check(self, topic: str, waited_s: float) -> None:
        self._worker.check()
        silent_s = time.monotonic() - waited_s
        if silent_s > (_SILENCE_TIMEOUT_S if self._applied else _START_TIMEOUT_S):
            raise WorkerSilent(
                f"the worker has applied {self._applied[topic]} of {self._sent[topic]} records of "
                f"{topic} and no other for {silent_s:.0f} s; {self._worker.last_words()}"
            )


def _message(topic: str, value: bytes | None) -> Any:
    message = decode(topic, value)
    if isinstance(message, Refusal):
        raise TypeError(
            f"the worker wrote a record of {topic} that cannot be read: {message.reason}"
        )
    return message


def _announce(stack: ExitStack, bootstrap_servers: str) -> str:
    """Announce the broker, so that other commands find it; says how to look at its records."""
    look = "loadstream topic tail placement-decisions"
    try:
        stack.enter_context(announce(bootstrap_servers))
    except (AlreadyAnnounced, OSError):
        return (
            f"in a second terminal: LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS={bootstrap_servers} {look}"
        )
    return f"in a second terminal: {look}"


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the run as Ctrl-C does, with everything that was started."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
