"""Writes the time into topic `clock`, for each partition that this worker owns.

The cluster stage's `now` is the time of the last tick applied, so this is the only wall clock that
decisions see, and a replay sees the same one. Ticks never go back: if the worker's clock goes back,
time stands still in the log until the clock has caught up.

**Time does not run away.** Otherwise a client that may write to the topic could stop a partition's
time, by one tick in the far future. So ticks that are read are compared with the worker's own time,
and those that are too far ahead of it are marked as refused (`checked`) before the stage sees them.
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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from schemas.clock import AHEAD_MAX_MS, ClockTick
from schemas.codec import decode, encode
from schemas.connection import KafkaSettings
from schemas.topics import CLUSTER_INPUTS
from streams.stage.records import InputRecord, OutputRecord, Stage
from streams.worker.brokers import Brokers
from streams.worker.notices import Notices
from streams.worker.pipeline import StageEnded
from streams.worker.publisher import Publisher

logger = logging.getLogger(__name__)

CLOCK_TOPIC = "clock"
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


class Clocked(Protocol):
    """A stage's runner as its clock sees it."""

    @property
    def stages(self) -> Mapping[int, Stage]:
        """The state of each partition."""
        ...

    @property
    def recovered(self) -> bool:
        """The partitions are assigned and their state is there."""
        ...

    @property
    def generation(self) -> int:
        """Another number once partitions were taken away."""
        ...

    @property
    def notices(self) -> Notices:
        """What is wrong is said here."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """Offset applied last of a topic; -1: none."""
        ...

    async def apply_up_to(
        self, topic: str, partition: int, end: int, until_s: float, generation: int
    ) -> bool:
        """Apply a topic's records below `end` in front of all else, while `generation` lasts;
        whether that was done in time."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """A time that is to be given, and what is to be applied before."""

    now_ms: int
    taken_at_s: float
    """When it was taken, by the monotonic clock."""
    ends: Mapping[str, int]
    """Where the topics `KNOWN_FIRST` of the partition ended then."""

    def left(self, known: Mapping[str, int]) -> list[str]:
        """Topics that are not known up to the mark; `known` is the offset that follows, by topic."""
        return [topic for topic, end in self.ends.items() if known.get(topic, 0) < end]


class Ticker:
    """Ticks while it runs."""

    def __init__(
        self, kafka: KafkaSettings, publisher: Publisher, interval_s: float, hold_max_s: float
    ) -> None:
        """`hold_max_s`: longest time that a mark waits for records, in seconds."""
        self._publisher = publisher
        self.brokers = Brokers(kafka)
        self._interval_s = interval_s
        self._hold_max_s = hold_max_s
        self._written_ms: dict[int, int] = {}
        self._written_at_s: dict[int, float] = {}
        self._read_to: dict[tuple[int, str], int] = {}
        """Where a partition's topic was read to its end: no record may be at its last offsets."""

    async def run(self, app: Any, runner: Clocked) -> None:
        """Tick for the partitions of a runner, as they are at each tick, until cancelled.

        Returns when the worker stops, also where a tick was being waited for meanwhile.
        """
        await self._publisher.start()
        try:
            while not app.should_stop:
                if runner.recovered:
                    await self.tick(runner)
                await asyncio.sleep(self._interval_s)
        except StageEnded:
            return  # why it ended its own task says; that of a worker that stops is no failure
        finally:
            await self.leave()

    async def leave(self) -> None:
        """Disconnect."""
        await self.brokers.leave()

    async def tick(self, runner: Clocked) -> None:
        """Tell each partition what time it is now, as soon as it knows what has happened until now."""
        generation = runner.generation
        runner.notices.report("clock", _ahead(runner))
        waiting = await self._marks(runner.stages)
        soon_s = time.monotonic() + PATIENCE_S
        while runner.generation == generation:
            reached = [each for each, mark in waiting.items() if not self._left(runner, each, mark)]
            await self._tell({each: waiting.pop(each) for each in reached})
            if not waiting:
                return
            if time.monotonic() >= soon_s:
                for partition, mark in waiting.items():
                    await self._read_up(runner, generation, partition, mark)
                    if runner.generation == generation:
                        await self._tell({partition: mark})
                return
            await asyncio.sleep(_POLL_S)

    def checked(self, records: Sequence[InputRecord]) -> Sequence[InputRecord]:
        """The records, ticks that are too far ahead of the worker's own time marked as refused."""
        if not any(record.topic == CLOCK_TOPIC for record in records):
            return records
        own_ms = time.time_ns() // 1_000_000
        return [
            replace(record, refused_at_ms=own_ms)
            if record.topic == CLOCK_TOPIC and _is_ahead(record.value, own_ms)
            else record
            for record in records
        ]

    def late(self, partitions: Iterable[int]) -> bool:
        """Whether time was lost in one of these partitions."""
        since_s = time.monotonic() - LATE_S
        return any(self._written_at_s.get(each, since_s) < since_s for each in partitions)

    async def make_up(self, runner: Clocked) -> None:
        """Bring all partitions into the present: what has happened, then the time; nothing else
        before."""
        await self._publisher.start()
        generation = runner.generation
        for partition, stage in runner.stages.items():
            written_ms, now_ms = self._written_ms.get(partition, 0), stage.now_ms or 0
            self._written_ms[partition] = max(written_ms, now_ms)
        began_s = time.monotonic()
        while not (marks := await self._marks(runner.stages)) and runner.stages:
            if runner.generation != generation or time.monotonic() - began_s > self._hold_max_s:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.gather(
            *(
                self._make_up(runner, generation, partition, mark)
                for partition, mark in marks.items()
            )
        )

    async def _make_up(self, runner: Clocked, generation: int, partition: int, mark: Mark) -> None:
        await self._read_up(runner, generation, partition, mark)
        if runner.generation != generation:
            return
        ends = await self._tell({partition: mark})
        until_s = time.monotonic() + self._hold_max_s
        await runner.apply_up_to(CLOCK_TOPIC, partition, ends[partition], until_s, generation)

    async def _read_up(self, runner: Clocked, generation: int, partition: int, mark: Mark) -> None:
        """Let a partition know what has happened until the mark, or as much as the time allows."""
        until_s = mark.taken_at_s + self._hold_max_s
        for topic in self._left(runner, partition, mark):
            end = mark.ends[topic]
            if await runner.apply_up_to(topic, partition, end, until_s, generation):
                self._read_to[partition, topic] = end
            elif time.monotonic() >= until_s:
                logger.warning(
                    "partition %d: time goes on after %.0f s, although records of %s up to offset %d wait",
                    partition,
                    self._hold_max_s,
                    topic,
                    end - 1,
                )

    def _left(self, runner: Clocked, partition: int, mark: Mark) -> list[str]:
        """Topics that the partition does not know up to the mark."""
        owned = partition in runner.stages
        known = {
            topic: max(
                runner.position(topic, partition) + 1 if owned else 0,
                self._read_to.get((partition, topic), 0),
            )
            for topic in KNOWN_FIRST
        }
        return mark.left(known)

    async def _marks(self, partitions: Iterable[int]) -> dict[int, Mark]:
        """The time, and where the topics end; nothing while the brokers do not answer."""
        own = sorted(partitions)
        # The time first: whatever had happened by then is below the ends.
        now_ms, now_s = time.time_ns() // 1_000_000, time.monotonic()
        places = {(topic, partition) for topic in KNOWN_FIRST for partition in own}
        spans = await self.brokers.spans(places) if own else {}
        if spans is None:
            return {}
        marks = {}
        for partition in own:
            of_topic = {topic: spans[topic, partition] for topic in KNOWN_FIRST}
            ends = {topic: end for topic, (first, end) in of_topic.items() if first < end}
            marks[partition] = Mark(now_ms, now_s, ends)
        return marks

    async def _tell(self, marks: Mapping[int, Mark]) -> dict[int, int]:
        """Write these times; answers with where each partition's clock ends then."""
        for partition, mark in marks.items():
            self._written_ms[partition] = _not_back(mark.now_ms, self._written_ms.get(partition, 0))
        ticks = [tick(each, self._written_ms[each]) for each in marks]
        offsets = await self._publisher.publish(ticks)
        self._written_at_s.update((each, mark.taken_at_s) for each, mark in marks.items())
        return {each: offset + 1 for each, offset in zip(marks, offsets, strict=True)}


def _ahead(runner: Clocked) -> dict[str, str]:
    """The partitions whose time is ahead of the worker's, each with a sentence."""
    own_ms = time.time_ns() // 1_000_000
    found = {}
    for partition, stage in runner.stages.items():
        ahead_ms = (stage.now_ms or 0) - own_ms
        if ahead_ms > AHEAD_MAX_MS:
            subject = f"the clock of partition {partition}"
            found[subject] = (
                f"{subject} is {ahead_ms // 1000} s ahead of this worker's; allowed are {AHEAD_MAX_MS // 1000} s. "
                f"Time stands still there until then, and metrics look outdated. If this worker's clock is "
                f"right, `loadstream partition reset {partition}` starts the partition anew"
            )
    return found


def _not_back(now_ms: int, written_ms: int) -> int:
    """The time to tell after another one: not before it, unless that was too far ahead to wait for."""
    return written_ms if now_ms < written_ms <= now_ms + AHEAD_MAX_MS else now_ms


def _is_ahead(value: bytes | None, own_ms: int) -> bool:
    found = decode(CLOCK_TOPIC, value)
    return isinstance(found, ClockTick) and found.now_ms > own_ms + AHEAD_MAX_MS


def tick(partition: int, now_ms: int) -> OutputRecord:
    """The record that says what time it is in a partition."""
    return OutputRecord(
        topic=CLOCK_TOPIC,
        key=str(partition),
        value=encode(ClockTick(partition=partition, now_ms=now_ms)),
        timestamp_ms=now_ms,
        partition=partition,
    )
