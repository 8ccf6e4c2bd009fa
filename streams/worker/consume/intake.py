"""Applies the records of the partitions in the order of their offsets.

Records that were applied before are dropped. Records that Faust has left out are read from the
broker and applied first. A record is applied only when the pipeline has room for its batch.

A stage applies records in one go. So that the event loop turns, time goes on and partitions can be given
back whatever records cost, a batch is cut into pieces of a bounded time.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from streams.stage.records import AppliedBatch, InputRecord
from streams.worker.consume.batches import Batch
from streams.worker.parcels import EmptyOffsets
from streams.worker.partitions import Partitions
from streams.worker.reader import as_input, read_pieces
from streams.worker.report.metrics import Metrics
from streams.worker.store.pipeline import Pipeline, UnderWay

logger = logging.getLogger(__name__)

CLOCK_TOPIC = "clock"

#: Time after which the event loop turns between two pieces of a batch, in seconds. Each is a batch of its own in the
#: journal, so a batch of usual records, which takes less, stays one.
PIECE_S = 0.25
#: Bytes that a record counts for besides its key and value.
_RECORD_BYTES = 256
#: Bytes of the first piece after a start, and most bytes of a piece.
_PIECE_BYTES_FIRST = 32 * 1024
_PIECE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(slots=True)
class Stretch:
    """Consecutive records, and what is missing before them."""

    missing: tuple[str, int, int] | None = None
    """Topic, first offset and end of records that were not delivered."""
    records: list[InputRecord] = field(default_factory=list)


def split_at_gaps(
    records: Iterable[InputRecord],
    first_offset: Callable[[str, int], int],
    empty: EmptyOffsets,
) -> tuple[Stretch, ...]:
    """Split records of one partition where records are missing, and drop those applied before.

    `first_offset` says from which offset of a topic and partition records are wanted. Only the first
    stretch has nothing missing.
    """
    following: dict[str, int] = {}
    stretches = [Stretch()]
    for record in records:
        topic, partition = record.topic, record.partition
        if topic not in following:
            following[topic] = first_offset(topic, partition)
        expected = following[topic]
        while (behind := empty.get((topic, partition, expected))) is not None:
            expected = behind
        if record.offset < expected:
            continue
        if record.offset > expected:
            stretches.append(Stretch((topic, expected, record.offset)))
        stretches[-1].records.append(record)
        following[topic] = record.offset + 1
    return tuple(stretches)


class PieceSize:
    """How many records are applied at once: as many as take `PIECE_S`, by the latest pieces.

    Costs differ a thousandfold: a sample takes 30 µs, and a request with hundreds of tolerations and
    affinity terms a fraction of a second. Such records are long, so sizes are counted in bytes.
    """

    def __init__(self) -> None:
        self._bytes_max = _PIECE_BYTES_FIRST

    def take(self, left: deque[InputRecord]) -> list[InputRecord]:
        """Take the next piece out of the records that are left: one record or more, if there are any."""
        piece: list[InputRecord] = []
        size = 0
        while left and (not piece or size < self._bytes_max):
            piece.append(left.popleft())
            size += _count_bytes(piece[-1])
        return piece

    def measure(self, piece: Sequence[InputRecord], seconds: float) -> None:
        """Adapt the size to what a piece took; one record cannot be made shorter."""
        if seconds > PIECE_S and len(piece) > 1:
            size = sum(map(_count_bytes, piece))
            self._bytes_max = max(_RECORD_BYTES, round(size * PIECE_S / seconds))
        elif seconds < PIECE_S / 2:
            self._bytes_max = min(2 * self._bytes_max, _PIECE_BYTES_MAX)


def _count_bytes(record: InputRecord) -> int:
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


class Intake:
    """Applies records to the partitions of a stage, and gives the results to the pipeline."""

    def __init__(
        self,
        partitions: Partitions,
        pipeline: Pipeline,
        settings: KafkaSettings,
        metrics: Metrics,
        *,
        check_ticks: bool = False,
    ) -> None:
        """`check_ticks`: refuse clock ticks that are too far ahead of this worker's time."""
        self.partitions = partitions
        self._pipeline = pipeline
        self._settings = settings
        self._metrics = metrics
        self._check_ticks = check_ticks
        self._applying = asyncio.Lock()
        self._piece_size = PieceSize()

    async def apply_batch(self, batch: Batch) -> None:
        """Apply a batch of Faust's, which is acknowledged when it is durable.

        Records of partitions that this worker has lost are dropped: their new owner receives them.
        """
        if not self.partitions.recovered:
            return
        generation = self.partitions.generation
        by_partition: dict[int, list[InputRecord]] = defaultdict(list)
        for record in batch.records:
            if record.partition in self.partitions.stages:
                by_partition[record.partition].append(record)
        complete: list[InputRecord] = []
        for partition, records in by_partition.items():
            first, *others = split_at_gaps(records, self.partitions.following, batch.empty)
            rest = first.records
            # However many are missing, no more than a piece of them is in memory.
            for stretch in others:
                if not await self._apply_pieces(rest, generation):
                    return
                if stretch.missing is not None:
                    await self._read_missing(partition, *stretch.missing, generation)
                rest = stretch.records
            complete += rest
        await self._apply_pieces(complete, generation, batch)

    async def apply_up_to(
        self,
        topic: str,
        partition: int,
        end: int,
        until_s: float,
        generation: int,
        *,
        undelivered: bool = False,
    ) -> bool:
        """Read a topic's records below `end` and apply them before all others.

        Faust delivers these records too late then, or not at all if they are `undelivered`.
        `generation` is the one in which the caller saw the partition here. Return whether all were
        applied: not after `until_s`, and not once partitions were taken away since that generation,
        whether during the call or before it.
        """
        count = self._metrics.count_undelivered if undelivered else self._metrics.count_read_ahead
        if self.partitions.generation != generation:
            return False  # the partition may be another worker's by now
        first = self.partitions.following(topic, partition)
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                if time.monotonic() > until_s or self.partitions.generation != generation:
                    return False
                position = self.partitions.position(topic, partition)
                records = [as_input(entry) for entry in entries]
                if not await self._apply_pieces(records, generation):
                    return False
                # Faust may have delivered some of them meanwhile.
                count(self.partitions.stage, topic, sum(each.offset > position for each in entries))
        if self.partitions.generation != generation:
            return False
        following = self.partitions.following(topic, partition)
        if following < end:
            self.partitions.pass_over({(topic, partition, following): end})
        return True

    async def settle(self) -> None:
        """Make all that was applied durable; nothing else is applied meanwhile."""
        async with self._applying:
            await self._pipeline.settle()

    async def _read_missing(
        self, partition: int, topic: str, first: int, end: int, generation: int
    ) -> None:
        """Apply records that were not delivered; an offset may hold no record any more."""
        count = 0
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                records = [as_input(entry) for entry in entries]
                if not await self._apply_pieces(records, generation):
                    return
                count += len(records)
        if count:
            logger.warning(
                "%s, partition %d: read %d records from offset %d that were not delivered",
                topic,
                partition,
                count,
                first,
            )
            self._metrics.count_undelivered(self.partitions.stage, topic, count)

    async def _apply_pieces(
        self, records: Collection[InputRecord], generation: int, batch: Batch | None = None
    ) -> bool:
        """Apply records that follow what was applied, in pieces of a bounded time; drop repeated ones.

        Others may apply records between two pieces, and the event loop turns. The last piece
        acknowledges the batch. False: partitions were taken away since that generation, and the rest
        is dropped; it comes again, to this worker or another.
        """
        left = deque(records)
        while left or batch is not None:
            async with self._applying:
                await self._pipeline.wait_for_room()
                if self.partitions.generation != generation:
                    return False
                began_s = time.monotonic()
                piece = self._piece_size.take(left)
                applied = self._apply_piece(piece)
                ended = Batch() if left or batch is None else batch
                self.partitions.pass_over(ended.empty)
                report = partial(self._report, applied, ended)
                self._pipeline.add(UnderWay(applied, began_s, report))
            if not left:
                return True
            await asyncio.sleep(0)
        return self.partitions.generation == generation

    def _apply_piece(self, piece: Sequence[InputRecord]) -> list[AppliedBatch]:
        by_partition: dict[int, list[InputRecord]] = defaultdict(list)
        for record in piece:
            if record.offset > self.partitions.position(record.topic, record.partition):
                by_partition[record.partition].append(record)
        began_s = time.thread_time()
        applied = [self._apply(partition, fresh) for partition, fresh in by_partition.items()]
        self._piece_size.measure(piece, time.thread_time() - began_s)
        self.partitions.worked_at_s = time.monotonic()
        return applied

    def _apply(self, partition: int, records: Sequence[InputRecord]) -> AppliedBatch:
        if self._check_ticks:
            records = refuse_ticks_ahead(records, time.time_ns() // 1_000_000)
        return AppliedBatch(partition, records, self.partitions.stages[partition].apply(records))

    def _report(self, applied: list[AppliedBatch], batch: Batch, seconds: float) -> None:
        """Acknowledge and count what is durable."""
        self.partitions.worked_at_s = time.monotonic()
        batch.acknowledge()
        metrics, stage = self._metrics, self.partitions.stage
        if batch.records:
            by_topic = Counter(record.topic for record in batch.records)
            metrics.count_batch(stage, by_topic, seconds)
        for each in applied:
            metrics.count_result(stage, each.result)
            if (state := self.partitions.stages.get(each.partition)) is not None:
                counts = state.take_counts()
                metrics.add_counts(stage, counts)
                for cluster, policy in counts.policies.items():
                    logger.info("cluster %s: policy applied, %s", cluster, policy)
            metrics.observe_latency(stage, each.records)


def refuse_ticks_ahead(records: Sequence[InputRecord], now_ms: int) -> Sequence[InputRecord]:
    """Mark clock ticks that are too far ahead of the worker's time as refused.

    Otherwise a client that may write to the topic could stop a partition's time, by one tick in the
    far future.
    """
    return [
        replace(record, refused_at_ms=now_ms)
        if record.topic == CLOCK_TOPIC and _is_ahead(record.value, now_ms)
        else record
        for record in records
    ]


def _is_ahead(value: bytes | None, now_ms: int) -> bool:
    tick = decode(CLOCK_TOPIC, value)
    return isinstance(tick, ClockTick) and tick.now_ms > now_ms + AHEAD_MAX_MS
