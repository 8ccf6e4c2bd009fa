"""Execute the commands of loadstream: placement decisions as bindings, eviction commands as evictions.

    placement-decisions or eviction-commands ──▶ CommandRules ──▶ Sink ──▶ command-outcomes
    clock                                    ──▶ the time, for expiry

Records are read in order and executed concurrently. A record is done when its outcome is acknowledged,
and the committed offset never passes an unfinished record. After a crash, the process therefore starts
with the oldest unfinished record. The pod's uid makes repetitions harmless, and outcomes on the topic
show which commands were executed. Unreadable records, which a worker never writes, are skipped and logged.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from connectors.kafka.partition_records import find_first_since, read_newest, read_since
from connectors.kafka.producer import Producer
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.ports.command_rules import CommandRules
from connectors.ports.sink import Sink
from connectors.process import wall_clock
from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode

logger = logging.getLogger(__name__)

CLOCK = "clock"
OUTCOMES = "command-outcomes"
#: A new group starts with commands and outcomes of this age, because older commands have expired. Log time
#: may be behind this machine's clock, because log time stops without a worker.
LOOK_BACK_MS = 15 * 60_000
#: Most unfinished commands; reading waits while there are that many.
UNDER_WAY_MAX = 1_000


class TopicProgress:
    """Progress in a topic whose records are completed in any order."""

    def __init__(self) -> None:
        self._under_way: dict[int, None] = {}
        """Unfinished offsets in ascending order."""
        self._next = 0

    def begin(self, offset: int) -> None:
        """Start a record; offsets must be ascending."""
        self._under_way[offset] = None
        self._next = offset + 1

    def end(self, offset: int) -> int:
        """Complete a record; return the offset before which all records are complete."""
        del self._under_way[offset]
        return next(iter(self._under_way), self._next)


class CommandExecutor:
    """The work of a binder or an evictor during one term."""

    def __init__(
        self,
        kafka: KafkaSettings,
        cluster: str,
        topic: str,
        sink: Sink,
        producer: Producer,
        count: Callable[[CommandOutcome], None] | None = None,
    ) -> None:
        """`topic` has the commands; `count` is called with each reported outcome."""
        self._kafka = kafka
        self._cluster = cluster
        self._topic = topic
        self._sink = sink
        self._producer = producer
        self._count = count
        self._free_slots = asyncio.Semaphore(UNDER_WAY_MAX)

    async def begin(self, topic: str, partition: int) -> int:
        """Return the first offset for a new group: older commands have expired."""
        record = await read_newest(self._kafka, CLOCK, partition)
        tick = None if record is None else _decode_tick(record)
        since_ms = _since_ms(wall_clock.now_ms() if tick is None else tick.now_ms)
        return await find_first_since(self._kafka, topic, partition, since_ms)

    async def __call__(self, term: LeaderTerm) -> None:
        """Execute commands until the term is over."""

        async def report(outcome: CommandOutcome) -> None:
            await self._producer.deliver(OUTCOMES, [outcome])
            if self._count is not None:
                self._count(outcome)

        ticks = term.records(CLOCK)
        # Expiry needs the time. Before the first tick there are no decisions.
        async for record in ticks:
            if (tick := _decode_tick(record)) is not None:
                break
        else:
            return  # the term is over
        rules = CommandRules(
            self._cluster, self._sink, tick.now_ms, gate=term.writing, report=report
        )
        await self._remember(term, rules, _since_ms(tick.now_ms))
        progress = TopicProgress()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_advance_clock(ticks, rules))
            tasks.create_task(_stop_at_end(term, rules))
            async for record in term.records(self._topic):
                await self._free_slots.acquire()
                progress.begin(record.offset)
                tasks.create_task(self._carry_out(term, rules, progress, record))

    async def _remember(self, term: LeaderTerm, rules: CommandRules, since_ms: int) -> None:
        """Mark recently reported commands as executed."""
        async for record in read_since(self._kafka, OUTCOMES, term.partition, since_ms):
            outcome = decode(OUTCOMES, record.value)
            if isinstance(outcome, CommandOutcome) and outcome.cluster == self._cluster:
                rules.remember(outcome.command_id)

    async def _carry_out(
        self, term: LeaderTerm, rules: CommandRules, progress: TopicProgress, record: Any
    ) -> None:
        try:
            command = decode(self._topic, record.value)
            if isinstance(command, Refusal):
                position = f"{record.topic} partition {record.partition} offset {record.offset}"
                logger.error("%s: skipped: %s", position, command.reason)
            else:
                await rules.carry_out(command)
            term.mark_done(self._topic, progress.end(record.offset))
        except TermOver:
            pass  # the next active process starts with this record
        finally:
            self._free_slots.release()


def _since_ms(log_ms: int) -> int:
    """Return the time from which records matter, by log time and by this machine's clock."""
    return min(log_ms, wall_clock.now_ms()) - LOOK_BACK_MS


async def _stop_at_end(term: LeaderTerm, rules: CommandRules) -> None:
    """Stop the rules when the term is over, so that no command waits for another attempt."""
    await term.over.wait()
    rules.stop()


async def _advance_clock(ticks: AsyncIterator[Any], rules: CommandRules) -> None:
    async for record in ticks:
        tick = _decode_tick(record)
        if tick is not None:
            rules.advance_clock(tick.now_ms)


def _decode_tick(record: Any) -> ClockTick | None:
    """Return the clock tick of a record; None: it is invalid."""
    tick = decode(CLOCK, record.value)
    return tick if isinstance(tick, ClockTick) else None
