"""A policy as a contender: both stages decide, from the same records as in production.

    world ─▶ watch, samples ─▶ records ─▶ stages ─▶ decisions, commands ─▶ rules, sink ─▶ world

The full path but for Kafka: everything is encoded and read by its contract, the sink acts by the
rules of every sink (once per id, expiry, budgets) and after a lag, and reports the outcome. A pod
that is evicted terminates for 30 s; what comes in its place asks for a node itself.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from simulation.closed_loop.samples import Samples
from simulation.closed_loop.scenario import BEGIN_MS
from simulation.closed_loop.world import World
from simulation.cluster.connected import ConnectedCluster
from streams.in_process.pipeline import Pipeline, Written

#: Of what the stages write, what is carried out, and what is counted.
_COMMANDS = ("placement-decisions", "eviction-commands")
_READ = (*_COMMANDS, "dead-letters")


class Streamed:
    """Both stages under one policy."""

    def __init__(
        self,
        name: str,
        policy: str,
        make_stages: Callable[[], Pipeline],
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """`policy` is the text of a policy, `annotations` are those of all pods."""
        self.name = name
        self.complaints: list[str] = []
        """The first dead letters, a sentence each: there should be none."""
        self._policy = policy
        self._annotations = annotations or {}
        self._stages = make_stages()
        self._unread: list[Written] = []
        self._late: deque[tuple[int, list[Written]]] = deque()
        """Samples that are on their way, and when they are there."""
        self._commands: deque[tuple[int, Any]] = deque()
        """Commands that are on their way."""
        self._counts: Counter[str] = Counter()
        self._now_ms = BEGIN_MS

    def begin(self, world: World) -> None:
        """Report what there is, and give the policy."""
        parameters = world.scenario.parameters
        self._lag_ms = 1000 * parameters.lag_s
        self._command_lag_ms = 1000 * parameters.command_lag_s
        self._world = world
        world.annotations = self._annotations
        self._samples = Samples(world)
        self._connected = ConnectedCluster(world.cluster, self.send)
        self.send("clock", ClockTick(partition=0, now_ms=BEGIN_MS))
        self._connected.apply_policy(self._policy, self.name)
        self._connected.begin("begin")
        self._apply()

    def step(self, now_ms: int) -> None:
        """Tell the stages what is new, and carry out what was due."""
        self._now_ms = now_ms
        self.send("clock", ClockTick(partition=0, now_ms=now_ms))
        self._connected.rules.clock(now_ms)
        self._connected.publish()
        while self._commands and self._commands[0][0] <= now_ms:
            outcome = self._connected.carry_out(self._commands.popleft()[1])
            if outcome is not None and outcome.result != "done":
                self._counts[f"{outcome.command}_{outcome.result}"] += 1
        moment = self._world.usage.moment(now_ms)
        self._late.append((now_ms + self._lag_ms, self._samples.of(moment)))
        while self._late and self._late[0][0] <= now_ms:
            self._unread += self._late.popleft()[1]
        self._apply()

    def figures(self) -> dict[str, int]:
        """Outcomes that were not done, dead letters, records."""
        counts = {name: self._counts[name] for name in sorted(self._counts)}
        return {"records": self._stages.applied, **counts}

    def send(self, topic: str, message: Any) -> None:
        """Send a record to the stages with the next step."""
        written = Written(topic, key_of(topic, message), encode(message), self._now_ms)
        self._unread.append(written)

    def _apply(self) -> None:
        records, self._unread = self._unread, []
        for topic, value in self._stages.apply(records):
            if topic in _READ:
                self._hear(topic, value)

    def _hear(self, topic: str, value: bytes) -> None:
        message = decode(topic, value)
        if isinstance(message, Refusal):
            raise TypeError(f"the stages wrote a record of {topic} that cannot be read: {message}")
        if isinstance(message, DeadLetter):
            self._counts["dead_letters"] += 1
            if len(self.complaints) < 5:
                self.complaints.append(f"{message.topic}: {message.reason}")
            return
        if isinstance(message, PlacementDecision) and message.outcome != "placed":
            self._counts[f"decision_{message.outcome}"] += 1
        self._commands.append((self._now_ms + self._command_lag_ms, message))
