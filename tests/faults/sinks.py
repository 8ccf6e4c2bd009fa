"""The binder and the evictor of the cluster: the rules of every sink, before one that fails.

They read decisions and commands from the log, at least once. One that starts again reads what it
has read before, knows only what was reported, and must not act twice.
"""

from collections import Counter
from typing import ClassVar

from connectors.ports.at_once import at_once
from connectors.ports.command_rules import Command, CommandRules
from connectors.ports.sink import Answer, Sink, SinkError
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.outcomes import CommandOutcome
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from simulation.closed_loop.scenario import CLUSTER
from simulation.closed_loop.world import World
from simulation.cluster.sink import SimulatedSink
from tests.faults.log import Log
from tests.faults.schedule import Schedule
from tests.faults.trace import PARTITIONS
from tests.fuzz.failure import require

#: The cluster's partition.
PARTITION = partition_for(CLUSTER.encode(), PARTITIONS)
_TOPICS = ("placement-decisions", "eviction-commands")
#: Records that one that starts again reads once more.
_AGAIN = 20
#: A binding is reported unless so much time is left before its reservation ends: after that nobody
#: could know of it, where the watch is blind as well.
_UNREPORTED_MS = 120_000


class FaultySink(Sink):
    """The simulated sink, which now and then cannot be asked; it counts its effects."""

    name: ClassVar[str] = "faulty"

    def __init__(self, world: World, schedule: Schedule) -> None:
        self._sink = SimulatedSink(world.cluster)
        self._schedule = schedule
        self.effects: Counter[str] = Counter()
        """How often each command had one."""
        self.bound: Counter[str] = Counter()
        """How often each pod was bound."""
        self.overbooked: list[str] = []
        """Bindings that a node had no room for."""

    async def bind(self, decision: PlacementDecision) -> Answer:
        """Bind a pod, unless that fails."""
        self._fail()
        answer = await self._sink.bind(decision)
        if answer.result == "done":
            self.effects[decision.decision_id] += 1
            self.bound[decision.pod.uid] += 1
        elif "has too little" in answer.reason:
            self.overbooked.append(answer.reason)
        return answer

    async def evict(self, command: EvictionCommand) -> Answer:
        """Evict a pod, unless that fails."""
        self._fail()
        answer = await self._sink.evict(command)
        if answer.result == "done":
            self.effects[command.command_id] += 1
        return answer

    def _fail(self) -> None:
        if self._schedule.strikes("sink fails"):
            raise SinkError("the API server is busy")


class Sinks:
    """Reads commands, and reports outcomes."""

    def __init__(self, world: World, log: Log, schedule: Schedule) -> None:
        self._world, self._log, self._schedule = world, log, schedule
        self.sink = FaultySink(world, schedule)
        self._positions = dict.fromkeys(_TOPICS, -1)
        self._reported: list[str] = []
        self._rules = self._start()

    def _start(self) -> CommandRules:
        rules = CommandRules(CLUSTER, self.sink, self._clock() or 0)
        for command_id in self._reported:
            rules.remember(command_id)
        return rules

    def _clock(self) -> int | None:
        """The newest time in the partition."""
        newest = self._log.newest("clock", PARTITION)
        if newest is None:
            return None
        tick = decode("clock", newest.value)
        return int(getattr(tick, "now_ms", 0))

    def step(self, now_ms: int) -> None:
        """Carry out what there is to be carried out."""
        schedule = self._schedule
        for _ in schedule.begins("sink starts again"):
            self._rules = self._start()
            for topic, position in self._positions.items():
                self._positions[topic] = max(-1, position - _AGAIN)
        if any(schedule.active("sink lags")):
            return
        self._rules.clock(self._clock() or 0)
        for topic in _TOPICS:
            while (record := self._log.after(topic, PARTITION, self._positions[topic])) is not None:
                self._positions[topic] = record.offset
                command = decode(topic, record.value)
                require(
                    isinstance(command, PlacementDecision | EvictionCommand),
                    "a command cannot be read",
                    f"{command}",
                )
                assert isinstance(command, PlacementDecision | EvictionCommand)
                for _ in range(2 if schedule.strikes("commands come twice") else 1):
                    self._carry_out(command, now_ms)

    def _carry_out(self, command: Command, now_ms: int) -> None:
        outcome = at_once(self._rules.carry_out(command))
        if outcome is None:
            if isinstance(command, PlacementDecision) and command.outcome == "refused":
                self._world.cluster.give_up(command.pod.uid, withdrawn=False)
            return
        time_left = self._rules.now_ms + _UNREPORTED_MS < (command.expires_at_ms or 0)
        if time_left and self._schedule.strikes("sink forgets to report"):
            return
        self._report(outcome, now_ms)

    def _report(self, outcome: CommandOutcome, now_ms: int) -> None:
        self._reported.append(outcome.command_id)
        self._log.say("command-outcomes", outcome, now_ms)
