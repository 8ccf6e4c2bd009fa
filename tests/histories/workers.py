"""Workers around the stages: they read, apply and write as production does, and stop at any point.

Only what a broker holds passes from one life of a worker to the next: the journal, the rows, and
what was published. What a worker reads next is random, since there is no order between topics; it
never reads a record long before a record of another topic that is older.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from schemas.base.limits import BATCH_BYTES_MAX, VALUE_BYTES_MAX
from schemas.messages.clock import ClockTick
from schemas.storage.tables import is_of_cluster
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage import journal
from streams.stage.checkpoint import Checkpoint, CheckpointDecoder, CheckpointEncoder, read_piece
from streams.stage.packing import apply_changes
from streams.stage.records import (
    AppliedBatch,
    InputRecord,
    OutputRecord,
    RowChange,
    Stage,
)
from streams.worker.consume.intake import refuse_ticks_ahead, split_at_gaps
from streams.worker.consume.ticker import APPLIED_FIRST, LATE_S
from tests.histories.failure import Failure, describe_exception, require
from tests.histories.log import PARTITION, PARTITIONS, Log
from tests.histories.outside import Faults
from tests.streams.builders import collect_policy
from tests.streams.journaled import Tail, read_tail

#: A record may be read so much earlier than an older record of another topic.
SKEW_MS = 2_000
_BATCH_SIZES = (1, 20, 100)
#: Probability that rows are written after a batch.
_ROWS_WRITTEN = 0.1
#: So small that checkpoints have many pieces.
_PIECE_BYTES = 4_000

#: Windows and limits of the aggregate stage that short histories reach.
COLLECTING = PoolRules(collect_policy(report_s=10), {"slow": collect_policy(60, 90, (120,))})
AGGREGATE_LIMITS = AggregateLimits(
    forget_after_ms=300_000,
    sweep_records=16,
    nodes_per_partition=25,
    samples_per_node=60,
    resources_per_node=12,
    pods_per_node=100,
    metric_bytes=20_000,
)


class _Stopped(Exception):
    """The worker stops here."""


class Worker(ABC):
    """One stage, and what its worker has made durable."""

    topics: tuple[str, ...]
    #: Points of a batch at which the worker may stop.
    stops: tuple[str, ...]

    def __init__(self, seed: int, log: Log, faults: Faults) -> None:
        self._random = Random(f"{seed} {type(self).__name__}")
        self.log, self.faults = log, faults
        self.rows: dict[str, bytes] = {}
        self.durable: list[AppliedBatch] = []
        """Batches made durable and not yet taken by the reference stage."""
        self.restarts = 0
        self._stop_at = ""
        self._seconds_down = 0
        self._starts_at_ms = 0
        self.stage: Stage = self.start()

    @abstractmethod
    def start(self) -> Stage:
        """Return the stage of a new life."""

    @abstractmethod
    def write(self, batch: AppliedBatch) -> None:
        """Make a batch durable; raises _Stopped."""

    def plan_stop(self, random: Random) -> None:
        """Stop during the next batch."""
        self._stop_at = random.choice(self.stops)
        self._seconds_down = random.choice((0, 0, 10, 100))

    @property
    def is_down(self) -> bool:
        return self.faults.now_ms < self._starts_at_ms

    def end_outage(self) -> None:
        self._stop_at, self._starts_at_ms = "", 0

    def work(self, topics: Sequence[str] | None = None) -> None:
        """Read and apply what there is, in batches of random sizes."""
        while not self.is_down:
            batch = self._read(self.topics if topics is None else topics)
            if not batch:
                return
            try:
                self._apply(batch)
            except _Stopped:
                self.restart()

    def restart(self) -> None:
        """Begin a new life with what was made durable."""
        self.restarts += 1
        self.stage = self.start()

    def publish(self, outputs: Sequence[OutputRecord]) -> None:
        for number, output in enumerate(outputs):
            if number and number == len(outputs) // 2:
                self.stop_if_planned("publishing")
            require(
                len(output.value) <= VALUE_BYTES_MAX, f"a record of {output.topic} is too large"
            )
            self.log.publish(output, self.faults.now_ms)
        self.stop_if_planned("published")

    def stop_if_planned(self, point: str) -> None:
        if self._stop_at == point:
            self._stop_at = ""
            self._starts_at_ms = self.faults.now_ms + 1_000 * self._seconds_down
            raise _Stopped

    def put_rows(self, changes: Iterable[RowChange]) -> None:
        changes = list(changes)
        apply_changes(self.rows, changes)
        for change in changes:
            size = len(self.rows.get(change.key, b""))
            require(size <= BATCH_BYTES_MAX, "a row is too large for the changelog", change.key)

    def shuffle_rows(self) -> dict[str, bytes]:
        """Return the rows in a random order, as a table gives them."""
        rows = list(self.rows.items())
        self._random.shuffle(rows)
        return dict(rows)

    def _apply(self, batch: list[InputRecord]) -> None:
        try:
            result = self.stage.apply(batch)
        except Exception as error:
            raise describe_exception(error, f"the stage of {type(self).__name__}") from error
        self.stop_if_planned("applied")
        self.write(AppliedBatch(PARTITION, batch, result))
        self.stop_if_planned("written")

    # --- reading ----------------------------------------------------------------------------------

    def _read(self, topics: Sequence[str]) -> list[InputRecord]:
        heads: dict[str, InputRecord] = {}
        for topic in topics:
            head = self.log.get(topic, self.stage.positions.get(topic, -1) + 1)
            if head is not None and not (topic == "node-metrics" and self._reads_metrics_late):
                heads[topic] = head
        batch: list[InputRecord] = []
        size = self._random.choice(_BATCH_SIZES)
        while heads and len(batch) < size:
            limit_ms = SKEW_MS + min(head.timestamp_ms for head in heads.values())
            near = [topic for topic, head in heads.items() if head.timestamp_ms <= limit_ms]
            record = heads.pop(self._random.choice(near))
            batch.append(record)
            head = self.log.get(record.topic, record.offset + 1)
            if head is not None:
                heads[record.topic] = head
        return self._deliver(refuse_ticks_ahead(batch, self.faults.now_ms)) if batch else []

    @property
    def _reads_metrics_late(self) -> bool:
        return self.faults.lasts("metrics are read late")

    def _deliver(self, batch: Sequence[InputRecord]) -> list[InputRecord]:
        """Deliver old records before a batch; the intake of the worker must drop them."""
        fault = self.faults.strikes("records are delivered again")
        topics = sorted(topic for topic, offset in self.stage.positions.items() if offset >= 0)
        if fault is not None and topics:
            topic = fault.choice(topics)
            old = self.log.get(topic, self.stage.positions[topic])
            assert old is not None
            batch = [old, *batch]
        positions = self.stage.positions
        first, *gaps = split_at_gaps(batch, lambda topic, _: positions.get(topic, -1) + 1, {})
        require(not gaps, "the worker passes over a record", gaps)
        return first


class ClusterWorker(Worker):
    """Writes the journal, then outputs, then rows; it also writes the clock."""

    topics = CLUSTER_INPUTS
    stops = ("applied", "journaled", "publishing", "published", "written")
    stage: ClusterStage

    def __init__(self, seed: int, log: Log, faults: Faults) -> None:
        self.journal: list[bytes] = []
        self._written = journal.JournalPosition()
        """The place of the journal that the rows reflect."""
        self._place = journal.JournalPosition()
        self.fails_over = False
        super().__init__(seed, log, faults)

    def start(self) -> ClusterStage:
        """Open the journal, redo its tail over the rows, and publish its outputs again."""
        self.journal.append(journal.encode_opening(PARTITION))
        for output in self.redo().outputs:
            self.log.publish(output, self.faults.now_ms)
        return self.restore()

    def restore(self) -> ClusterStage:
        """Return a stage that is put together from the rows."""
        return ClusterStage.restore(PARTITION, PARTITIONS, self.shuffle_rows(), self._recall)

    def _recall(self, cluster: str) -> dict[str, bytes]:
        self.redo()
        return {
            key: row for key, row in self.rows.items() if is_of_cluster(key, PARTITION, cluster)
        }

    def redo(self) -> Tail:
        """Bring the rows to the end of the journal."""
        first = self._written.offset + 1
        try:
            reader = journal.JournalReader(self._written, PARTITION)
            tail = read_tail(reader, enumerate(self.journal[first:], first))
        except journal.JournalDamaged as damaged:
            raise Failure("the journal cannot be followed", str(damaged)) from damaged
        self.put_rows(RowChange(key, value) for key, value in tail.rows.items())
        self._written = self._place = tail.position
        return tail

    def tick(self, now_ms: int) -> None:
        """Write the time. After an outage, apply what has happened first."""
        if self.is_down or self.stands_still:
            return
        if self.stage.now_ms is None or now_ms - self.stage.now_ms > 1_000 * LATE_S:
            self.work(APPLIED_FIRST)
            self.log.send("clock", ClockTick(partition=PARTITION, now_ms=now_ms), now_ms)
            self.work(("clock",))
        else:
            self.log.send("clock", ClockTick(partition=PARTITION, now_ms=now_ms), now_ms)

    @property
    def stands_still(self) -> bool:
        return self.faults.lasts("the cluster worker stands still")

    def work(self, topics: Sequence[str] | None = None) -> None:
        if not self.stands_still:
            super().work(topics)

    def write(self, batch: AppliedBatch) -> None:
        records = journal.encode_batch(PARTITION, self._place, batch.records, batch.result)
        if self.fails_over:
            # A successor has opened the journal; this worker does not know it yet and writes.
            self.fails_over = False
            self.journal += [journal.encode_opening(PARTITION), *records]
            raise _Stopped
        for record in records:
            require(len(record) <= VALUE_BYTES_MAX, "a journal record is too large")
        self.journal += records
        offset = len(self.journal) - 1
        self._place = replace(self._place, sequence=self._place.sequence + 1, offset=offset)
        self.durable.append(batch)
        self.stop_if_planned("journaled")
        self.publish(batch.result.published)
        if self._random.random() < _ROWS_WRITTEN:
            self.redo()

    def take_checkpoint(self) -> Checkpoint:
        """Return a checkpoint that was written in pieces and read again."""
        self.redo()
        encoder = CheckpointEncoder(PARTITION, self._place, self.stage.now_ms, _PIECE_BYTES)
        decoder = CheckpointDecoder(self._place)
        whole: Checkpoint | None = None
        for value in (*encoder.add(self.rows.items()), *encoder.close()):
            piece = read_piece(PARTITION, value)
            whole = None if piece is None else decoder.feed(*piece)
        require(whole is not None, "a checkpoint is not whole")
        assert whole is not None
        return whole


class AggregateWorker(Worker):
    """Writes outputs, then rows."""

    topics = ("node-usage",)
    stops = ("applied", "publishing", "published", "written")
    stage: AggregateStage

    def start(self) -> AggregateStage:
        state = restore(PARTITION, self.shuffle_rows(), COLLECTING)
        return AggregateStage(state, PARTITIONS, AGGREGATE_LIMITS)

    def write(self, batch: AppliedBatch) -> None:
        self.publish(batch.result.published)
        self.put_rows(batch.result.rows)
        self.durable.append(batch)
