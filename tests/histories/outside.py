"""What connects a world with the log: its watch, its agents, its binder and evictor, and their faults.

A fault is an event like any other (`history`). It strikes a random share of records or commands for a
random time; both are drawn from the random numbers of its event.
"""

from collections import Counter
from random import Random
from typing import ClassVar, NamedTuple

import orjson

from connectors.ports.command_rules import Command, CommandRules
from connectors.ports.sink import DONE, Attempt, Sink, SinkError
from schemas.base.message import AMOUNT_MAX
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.topics.codec import decode
from simulation.cluster.coroutines import run_coroutine
from tests.histories.failure import require
from tests.histories.log import Log
from tests.histories.valid_events import write
from tests.histories.world import Payload, World


class Fault(NamedTuple):
    """How often a fault is drawn, how long it lasts at most, and the largest share it strikes."""

    frequency: float
    seconds_max: int = 0
    share_max: float = 1.0


#: A fault without a duration happens once; `run` or the worker or sink that it hits applies it.
FAULTS: dict[str, Fault] = {
    # Usage samples on their way from the agents.
    "samples are lost": Fault(0.3, 300),
    "samples are late": Fault(0.3, 300),
    "samples come twice": Fault(0.2, 300),
    "samples are shuffled": Fault(0.2, 300),
    "samples repeat old values": Fault(0.3, 600),
    "samples report wrong amounts": Fault(0.3, 600),
    # State and requests on their way from the watch.
    "the watch loses records": Fault(0.4, 60),
    "the watch is late": Fault(0.4, 60),
    "records are written twice": Fault(0.2, 300, 0.5),
    # Workers and what they read.
    "the cluster worker stops": Fault(1.2),
    "the cluster worker fails over": Fault(0.5),
    "the cluster worker stands still": Fault(0.4, 90),
    "the aggregate worker stops": Fault(0.8),
    "metrics are read late": Fault(0.4, 300),
    "records are delivered again": Fault(0.4, 300, 0.5),
    # Binder and evictor.
    "commands fail": Fault(0.8, 300),
    "commands are refused": Fault(0.8, 300),
    "outcomes are not reported": Fault(0.5, 300),
    "commands wait": Fault(0.8, 300),
    "the sink restarts": Fault(0.4),
    "commands are read twice": Fault(0.3, 300, 0.5),
}


class Faults:
    """The faults that last now."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._lasting: dict[str, tuple[int, float, Random]] = {}
        """End, share and random numbers of the newest fault of each kind."""

    def begin(self, kind: str, random: Random) -> None:
        _, seconds_max, share_max = FAULTS[kind]
        end_ms = self.now_ms + 1_000 * random.randint(1, seconds_max)
        self._lasting[kind] = end_ms, random.uniform(0.1, share_max), random

    def end_all(self) -> None:
        self._lasting.clear()

    def lasts(self, kind: str) -> bool:
        return kind in self._lasting and self._lasting[kind][0] > self.now_ms

    def strikes(self, kind: str) -> Random | None:
        """Return the random numbers of the fault if it strikes the record at hand."""
        if not self.lasts(kind):
            return None
        _, share, random = self._lasting[kind]
        return random if random.random() < share else None


class Watch:
    """Writes what the world reports. A watch that lost records sends full lists."""

    def __init__(self, world: World, log: Log, faults: Faults) -> None:
        self._world, self._log, self._faults = world, log, faults
        self._has_lost = False
        self._lists = 0

    def deliver(self) -> None:
        """Write the reports of the world."""
        world = self._world
        if self._faults.lasts("the watch loses records"):
            self._has_lost = True
            world.reports.clear()
        elif self._has_lost:
            self.send_lists()
        elif not self._faults.lasts("the watch is late"):
            for topic, value in world.reports:
                twice = self._faults.strikes("records are written twice")
                for _ in range(2 if twice else 1):
                    self._log.append(topic, world.cluster.encode(), value, world.now_ms)
            world.reports.clear()

    def send_lists(self) -> None:
        """Write full lists of nodes and pods, and the requests of all pods that wait."""
        world = self._world
        self._has_lost = False
        world.reports.clear()
        self._lists += 1
        nodes = [world.describe_node(name, event="added") for name in world.nodes]
        self._send_list("node-state", nodes)
        pods = [world.describe_pod(pod, "seen") for pod in world.pods.values()]
        owners = [world.describe_owner(owner) for owner in world.owners.values()]
        self._send_list("pod-lifecycle", [*owners, *pods])
        for pod in world.waiting_pods.values():
            world.report("scheduling-requests", world.describe_request(pod))

    def _send_list(self, topic: str, items: list[Payload]) -> None:
        list_id = f"list-{self._lists}"
        begin = self._world.head(kind="list-begin")
        for item in (begin, *items, begin | {"kind": "list-end"}):
            write(self._log, self._world, topic, item | {"list_id": list_id})


class Agents:
    """Measure the nodes of a world."""

    def __init__(self, world: World, log: Log, faults: Faults) -> None:
        self._world, self._log, self._faults = world, log, faults
        self._late: list[tuple[int, Payload]] = []
        """Samples to be written at a later time."""
        self._previous: dict[str, Payload] = {}

    def measure(self, random: Random) -> None:
        """Write a sample of each node, and the samples that were late."""
        world, faults = self._world, self._faults
        due = [sample for at_ms, sample in self._late if at_ms <= world.now_ms]
        self._late = [entry for entry in self._late if entry[0] > world.now_ms]
        for node in world.nodes:
            sample = world.draw_sample(random, node)
            if faults.strikes("samples repeat old values") and node in self._previous:
                sample = self._previous[node]
            if fault := faults.strikes("samples report wrong amounts"):
                sample = _scale(sample, fault.choice((0.0, 0.1, 0.5, 3.0, 10.0)))
            self._previous[node] = sample
            if faults.strikes("samples are lost"):
                continue
            if fault := faults.strikes("samples are late"):
                self._late.append((world.now_ms + fault.randint(1, 120_000), sample))
                continue
            due += [sample] * (2 if faults.strikes("samples come twice") else 1)
        if fault := faults.strikes("samples are shuffled"):
            fault.shuffle(due)
        for sample in due:
            write(self._log, world, "node-usage", sample)


def _scale(sample: Payload, factor: float) -> Payload:
    scaled: Payload = orjson.loads(orjson.dumps(sample))
    for part in (scaled, *scaled["pods"]):
        part["usage"] = {
            name: min(int(amount * factor), AMOUNT_MAX) for name, amount in part["usage"].items()
        }
    return scaled


class WorldSink(Sink):
    """Binds and evicts pods of a world, and counts the effects of each command."""

    name: ClassVar[str] = "world"

    def __init__(self, world: World, faults: Faults, random: Random) -> None:
        self._world, self._faults, self._random = world, faults, random
        self.effects: Counter[str] = Counter()

    async def bind(self, decision: PlacementDecision) -> Attempt:
        world = self._world
        pod = world.pods.get(decision.pod.uid)
        assert decision.node is not None
        if pod is None:
            return Attempt("failed", "there is no such pod", pod_gone=True)
        if problem := self._find_problem():
            return problem
        if pod.get("node") is not None:
            return Attempt("failed", "the pod is bound already")
        if decision.node not in world.nodes or not world.has_room(pod, decision.node):
            return Attempt("failed", 'the node is gone or "full" \\')
        self.effects[decision.decision_id] += 1
        world.start_pod(self._random, pod, decision.node, "bound")
        return DONE

    async def evict(self, command: EvictionCommand) -> Attempt:
        world = self._world
        pod = world.pods.get(command.pod.uid)
        if pod is None:
            return Attempt("failed", "there is no such pod", pod_gone=True)
        if problem := self._find_problem():
            return problem
        if pod.get("node") != command.node:
            return Attempt("refused", "the pod is on another node")
        if command.policy != "SoftEviction":
            self.effects[command.command_id] += 1
            world.end_pod(command.pod.uid, "deleted")
            world.replace_pod(self._random, pod)
        return DONE

    def _find_problem(self) -> Attempt | None:
        if self._faults.strikes("commands fail"):
            raise SinkError("the API server is busy")
        if self._faults.strikes("commands are refused"):
            return Attempt("refused", "a budget forbids it: " + 'ü"\\' * 300)
        return None


class BinderAndEvictor:
    """Reads decisions and commands at least once, carries them out by the rules, and reports."""

    def __init__(self, world: World, log: Log, faults: Faults, random: Random) -> None:
        self._world, self._log, self._faults = world, log, faults
        self.sink = WorldSink(world, faults, random)
        self._next_offsets = {"placement-decisions": 0, "eviction-commands": 0}
        self._reported: list[str] = []
        self._rules = CommandRules(world.cluster, self.sink, world.now_ms)

    def restart(self) -> None:
        """Begin again with what was reported, and read the newest commands once more."""
        self._rules = CommandRules(self._world.cluster, self.sink, self._world.now_ms)
        for command_id in self._reported:
            self._rules.remember(command_id)
        for topic, offset in self._next_offsets.items():
            self._next_offsets[topic] = max(0, offset - 20)

    def carry_out_commands(self) -> None:
        """Carry out all commands that were published."""
        if self._faults.lasts("commands wait"):
            return
        self._rules.advance_clock(self._world.now_ms)
        for topic in self._next_offsets:
            while record := self._log.get(topic, self._next_offsets[topic]):
                self._next_offsets[topic] += 1
                command = decode(topic, record.value)
                assert isinstance(command, PlacementDecision | EvictionCommand)
                if command.cluster == self._world.cluster:
                    for _ in range(2 if self._faults.strikes("commands are read twice") else 1):
                        self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        outcome = run_coroutine(self._rules.carry_out(command))
        if outcome is not None and not self._faults.strikes("outcomes are not reported"):
            self._reported.append(outcome.command_id)
            self._log.send("command-outcomes", outcome, self._world.now_ms)

    def check_effects(self) -> None:
        """A command has one effect at most."""
        for command_id, count in self.sink.effects.items():
            require(count == 1, "a command has two effects", command_id)
