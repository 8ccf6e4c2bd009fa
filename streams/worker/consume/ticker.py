"""Writes the time into topic `clock`, for each partition that this worker owns.

The cluster stage's `now` is the time of the last tick applied, so this is the only wall clock that
decisions see, and a replay sees the same one. Ticks never go back: if the worker's clock goes back,
time stands still in the log until the clock has caught up.

**Time does not run away.** Otherwise a client that may write to the topic could stop a partition's
time, by one tick in the far future. So ticks that are read are compared with the worker's own time,
and those that are too far ahead of it are marked as refused (`intake`) before the stage sees them.
If a partition's time is ahead already, the worker goes on writing its own time. The stage ignores
these ticks until they reach the partition's time; health says so meanwhile.

**Time does not overtake what has happened.** There is no order between topics, and a reservation
must not expire while its confirmation waits to be read. So a time is given in two steps: it is
taken together with the ends of the topics `KNOWN_FIRST` at that time (`Mark`), and written when
everything before these ends is applied. What is not applied soon is read before everything else.

**After an outage time comes first.** After an outage of the worker or of the brokers, partitions
are brought to the present before anything else is applied: first what has happened and the
policies, then a tick, then the rest. So nothing is decided with a time that has long passed, nor
with a policy that was replaced.

Not guaranteed: what reaches Kafka after the mark. And too many records do not stop time: after
`hold_max_s` it is written, whatever waits.
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
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.codec import encode
from streams.stage.records import OutputRecord
from streams.worker.consume.intake import CLOCK_TOPIC, Intake
from streams.worker.partitions import Partitions
from streams.worker.store.publisher import Publisher

logger = logging.getLogger(__name__)

#: Topics that say what has happened, which may confirm what time would otherwise end, and what was
#: decreed. Requests and metrics are none of them: a burst of them holds nothing up, and they are
#: judged by the time.
KNOWN_FIRST = tuple(
    topic
    for topic in CLUSTER_INPUTS
    if topic not in {CLOCK_TOPIC, "node-metrics", "scheduling-requests"}
)
#: So long a mark waits for records that are on their way, in seconds; then they are read at once.
PATIENCE_S = 2.0
#: A partition whose clock has stood for longer, in seconds, is brought into the present.
LATE_S = 10.0
#: Time between two looks whether a mark is reached, in seconds.
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Mark:
    """A time that is to be given, and what is to be applied before."""

    now_ms: int
    taken_at_s: float
    """When it was taken, by the monotonic clock."""
    ends: Mapping[str, int]
    """Where the topics `KNOWN_FIRST` of the partition ended then."""


class Ticks(NamedTuple):
    """When the clock ticks."""

    interval_s: float
    hold_max_s: float
    """Longest time that a mark waits for records, in seconds."""


class Ticker:
    """Gives the time to the partitions of a stage while it runs."""

    def __init__(self, kafka: KafkaSettings, intake: Intake, ticks: Ticks) -> None:
        self._publisher = Publisher(kafka)
        self.brokers = Brokers(kafka)
        self._intake = intake
        self._partitions = intake.partitions
        self._ticks = ticks
        self._written_ms: dict[int, int] = {}
        self._written_at_s: dict[int, float] = {}

    async def start(self) -> None:
        """Connect; does nothing where that is done already."""
        await self._publisher.start()

    async def run(self) -> None:
        """Tick for the partitions as they are at each tick, until cancelled."""
        await self.start()
        try:
            while True:
                if self._partitions.recovered:
                    await self.tick()
                await asyncio.sleep(self._ticks.interval_s)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Disconnect."""
        await self.brokers.leave()
        await self._publisher.stop()

    async def tick(self) -> None:
        """Tell each partition what time it is now, as soon as it knows what has happened until now."""
        generation = self._partitions.generation
        self._partitions.notices.report("clock", _find_clocks_ahead(self._partitions))
        waiting = await self._take_marks()
        soon_s = time.monotonic() + PATIENCE_S
        while not self._is_over(generation):
            reached = [each for each, mark in waiting.items() if not self._unknown(each, mark)]
            await self._write({each: waiting.pop(each) for each in reached})
            if not waiting:
                return
            if time.monotonic() >= soon_s:
                for partition, mark in waiting.items():
                    await self._read_up(generation, partition, mark)
                    if not self._is_over(generation):
                        await self._write({partition: mark})
                return
            await asyncio.sleep(_POLL_S)

    @property
    def is_late(self) -> bool:
        """Whether time was lost in one of the partitions."""
        since_s = time.monotonic() - LATE_S
        return any(
            self._written_at_s.get(partition, since_s) < since_s
            for partition in self._partitions.stages
        )

    async def catch_up(self) -> None:
        """Bring all partitions into the present: what has happened, then the time; nothing else
        before."""
        await self.start()
        generation, stages = self._partitions.generation, self._partitions.stages
        for partition, stage in stages.items():
            written_ms, now_ms = self._written_ms.get(partition, 0), stage.now_ms or 0
            self._written_ms[partition] = max(written_ms, now_ms)
        began_s = time.monotonic()
        while not (marks := await self._take_marks()) and stages:
            if self._is_over(generation) or time.monotonic() - began_s > self._ticks.hold_max_s:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.gather(
            *(
                self._catch_up_partition(generation, partition, mark)
                for partition, mark in marks.items()
            )
        )

    def _is_over(self, generation: int) -> bool:
        return self._partitions.generation != generation

    async def _catch_up_partition(self, generation: int, partition: int, mark: Mark) -> None:
        await self._read_up(generation, partition, mark)
        if self._is_over(generation):
            return
        ends = await self._write({partition: mark})
        until_s = time.monotonic() + self._ticks.hold_max_s
        await self._intake.apply_up_to(CLOCK_TOPIC, partition, ends[partition], until_s, generation)

    async def _read_up(self, generation: int, partition: int, mark: Mark) -> None:
        """Let a partition know what has happened until the mark, or as much as the time allows."""
        until_s = mark.taken_at_s + self._ticks.hold_max_s
        for topic in self._unknown(partition, mark):
            end = mark.ends[topic]
            applied = await self._intake.apply_up_to(topic, partition, end, until_s, generation)
            if not applied and time.monotonic() >= until_s:
                logger.warning(
                    "partition %d: time goes on after %.0f s, although records of %s up to offset %d wait",
                    partition,
                    self._ticks.hold_max_s,
                    topic,
                    end - 1,
                )

    def _unknown(self, partition: int, mark: Mark) -> list[str]:
        """Topics that the partition does not know up to the mark."""
        if partition not in self._partitions.stages:
            return list(mark.ends)
        following = self._partitions.following
        return [topic for topic, end in mark.ends.items() if following(topic, partition) < end]

    async def _take_marks(self) -> dict[int, Mark]:
        """The time, and where the topics end; nothing while the brokers do not answer."""
        owned = sorted(self._partitions.stages)
        # The time first: whatever had happened by then is below the ends.
        now_ms, now_s = time.time_ns() // 1_000_000, time.monotonic()
        places = {(topic, partition) for topic in KNOWN_FIRST for partition in owned}
        spans = await self.brokers.spans(places) if owned else {}
        if spans is None:
            return {}
        marks = {}
        for partition in owned:
            of_topic = {topic: spans[topic, partition] for topic in KNOWN_FIRST}
            ends = {topic: end for topic, (first, end) in of_topic.items() if first < end}
            marks[partition] = Mark(now_ms, now_s, ends)
        return marks

    async def _write(self, marks: Mapping[int, Mark]) -> dict[int, int]:
        """Write these times; return where each partition's clock ends then."""
        for partition, mark in marks.items():
            self._written_ms[partition] = _not_back(mark.now_ms, self._written_ms.get(partition, 0))
        ticks = [tick(each, self._written_ms[each]) for each in marks]
        offsets = await self._publisher.publish(ticks)
        self._written_at_s.update((each, mark.taken_at_s) for each, mark in marks.items())
        return {each: offset + 1 for each, offset in zip(marks, offsets, strict=True)}


def _find_clocks_ahead(partitions: Partitions) -> dict[str, str]:
    """The partitions whose time is ahead of the worker's, each with a sentence."""
    own_ms = time.time_ns() // 1_000_000
    ahead = {}
    for partition, stage in partitions.stages.items():
        ahead_ms = (stage.now_ms or 0) - own_ms
        if ahead_ms > AHEAD_MAX_MS:
            subject = f"the clock of partition {partition}"
            ahead[subject] = (
                f"{subject} is {ahead_ms // 1000} s ahead of this worker's; allowed are {AHEAD_MAX_MS // 1000} s. "
                f"Time stands still there until then, and metrics look outdated. If this worker's clock is "
                f"right, `loadstream partition reset {partition}` starts the partition anew"
            )
    return ahead


def _not_back(now_ms: int, written_ms: int) -> int:
    """The time to tell after another one: not before it, unless that was too far ahead to wait for."""
    return written_ms if now_ms < written_ms <= now_ms + AHEAD_MAX_MS else now_ms


def tick(partition: int, now_ms: int) -> OutputRecord:
    """The record that says what time it is in a partition."""
    return OutputRecord(
        topic=CLOCK_TOPIC,
        key=str(partition),
        value=encode(ClockTick(partition=partition, now_ms=now_ms)),
        timestamp_ms=now_ms,
        partition=partition,
    )
