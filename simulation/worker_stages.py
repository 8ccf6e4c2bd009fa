"""The stages of a worker process, reached through its topics.

LockStepStages   waits until the worker has applied all records: for the demo
LiveStages       returns the worker's outputs since the last call: for `loadstream simulate`
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from connectors.kafka.client import BrokerUnavailable, Connection, connect
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.producer import OutgoingRecord, Sender
from connectors.kafka.reader import Gap, Reader, Record
from connectors.process.wall_clock import now_ms
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import RecordPlace
from schemas.topics.partitions import partition_for
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.in_process.pipeline import ProducedRecord
from streams.stage import journal
from streams.stage.journal import JournalBatch
from streams.stage.records import InputRecord

#: Longest wait for the first applied record, and for each later record, on a busy machine.
_START_TIMEOUT_S = 120.0
_SILENCE_TIMEOUT_S = 60.0
_POLL_S = 0.05
_SAMPLES, _METRICS, _JOURNAL, _REFUSED = "node-usage", "node-metrics", "journal", "dead-letters"
#: Outputs of the cluster stage that are returned.
_DECISION_TOPICS = ("placement-decisions", "eviction-commands", "status")


class WorkerSilent(RuntimeError):
    """The worker runs but applies no records; the message says how many it has applied."""


class LockStepStages:
    """Both stages of one worker, in lock-step with the caller; a context manager.

    Sends the records of one topic, and reads the journal of the cluster's partition until all of them are
    applied. Then it sends the records of the next topic. So decisions depend only on the records and not
    on the speed of the machine. The journal has the decisions in their order.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        cluster: str,
        check_worker: Callable[[], None],
        observe: Callable[[str, bytes], None],
    ) -> None:
        """Connect. Raises BrokerUnavailable.

        Args:
            settings: settings of the broker.
            cluster: name of the only cluster.
            check_worker: raises if the worker has ended.
            observe: is called with topic and value of each output of the cluster stage.
        """
        self._partitions = settings.partitions
        self.partition = partition_for(cluster.encode(), self._partitions)
        self.applied = 0
        self._check_worker = check_worker
        self._observe = observe
        self._connection = connect(settings)
        # The embedded broker returns one batch per fetch, so few large batches are faster.
        self._sender = Sender(self._connection, linger_ms=5)
        self._reader = Reader(
            self._connection,
            {
                (_JOURNAL, self.partition): 0,
                (_METRICS, self.partition): 0,
                **{(_REFUSED, partition): 0 for partition in range(self._partitions)},
            },
            fetch_wait_ms=10,
        )
        self._journal = journal.JournalReader(journal.JournalPosition(), self.partition)
        self._sent_counts: Counter[str] = Counter()
        self._journaled_counts: Counter[str] = Counter()
        """Number of applied records, by topic, as the journal shows it."""
        # Repeats the worker's aggregation, so the number of metrics to wait for is known.
        self._aggregate_stages = [
            AggregateStage(
                PartitionState(number, PoolRules(), first=True),
                self._partitions,
                AggregateLimits(),
                has_table=False,
            )
            for number in range(self._partitions)
        ]
        self._next_offsets = [0] * self._partitions
        """Offset of the next record of `node-usage`, by partition."""
        self._collect_policies: list[ProducedRecord] = []
        """Collect policies from the cluster stage for the aggregate stage."""
        self._metrics_read = 0

    def __enter__(self) -> "LockStepStages":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._sender.close()

    def apply(self, records: Sequence[ProducedRecord]) -> Iterator[tuple[str, bytes]]:
        """Send records, and yield outputs until all records are applied.

        Raises WorkerSilent, BrokerUnavailable, and the errors of `check_worker`.
        """
        topics = dict.fromkeys(record.topic for record in records)
        for topic in topics:
            yield from self._apply(topic, [record for record in records if record.topic == topic])
        self.applied += len(records)

    def _apply(self, topic: str, records: list[ProducedRecord]) -> Iterator[tuple[str, bytes]]:
        if topic == _SAMPLES:
            self._wait_for_collect_policies()
        self._sender.deliver(map(convert_record, records))
        count = len(records)
        if topic == _SAMPLES:
            topic, count = _METRICS, self._fold(records)
        self._sent_counts[topic] += count
        began_s = time.monotonic()
        while (
            self._journaled_counts[topic] < self._sent_counts[topic]
            or self._metrics_read < self._sent_counts[_METRICS]
        ):
            for record in self._reader.poll(_POLL_S):
                if isinstance(record, Gap):
                    raise WorkerSilent(f"the broker has dropped records: {record}")
                yield from self._read(record)
            self._check_progress(topic, began_s)

    def _read(self, record: Record) -> Iterator[tuple[str, bytes]]:
        if record.topic == _METRICS:
            self._metrics_read += 1
        elif record.topic == _REFUSED:
            yield _REFUSED, record.value or b""
        else:
            batch = self._journal.feed(record.offset, record.value)
            if isinstance(batch, JournalBatch):
                yield from self._read_batch(batch)

    def _read_batch(self, batch: JournalBatch) -> Iterator[tuple[str, bytes]]:
        for applied in batch.inputs:
            self._journaled_counts[applied.topic] = applied.last_offset + 1
        for output in batch.outputs:
            if output.topic == _SAMPLES:
                policy = ProducedRecord(_SAMPLES, output.key, output.value, now_ms())
                self._collect_policies.append(policy)
            elif output.topic in _DECISION_TOPICS:
                self._observe(output.topic, output.value)
                yield output.topic, output.value

    def _wait_for_collect_policies(self) -> None:
        """Wait until the collect policies are in the topic, because samples must follow them."""
        self._fold(self._collect_policies)
        while self._collect_policies:
            extents = read_topic_extents(self._connection, _SAMPLES)
            if sum(extent.next_offset for extent in extents) >= sum(self._next_offsets):
                self._collect_policies = []

    def _fold(self, records: Sequence[ProducedRecord]) -> int:
        """Apply records of `node-usage`; return the number of resulting metrics."""
        metrics = 0
        for produced in records:
            key = produced.key.encode()
            number = partition_for(key, self._partitions)
            offset = self._next_offsets[number]
            record = InputRecord(_SAMPLES, number, offset, key, produced.value, produced.written_ms)
            self._next_offsets[number] += 1
            metrics += len(self._aggregate_stages[number].apply([record]).outputs)
        return metrics

    def _check_progress(self, topic: str, began_s: float) -> None:
        self._check_worker()
        silent_s = time.monotonic() - began_s
        if silent_s > (_SILENCE_TIMEOUT_S if self._journaled_counts else _START_TIMEOUT_S):
            raise WorkerSilent(
                f"the worker has applied {self._journaled_counts[topic]} of {self._sent_counts[topic]} records of "
                f"{topic}, and none in the last {silent_s:.0f} s; see its log"
            )


class LiveStages:
    """Both stages of any worker that reads the topics; a context manager.

    The worker has its own clock, so no ticks are sent.
    """

    def __init__(self, connection: Connection, cluster: str) -> None:
        """Raises BrokerUnavailable, as `apply` does."""
        self.applied = 0
        self._cluster = cluster.encode()
        self._sender = Sender(connection, linger_ms=2)
        starts = {
            (topic, extent.partition): extent.next_offset
            for topic in ("placement-decisions", "eviction-commands")
            for extent in read_topic_extents(connection, topic)
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=20)

    def __enter__(self) -> "LiveStages":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._sender.close()

    def apply(self, records: Sequence[ProducedRecord]) -> Iterator[tuple[str, bytes]]:
        """Send records, and yield the outputs for the cluster since the last call."""
        sent = self._sender.send_records(
            convert_record(record) for record in records if record.topic != "clock"
        )
        self.applied += len(sent)
        if self._sender.has_failed:
            self._sender.flush()
        for record in self._reader.poll(_POLL_S):
            if isinstance(record, Gap):
                raise BrokerUnavailable(f"it has dropped records: {record}")
            if record.key == self._cluster and record.value is not None:
                yield record.topic, record.value


def convert_record(record: ProducedRecord) -> OutgoingRecord:
    partition = int(record.key) if record.topic == "clock" else None
    target = RecordPlace(record.key.encode(), partition, record.written_ms)
    return OutgoingRecord(record.topic, record.value, target)
