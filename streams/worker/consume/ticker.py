"""Writes the time to topic `clock`, for each partition that this worker owns.

The time of the cluster stage is the time of the last applied tick. So decisions depend on no wall clock, and
a replay has the same times. Written times do not decrease: if the worker's clock is set back, log time
stands still until the clock has caught up.

- **Ticks in the future.** `intake` refuses ticks that are too far ahead of the worker's clock. If a
  partition's time is ahead already, the worker continues to write the time of its clock. The stage ignores
  this time until it reaches the partition's time. Health reports this problem.
- **Order of ticks and events.** Topics have no common order, but a reservation must not expire while its
  confirmation waits to be read. So the worker takes a time together with the ends of the topics
  `APPLIED_FIRST` (a `PendingTick`), and writes the time when all records before these ends are applied.
  Records that are not applied within `DELIVERY_WAIT_S` are read before other records. After `hold_max_s` the
  time is written in any case.
- **After an outage** of the worker or the brokers, the topics `APPLIED_FIRST` are applied first, then a tick,
  then all other records. So no decision uses an outdated time or a replaced policy.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from connectors.kafka.extents import Brokers
from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import CLUSTER_INPUTS, TOPIC_BY_NAME
from schemas.topics.codec import encode
from streams.stage.records import OutputRecord
from streams.worker.consume.intake import CLOCK_TOPIC, Intake
from streams.worker.partitions import Partitions
from streams.worker.store.publisher import Publisher

logger = logging.getLogger(__name__)

#: Topics whose records are applied before a later tick.
APPLIED_FIRST = tuple(name for name in CLUSTER_INPUTS if TOPIC_BY_NAME[name].before_ticks)
#: Longest time that a tick waits for Faust to deliver records, in seconds; then the worker reads them.
DELIVERY_WAIT_S = 2.0
#: A partition without a tick for this time, in seconds, catches up before it applies a batch.
LATE_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class PendingTick:
    """A time to write, and the records to apply before it."""

    now_ms: int
    taken_at_s: float
    """The same time by the monotonic clock."""
    ends: Mapping[str, int]
    """Next offset of the topics `APPLIED_FIRST` at that time."""


class TickSettings(NamedTuple):
    interval_s: float
    hold_max_s: float
    """Longest time that a tick waits for records."""


class Ticker:
    def __init__(self, kafka: KafkaSettings, intake: Intake, ticks: TickSettings) -> None:
        self._publisher = Publisher(kafka)
        self.brokers = Brokers(kafka)
        self._intake = intake
        self._partitions = intake.partitions
        self._ticks = ticks
        self._written_ms: dict[int, int] = {}
        """Last written time by partition."""
        self._written_at_s: dict[int, float] = {}
        """The same times by the monotonic clock."""

    async def start(self) -> None:
        """Connect, unless connected."""
        await self._publisher.start()

    async def run(self) -> None:
        """Tick until cancelled."""
        await self.start()
        try:
            while True:
                if self._partitions.recovered:
                    await self.tick()
                await asyncio.sleep(self._ticks.interval_s)
        finally:
            await self.stop()

    async def stop(self) -> None:
        await self.brokers.leave()
        await self._publisher.stop()

    async def tick(self) -> None:
        """Write the present time to each partition, after earlier records of `APPLIED_FIRST`."""
        generation = self._partitions.generation
        self._partitions.problems.report("clock", _find_clocks_ahead(self._partitions))
        pending = await self._create_ticks()
        read_at_s = time.monotonic() + DELIVERY_WAIT_S
        while self._partitions.is_current(generation):
            ready = [
                partition
                for partition, tick in pending.items()
                if not self._find_unapplied(partition, tick)
            ]
            await self._write({partition: pending.pop(partition) for partition in ready})
            if not pending:
                return
            if time.monotonic() >= read_at_s:
                for partition, tick in pending.items():
                    await self._read_before_tick(generation, partition, tick)
                    if self._partitions.is_current(generation):
                        await self._write({partition: tick})
                return
            await asyncio.sleep(_POLL_S)

    @property
    def is_late(self) -> bool:
        """Whether any partition has had no tick for `LATE_S`."""
        late_s = time.monotonic() - LATE_S
        return any(
            self._written_at_s.get(partition, late_s) < late_s
            for partition in self._partitions.stages
        )

    async def catch_up(self) -> None:
        """Apply the records of `APPLIED_FIRST`, then a tick, in all partitions, before other records."""
        await self.start()
        generation, stages = self._partitions.generation, self._partitions.stages
        for partition, stage in stages.items():
            written_ms, now_ms = self._written_ms.get(partition, 0), stage.now_ms or 0
            self._written_ms[partition] = max(written_ms, now_ms)
        began_s = time.monotonic()
        while not (ticks := await self._create_ticks()) and stages:
            if (
                not self._partitions.is_current(generation)
                or time.monotonic() - began_s > self._ticks.hold_max_s
            ):
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.gather(
            *(
                self._catch_up_partition(generation, partition, tick)
                for partition, tick in ticks.items()
            )
        )

    async def _catch_up_partition(self, generation: int, partition: int, tick: PendingTick) -> None:
        await self._read_before_tick(generation, partition, tick)
        if not self._partitions.is_current(generation):
            return
        ends = await self._write({partition: tick})
        until_s = time.monotonic() + self._ticks.hold_max_s
        await self._intake.apply_up_to(CLOCK_TOPIC, partition, ends[partition], until_s, generation)

    async def _read_before_tick(self, generation: int, partition: int, tick: PendingTick) -> None:
        """Read and apply the records before a tick, for at most `hold_max_s` after its time."""
        until_s = tick.taken_at_s + self._ticks.hold_max_s
        for topic in self._find_unapplied(partition, tick):
            end = tick.ends[topic]
            applied = await self._intake.apply_up_to(topic, partition, end, until_s, generation)
            if not applied and time.monotonic() >= until_s:
                logger.warning(
                    "partition %d: the clock continues after %.0f s, but records of %s up to offset %d are not applied",
                    partition,
                    self._ticks.hold_max_s,
                    topic,
                    end - 1,
                )

    def _find_unapplied(self, partition: int, tick: PendingTick) -> list[str]:
        """Return the topics with records that must be applied before the tick."""
        if partition not in self._partitions.stages:
            return list(tick.ends)
        next_offset = self._partitions.next_offset
        return [topic for topic, end in tick.ends.items() if next_offset(topic, partition) < end]

    async def _create_ticks(self) -> dict[int, PendingTick]:
        """Return a tick of the present time by partition; empty while no broker answers."""
        owned = sorted(self._partitions.stages)
        # Read the time first, so that the ends are after all records written until then.
        now_ms, now_s = time.time_ns() // 1_000_000, time.monotonic()
        topic_partitions = {(topic, partition) for topic in APPLIED_FIRST for partition in owned}
        spans = await self.brokers.spans(topic_partitions) if owned else {}
        if spans is None:
            return {}
        ticks = {}
        for partition in owned:
            topic_spans = {topic: spans[topic, partition] for topic in APPLIED_FIRST}
            ends = {topic: end for topic, (first, end) in topic_spans.items() if first < end}
            ticks[partition] = PendingTick(now_ms, now_s, ends)
        return ticks

    async def _write(self, ticks: Mapping[int, PendingTick]) -> dict[int, int]:
        """Write ticks; return the next offset of topic `clock` by partition."""
        for partition, tick in ticks.items():
            self._written_ms[partition] = _prevent_decrease(
                tick.now_ms, self._written_ms.get(partition, 0)
            )
        records = [build_tick_record(partition, self._written_ms[partition]) for partition in ticks]
        offsets = await self._publisher.publish(records)
        self._written_at_s.update((partition, tick.taken_at_s) for partition, tick in ticks.items())
        return {partition: offset + 1 for partition, offset in zip(ticks, offsets, strict=True)}


def _find_clocks_ahead(partitions: Partitions) -> dict[str, str]:
    """Return sentences about partitions with a time ahead of the worker's clock, by subject."""
    worker_ms = time.time_ns() // 1_000_000
    ahead = {}
    for partition, stage in partitions.stages.items():
        ahead_ms = (stage.now_ms or 0) - worker_ms
        if ahead_ms > AHEAD_MAX_MS:
            subject = f"the clock of partition {partition}"
            ahead[subject] = (
                f"{subject} is {ahead_ms // 1000} s ahead of this worker's clock; allowed are "
                f"{AHEAD_MAX_MS // 1000} s. It stands still until this worker's clock has caught up, and metrics "
                f"look outdated. If this worker's clock is right, run `loadstream partition reset {partition}`"
            )
    return ahead


def _prevent_decrease(now_ms: int, written_ms: int) -> int:
    """Return the time to write: not before the last written time, unless that was far ahead."""
    return written_ms if now_ms < written_ms <= now_ms + AHEAD_MAX_MS else now_ms


def build_tick_record(partition: int, now_ms: int) -> OutputRecord:
    return OutputRecord(
        topic=CLOCK_TOPIC,
        key=str(partition),
        value=encode(ClockTick(partition=partition, now_ms=now_ms)),
        timestamp_ms=now_ms,
        partition=partition,
    )
