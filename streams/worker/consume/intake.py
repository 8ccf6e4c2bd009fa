"""Applies the records of the partitions in the order of their offsets.

Records that were applied before are dropped, so a stage gets each record once. Records that Faust has not
delivered are read from the broker first. A record is applied only when the pipeline has room for its batch.

A stage applies a list of records without interruption. So a batch is split into pieces of limited
duration, and the event loop runs between two pieces.
"""

import asyncio
import logging
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from connectors.kafka.partition_records import read_pieces
from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from streams.stage.records import AppliedBatch, InputRecord
from streams.worker.consume.batches import Batch
from streams.worker.packed_messages import EmptyOffsets, convert_to_input
from streams.worker.partitions import Partitions
from streams.worker.report.metrics import Metrics
from streams.worker.store.pipeline import PendingBatch, Pipeline

logger = logging.getLogger(__name__)

CLOCK_TOPIC = "clock"

#: Target duration of a piece, in seconds. Every piece is a batch in the journal; usual batches take less.
PIECE_S = 0.25
#: Size of a record without its key and value.
_RECORD_BYTES = 256
#: Size of the first piece after a start, and most bytes of a piece.
_PIECE_BYTES_FIRST = 32 * 1024
_PIECE_BYTES_MAX = 4 * 1024 * 1024


def split_at_gaps(
    records: Iterable[InputRecord],
    next_offset: Callable[[str, int], int],
    empty: EmptyOffsets,
) -> list[list[InputRecord]]:
    """Split records of one partition where records are missing, and drop records that were applied before.

    `next_offset` returns the next offset to apply of a topic and partition. Records are missing before each
    returned run except the first, which may be empty.
    """
    next_offsets: dict[str, int] = {}
    runs: list[list[InputRecord]] = [[]]
    for record in records:
        topic, partition = record.topic, record.partition
        if topic not in next_offsets:
            next_offsets[topic] = next_offset(topic, partition)
        expected = next_offsets[topic]
        while (end := empty.get((topic, partition, expected))) is not None:
            expected = end
        if record.offset < expected:
            continue
        if record.offset > expected:
            runs.append([])
        runs[-1].append(record)
        next_offsets[topic] = record.offset + 1
    return runs


class PieceSize:
    """Adapts the size of pieces so that a piece takes about `PIECE_S`.

    A sample takes 30 µs, but a request with hundreds of tolerations and affinity terms takes a fraction of a
    second. Such records are long, so the size is in bytes.
    """

    def __init__(self) -> None:
        self._bytes_max = _PIECE_BYTES_FIRST

    def take_piece(self, remaining: deque[InputRecord]) -> list[InputRecord]:
        """Remove and return the next piece, with at least one record if any record remains."""
        piece: list[InputRecord] = []
        size = 0
        while remaining and (not piece or size < self._bytes_max):
            piece.append(remaining.popleft())
            size += _count_bytes(piece[-1])
        return piece

    def adapt(self, piece: Sequence[InputRecord], seconds: float) -> None:
        """Adapt the size to the duration of a piece, except for a single record, which cannot be split."""
        if seconds > PIECE_S and len(piece) > 1:
            size = sum(map(_count_bytes, piece))
            self._bytes_max = max(_RECORD_BYTES, round(size * PIECE_S / seconds))
        elif seconds < PIECE_S / 2:
            self._bytes_max = min(2 * self._bytes_max, _PIECE_BYTES_MAX)


def _count_bytes(record: InputRecord) -> int:
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


class Intake:
    """Applies records to the partitions of a stage, and passes the results to the pipeline."""

    def __init__(
        self,
        partitions: Partitions,
        pipeline: Pipeline,
        settings: KafkaSettings,
        metrics: Metrics,
        *,
        check_ticks: bool = False,
    ) -> None:
        """With `check_ticks`, refuse clock ticks that are too far ahead of this worker's time."""
        self.partitions = partitions
        self._pipeline = pipeline
        self._settings = settings
        self._metrics = metrics
        self._check_ticks = check_ticks
        self._applying = asyncio.Lock()
        self._piece_size = PieceSize()

    async def apply_batch(self, batch: Batch) -> None:
        """Apply a batch, which is acknowledged when it is durable.

        Records of lost partitions are dropped: the new owner receives them.
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
            run, *later_runs = split_at_gaps(records, self.partitions.next_offset, batch.empty)
            for next_run in later_runs:
                if not await self._apply_pieces(run, generation):
                    return
                topic, end = next_run[0].topic, next_run[0].offset
                await self.apply_up_to(
                    topic, partition, end, math.inf, generation, undelivered=True
                )
                run = next_run
            complete += run
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
        """Read the records of a topic up to `end` (exclusive), and apply them before other records.

        Returns whether all records were applied: False after `until_s` of the monotonic clock, or if the generation
        has ended. `undelivered` means that Faust has failed to deliver the records, for metrics and the log.
        """
        if not self.partitions.is_current(generation):
            return False  # another worker may own the partition
        first = self.partitions.next_offset(topic, partition)
        count = 0
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                if time.monotonic() > until_s or not self.partitions.is_current(generation):
                    return False
                position = self.partitions.position(topic, partition)
                records = [convert_to_input(entry) for entry in entries]
                if not await self._apply_pieces(records, generation):
                    return False
                # Faust may have delivered some of the records meanwhile.
                new_count = sum(entry.offset > position for entry in entries)
                counter = self._metrics.healed if undelivered else self._metrics.read_ahead
                counter.labels(self.partitions.stage, topic).inc(new_count)
                count += new_count
        if undelivered and count:
            logger.warning(
                "%s, partition %d: read %d records from offset %d on, which were not delivered",
                topic,
                partition,
                count,
                first,
            )
        if not self.partitions.is_current(generation):
            return False
        next_offset = self.partitions.next_offset(topic, partition)
        if next_offset < end:
            self.partitions.skip_empty({(topic, partition, next_offset): end})
        return True

    async def make_durable(self) -> None:
        """Make all applied records durable; apply no records meanwhile."""
        async with self._applying:
            await self._pipeline.make_durable()

    async def _apply_pieces(
        self, records: Collection[InputRecord], generation: int, batch: Batch | None = None
    ) -> bool:
        """Apply records in pieces of limited duration; the last piece acknowledges the batch.

        Between two pieces, other tasks may apply records. Returns False after a rebalance: the remaining
        records are dropped, and their owner receives them again.
        """
        remaining = deque(records)
        while remaining or batch is not None:
            async with self._applying:
                await self._pipeline.wait_for_room()
                if not self.partitions.is_current(generation):
                    return False
                began_s = time.monotonic()
                piece = self._piece_size.take_piece(remaining)
                applied = self._apply_piece(piece)
                ended_batch = Batch() if remaining or batch is None else batch
                self.partitions.skip_empty(ended_batch.empty)
                report = partial(self._report_durable, applied, ended_batch)
                self._pipeline.add(PendingBatch(applied, began_s, report))
            if not remaining:
                return True
            await asyncio.sleep(0)
        return self.partitions.is_current(generation)

    def _apply_piece(self, piece: Sequence[InputRecord]) -> list[AppliedBatch]:
        by_partition: dict[int, list[InputRecord]] = defaultdict(list)
        for record in piece:
            # Another task may have read and applied some of the records meanwhile.
            if record.offset > self.partitions.position(record.topic, record.partition):
                by_partition[record.partition].append(record)
        began_s = time.thread_time()
        applied = [self._apply(partition, records) for partition, records in by_partition.items()]
        self._piece_size.adapt(piece, time.thread_time() - began_s)
        self.partitions.worked_at_s = time.monotonic()
        return applied

    def _apply(self, partition: int, records: Sequence[InputRecord]) -> AppliedBatch:
        if self._check_ticks:
            records = refuse_ticks_ahead(records, time.time_ns() // 1_000_000)
        return AppliedBatch(partition, records, self.partitions.stages[partition].apply(records))

    def _report_durable(self, applied: list[AppliedBatch], batch: Batch, seconds: float) -> None:
        self.partitions.worked_at_s = time.monotonic()
        batch.acknowledge()
        metrics, stage = self._metrics, self.partitions.stage
        if batch.records:
            by_topic = Counter(record.topic for record in batch.records)
            metrics.count_batch(stage, by_topic, seconds)
        for applied_batch in applied:
            metrics.count_result(stage, applied_batch.result)
            if (owned := self.partitions.stages.get(applied_batch.partition)) is not None:
                counts = owned.take_counts()
                metrics.add_counts(stage, counts)
                for cluster, policy in counts.policies.items():
                    logger.info("cluster %s: policy applied, %s", cluster, policy)
            metrics.observe_latency(stage, applied_batch.records)


def refuse_ticks_ahead(records: Sequence[InputRecord], now_ms: int) -> Sequence[InputRecord]:
    """Mark clock ticks as refused if they are too far ahead of the worker's clock.

    Otherwise one tick in the far future, from any client that may write to the topic, would stop the
    partition's clock.
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
