"""Workers around the stages: they read, apply and write as production does, and stop at any point.

What a worker reads next is random, as far as topics may be ahead of each other. Only what a broker
would hold passes from one life to the next: journal, rows, and what was published.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from collections.abc import Sequence as Some
from dataclasses import replace
from random import Random

from schemas.messages.clock import ClockTick
from schemas.storage.tables import of_cluster
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage import journal
from streams.stage.checkpoint import Assembler, Checkpoint, Cutter, read_piece
from streams.stage.packing import put
from streams.stage.records import InputRecord, OutputRecord, RowChange, Stage, StageResult
from streams.worker.consume.intake import split_at_gaps
from streams.worker.consume.ticker import KNOWN_FIRST, LATE_S
from tests.faults.log import Log
from tests.faults.schedule import Schedule
from tests.faults.trace import PARTITIONS, Fault
from tests.fuzz.failure import Failure, raised, require

#: A record may be read this much before one of another topic that was written first.
SKEW_MS = 2_000
#: Topics that may lag as long as they like: metrics say themselves how old they are.
_LAGGING = ("node-metrics",)
_BATCHES = (1, 20, 100)
#: Batches after which rows are written, about.
_ROWS_EVERY = 10
#: So small that checkpoints come in many pieces.
_PIECE_BYTES = 4_000


class Worker(ABC):
    """One stage of one partition, and what it has made durable."""

    name: str
    topics: tuple[str, ...]

    def __init__(self, seed: int, log: Log, schedule: Schedule, partition: int) -> None:
        self.random = Random(f"{seed} {self.name} {partition}")
        self.log, self.schedule, self.partition = log, schedule, partition
        self.rows: dict[str, bytes] = {}
        self.applied = 0
        self.restarts = 0
        self._stop: Fault | None = None
        self._down_until_s = 0
        self.stage: Stage = self.build()

    @abstractmethod
    def build(self) -> Stage:
        """The stage of a new life."""

    @abstractmethod
    def write(self, batch: Some[InputRecord], result: StageResult, now_ms: int) -> None:
        """Make a batch durable; raises `Stopped` where it is to end."""

    @property
    def down(self) -> bool:
        """It does not run now."""
        return self.schedule.second < self._down_until_s and not self.schedule.over

    def step(self, now_ms: int) -> None:
        """Read and apply what is there, in batches of any size."""
        for fault in self.schedule.begins(f"{self.name} worker stops"):
            if fault.which % PARTITIONS == self.partition:
                self._stop = fault
        if not self.down:
            self.work(self.topics, now_ms)

    def work(self, topics: Some[str], now_ms: int) -> bool:
        """Apply what there is of these topics; False: the worker has stopped."""
        while delivered := self._read(topics):
            first, *gaps = split_at_gaps(delivered, self.stage.positions)
            require(not gaps, "a record was passed over", f"{gaps[:1]}")
            batch = first.records
            try:
                result = self.apply(batch)
                self.write(batch, result, now_ms)
            except Stopped:
                self.begin_again()
                return False
        return True

    def apply(self, batch: Some[InputRecord]) -> StageResult:
        """Apply a batch in memory."""
        try:
            result = self.stage.apply(batch)
        except Exception as error:
            raise raised(error, f"the {self.name} stage") from error
        self.applied += len(batch)
        self.stops("applied")
        return result

    def stops(self, where: str) -> None:
        """Stop here, if a fault says so; there are points that not every worker has."""
        fault = self._stop
        if fault is not None and where in (fault.name, "written"):
            self._down_until_s = self.schedule.second + fault.for_s
            self._stop = None
            raise Stopped

    def begin_again(self) -> None:
        """A new life, of which only what was made durable is known."""
        self.restarts += 1
        self.stage = self.build()

    def publish(self, outputs: Iterable[OutputRecord], now_ms: int) -> None:
        """Write outputs; stops after half of them."""
        outputs = list(outputs)
        for number, output in enumerate(outputs):
            if number == len(outputs) // 2 and number:
                self.stops("publishing")
            self.log.publish(output, now_ms)
        self.stops("published")

    def _read(self, topics: Some[str]) -> list[InputRecord]:
        positions = dict(self.stage.positions)
        most = self.random.choice(_BATCHES)
        lags = any(self.schedule.active("metrics lag"))
        heads = {
            topic: head
            for topic in topics
            if not (lags and topic in _LAGGING)
            and (head := self.log.after(topic, self.partition, positions.get(topic, -1)))
            is not None
        }
        batch: list[InputRecord] = []
        while heads and len(batch) < most:
            latest_ms = SKEW_MS + min(head.timestamp_ms for head in heads.values())
            near = [
                topic
                for topic, head in heads.items()
                if topic in _LAGGING or head.timestamp_ms <= latest_ms
            ]
            topic = near[int(self.random.random() * len(near))]
            record = heads.pop(topic)
            batch.append(record)
            head = self.log.after(topic, self.partition, record.offset)
            if head is not None:
                heads[topic] = head
        return [*self._again(), *batch] if batch else []

    def _again(self) -> list[InputRecord]:
        """Kafka may deliver again what was applied already."""
        fault = self.schedule.strikes("records are delivered again")
        known = [(topic, offset) for topic, offset in self.stage.positions.items() if offset >= 0]
        if fault is None or not known:
            return []
        topic, offset = self.schedule.random(fault).choice(sorted(known))
        return self.log.since(topic, self.partition, max(0, offset - 2))[:1]


class Stopped(Exception):
    """A worker ends here."""


class ClusterWorker(Worker):
    """The cluster stage: journal first, then outputs, then rows; it writes the clock."""

    name = "cluster"
    topics = CLUSTER_INPUTS

    stage: ClusterStage

    def __init__(self, seed: int, log: Log, schedule: Schedule, partition: int) -> None:
        self.journal: list[bytes] = []
        self.emitted: list[OutputRecord] = []
        """What batches in the journal have put out, to be redone alike."""
        self._written = journal.Place()
        """What the rows reflect."""
        self._place = journal.Place()
        super().__init__(seed, log, schedule, partition)

    def build(self) -> ClusterStage:
        """Open the journal, redo its tail over the rows, publish it again, go on."""
        self.journal.append(journal.opening(self.partition))
        tail = self.redo()
        rows = list(self.rows.items())
        self.random.shuffle(rows)
        for output in tail.outputs:
            self.log.publish(output, self.schedule.now_ms)
        return ClusterStage.restored(self.partition, PARTITIONS, dict(rows), self._recall)

    def _recall(self, cluster: str) -> dict[str, bytes]:
        """The rows of a cluster that is to be put together anew."""
        self.redo()
        return {
            key: value
            for key, value in self.rows.items()
            if of_cluster(key, self.partition, cluster)
        }

    def redo(self) -> journal.Tail:
        """Let the rows be as the journal leaves them."""
        first = self._written.offset + 1
        try:
            tail = journal.follow(self._written, enumerate(self.journal[first:], first))
        except journal.JournalDamaged as damaged:
            raise Failure("the journal cannot be followed", str(damaged)) from damaged
        put(self.rows, [RowChange(key, value) for key, value in tail.rows.items()])
        self._written = self._place = tail.place
        return tail

    def step(self, now_ms: int) -> None:
        """Write the clock, and work."""
        if any(self.schedule.active("cluster worker stands still")) or self.down:
            return
        # Time that was lost is made up for first, as the worker's ticker does.
        late = self.stage.now_ms is None or now_ms - self.stage.now_ms > 1000 * LATE_S
        if late and not self.work(KNOWN_FIRST, now_ms):
            return
        self.log.say("clock", ClockTick(partition=self.partition, now_ms=now_ms), now_ms)
        if not late or self.work(("clock",), now_ms):
            super().step(now_ms)

    def write(self, batch: Some[InputRecord], result: StageResult, now_ms: int) -> None:
        """Journal first."""
        records = journal.batch(self.partition, self._place, batch, result)
        if any(
            fault.which % PARTITIONS == self.partition
            for fault in self.schedule.begins("cluster worker fails over")
        ):
            self._fail_over(records)
        self.journal += records
        offset = len(self.journal) - 1
        self._place = replace(self._place, sequence=self._place.sequence + 1, offset=offset)
        self.emitted += [*result.outputs, *result.dead_letters]
        self.stops("journaled")
        self.publish((*result.outputs, *result.dead_letters), now_ms)
        if self.random.random() < 1 / _ROWS_EVERY:
            self.redo()
        self.stops("written")

    def _fail_over(self, records: Some[bytes]) -> None:
        """Another worker has taken over before this one, which does not know it yet, writes."""
        if self._failed_over_s == self.schedule.second:
            return
        self._failed_over_s = self.schedule.second
        self.journal.append(journal.opening(self.partition))
        self.journal += records
        raise Stopped

    _failed_over_s = -1

    def checkpoint(self) -> Checkpoint:
        """What the rows are now, written in pieces and read again."""
        self.redo()
        rows = self.rows.items()
        cutter = Cutter(self.partition, self._place, self.stage.now_ms, _PIECE_BYTES)
        assembler = Assembler(self._place)
        whole: Checkpoint | None = None
        for value in (*cutter.take(rows), *cutter.close()):
            piece = read_piece(self.partition, value)
            whole = None if piece is None else assembler.take(*piece)
        require(whole is not None, "a checkpoint is not whole")
        assert whole is not None
        return whole


class AggregateWorker(Worker):
    """The aggregate stage: outputs, then rows."""

    name = "aggregate"
    topics = ("node-usage",)

    stage: AggregateStage

    def __init__(self, seed: int, log: Log, schedule: Schedule, partition: int) -> None:
        self.history: list[InputRecord] = []
        """What was applied for good, in its order."""
        self.emitted: list[bytes] = []
        """What came of it."""
        super().__init__(seed, log, schedule, partition)

    def build(self) -> AggregateStage:
        """The stage as its rows say."""
        return self.restored()

    def restored(self) -> AggregateStage:
        """A stage of the rows alone."""
        state = restore(self.partition, self.rows, Collecting())
        return AggregateStage(state, PARTITIONS, AggregateLimits())

    def write(self, batch: Some[InputRecord], result: StageResult, now_ms: int) -> None:
        """Outputs first."""
        outputs = (*result.outputs, *result.dead_letters)
        self.publish(outputs, now_ms)
        put(self.rows, result.rows)
        self.history += batch
        self.emitted += [output.value for output in outputs]
        self.stops("written")
