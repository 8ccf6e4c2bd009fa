"""Applies the records of the partitions in the order of their offsets.

Records that were applied before are dropped. Records that Faust has left out are read from the
broker and applied first. A record is applied only when the pipeline has room for its batch.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from streams.stage.records import AppliedBatch, InputRecord
from streams.worker.consume.batches import Batch
from streams.worker.partitions import EmptyOffsets, Partitions
from streams.worker.reader import read_pieces
from streams.worker.report.metrics import Metrics
from streams.worker.store.pipeline import Pipeline, UnderWay

logger = logging.getLogger(__name__)

CLOCK_TOPIC = "clock"


@dataclass(slots=True)
class Stretch:
    """Consecutive records, and what is missing before them."""

    missing: tuple[str, int, int] | None = None
    """Topic, first offset and end of records that were not delivered."""
    records: list[InputRecord] = field(default_factory=list)


def split_at_gaps(
    records: Iterable[InputRecord], first_offset: Callable[[str, int], int], empty: EmptyOffsets
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

    async def apply_batch(self, batch: Batch) -> None:
        """Apply a batch of Faust's, which is acknowledged when it is durable.

        Records of partitions that this worker has lost are dropped: their new owner receives them.
        """
        async with self._applying:
            if not self.partitions.recovered:
                return
            began_s = time.monotonic()
            by_partition: dict[int, list[InputRecord]] = defaultdict(list)
            for record in batch.records:
                if record.partition in self.partitions.stages:
                    by_partition[record.partition].append(record)
            complete = {
                partition: await self._fill_gaps(partition, records, batch.empty)
                for partition, records in by_partition.items()
            }
            await self._pipeline.wait_for_room()
            applied = [
                self._apply(partition, records)
                for partition, records in complete.items()
                if records
            ]
            self.partitions.pass_over(batch.empty)
            report = partial(self._report, applied, batch)
            self._pipeline.add(UnderWay(applied, began_s, report))

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
                async with self._applying:
                    late = time.monotonic() > until_s
                    if late or self.partitions.generation != generation:
                        return False
                    # Faust may have delivered some of them meanwhile.
                    position = self.partitions.position(topic, partition)
                    records = [
                        entry.as_input(topic, partition)
                        for entry in entries
                        if entry.offset > position
                    ]
                    if records:
                        await self._apply_alone(partition, records)
                        count(self.partitions.stage, topic, len(records))
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

    async def _fill_gaps(
        self, partition: int, records: list[InputRecord], empty: EmptyOffsets
    ) -> list[InputRecord]:
        """Apply the records up to the last gap; return those after it.

        However many are missing, no more than a piece of them is in memory.
        """
        first, *others = split_at_gaps(records, self.partitions.following, empty)
        rest = first.records
        for stretch in others:
            if rest:
                await self._apply_alone(partition, rest)
            if stretch.missing is not None:
                await self._read_missing(partition, *stretch.missing)
            rest = stretch.records
        return rest

    async def _read_missing(self, partition: int, topic: str, first: int, end: int) -> None:
        """Apply records that were not delivered; an offset may hold no record any more."""
        count = 0
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                records = [entry.as_input(topic, partition) for entry in entries]
                await self._apply_alone(partition, records)
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

    async def _apply_alone(self, partition: int, records: list[InputRecord]) -> None:
        """Apply records on their own, with no batch of Faust's to acknowledge."""
        await self._pipeline.wait_for_room()
        began_s = time.monotonic()
        applied = [self._apply(partition, records)]
        self._pipeline.add(UnderWay(applied, began_s, partial(self._report, applied, Batch())))

    def _apply(self, partition: int, records: Sequence[InputRecord]) -> AppliedBatch:
        if self._check_ticks:
            records = refuse_ticks_ahead(records, time.time_ns() // 1_000_000)
        return AppliedBatch(partition, records, self.partitions.stages[partition].apply(records))

    def _report(self, applied: list[AppliedBatch], batch: Batch, seconds: float) -> None:
        """Acknowledge and count what is durable."""
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
