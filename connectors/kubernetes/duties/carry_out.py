"""Carries out what loadstream commands: decisions become bindings, eviction commands evictions.

    placement-decisions or eviction-commands ──▶ CommandRules ──▶ Sink ──▶ command-outcomes
    clock                                    ──▶ what time it is, for what expires

Records are read in order and carried out many at once. A record is done when its outcome is
acknowledged, and the group's position never goes past one that is not. So a process that is killed
begins again with the oldest that was under way: the pod's uid makes that harmless, and outcomes on
the topic say what was done before. A record that cannot be read is named in the log and passed
over: the worker writes none of those.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from connectors.kafka.outbox import Outbox
from connectors.kafka.recent import first_since, newest, recent
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.ports.command_rules import CommandRules
from connectors.ports.sink import Sink
from connectors.process import wall_clock
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.outcomes import CommandOutcome
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode

logger = logging.getLogger(__name__)

CLOCK = "clock"
OUTCOMES = "command-outcomes"
#: A group that is new begins with commands of this age: older ones have expired. Outcomes are
#: looked through as far back for what was done before. Their times are of the log's clock, which may
#: be behind this machine's: it stands still while no worker runs.
LOOK_BACK_MS = 15 * 60_000
#: Commands that were read and are not done: reading waits beyond that.
UNDER_WAY_MAX = 1_000


class TopicProgress:
    """How far a topic is done, while its records are done in any order."""

    def __init__(self) -> None:
        self._under_way: dict[int, None] = {}
        """Offsets in ascending order."""
        self._next = 0

    def begin(self, offset: int) -> None:
        """A record is under way; offsets come in ascending order."""
        self._under_way[offset] = None
        self._next = offset + 1

    def end(self, offset: int) -> int:
        """A record is done; answers with the offset before which all are."""
        del self._under_way[offset]
        return next(iter(self._under_way), self._next)


class CarryOut:
    """The work of a binder or an evictor during one term."""

    def __init__(
        self,
        kafka: KafkaSettings,
        cluster: str,
        topic: str,
        sink: Sink,
        outbox: Outbox,
        count: Callable[[CommandOutcome], None] | None = None,
    ) -> None:
        """`topic` is where the commands are; `count` is called with each outcome on Kafka."""
        self._kafka = kafka
        self._cluster = cluster
        self._topic = topic
        self._sink = sink
        self._outbox = outbox
        self._count = count
        self._room = asyncio.Semaphore(UNDER_WAY_MAX)

    async def begin(self, topic: str, partition: int) -> int:
        """Where a new group begins: with what may not have expired."""
        record = await newest(self._kafka, CLOCK, partition)
        tick = None if record is None else _tick(record)
        since_ms = _since_ms(wall_clock.now_ms() if tick is None else tick.now_ms)
        return await first_since(self._kafka, topic, partition, since_ms)

    async def __call__(self, term: LeaderTerm) -> None:
        """Carry out commands until the term is over."""

        async def report(outcome: CommandOutcome) -> None:
            await self._outbox.deliver(OUTCOMES, [outcome])
            if self._count is not None:
                self._count(outcome)

        ticks = term.records(CLOCK)
        # Without the time nothing can be known to be in time; without a tick nothing was decided.
        async for record in ticks:
            if (tick := _tick(record)) is not None:
                break
        else:
            return  # the term is over
        rules = CommandRules(
            self._cluster, self._sink, tick.now_ms, gate=term.writing, report=report
        )
        await self._remember(term, rules, _since_ms(tick.now_ms))
        progress = TopicProgress()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_follow(ticks, rules))
            tasks.create_task(_stop(term, rules))
            async for record in term.records(self._topic):
                await self._room.acquire()
                progress.begin(record.offset)
                tasks.create_task(self._carry_out(term, rules, progress, record))

    async def _remember(self, term: LeaderTerm, rules: CommandRules, since_ms: int) -> None:
        """What was reported lately was carried out before this term."""
        async for record in recent(self._kafka, OUTCOMES, term.partition, since_ms):
            outcome = decode(OUTCOMES, record.value)
            if isinstance(outcome, CommandOutcome) and outcome.cluster == self._cluster:
                rules.remember(outcome.command_id)

    async def _carry_out(
        self, term: LeaderTerm, rules: CommandRules, progress: TopicProgress, record: Any
    ) -> None:
        try:
            command = decode(self._topic, record.value)
            if isinstance(command, Refusal):
                place = f"{record.topic} partition {record.partition} offset {record.offset}"
                logger.error("%s: passed over: %s", place, command.reason)
            else:
                await rules.carry_out(command)
            term.done(self._topic, progress.end(record.offset))
        except TermOver:
            pass  # the next active one begins with it
        finally:
            self._room.release()


def _since_ms(log_ms: int) -> int:
    """From when on records may matter, by the log's clock and by this machine's."""
    return min(log_ms, wall_clock.now_ms()) - LOOK_BACK_MS


async def _stop(term: LeaderTerm, rules: CommandRules) -> None:
    """Once the term is over nothing waits for another attempt, nor for those that do."""
    await term.over.wait()
    rules.stop()


async def _follow(ticks: AsyncIterator[Any], rules: CommandRules) -> None:
    async for record in ticks:
        tick = _tick(record)
        if tick is not None:
            rules.clock(tick.now_ms)


def _tick(record: Any) -> ClockTick | None:
    """A record of topic `clock`; none: it is no tick."""
    tick = decode(CLOCK, record.value)
    return tick if isinstance(tick, ClockTick) else None
