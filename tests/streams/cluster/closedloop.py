"""A cluster whose commands are carried out: binder, evictor, owner and metrics around a stage.

Each minute every node reports what it uses, the clock ticks, and what the stage says is done at once:
evicted pods go, their owners make new ones, pods are bound where decisions say and are ready at once.
"""

from collections.abc import Callable

from schemas.base.message import Message
from schemas.base.refusals import Refusal
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.metrics import PodMetric
from schemas.messages.moves import MoveOutcome
from schemas.messages.pods import Pod
from schemas.messages.rounds import RebalanceRound
from schemas.topics.codec import decode
from tests.streams.cluster.builders import (
    at,
    controlled_by,
    evicted,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run

#: Rounds each minute, a node is hot after its second one, and pods may move one by one at once.
POLICY = """
mode: {mode}
plugins: {{balance: [LowNodeLoad]}}
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  anomalyCondition: {{consecutiveAbnormalities: 2, consecutiveNormalities: 1}}
migration:
  defaultJobMode: EvictDirectly
  skipCheckExpectedReplicas: true
  maxUnavailablePerWorkload: 100%
  maxMigratingPerWorkload: 100%
  objectLimiters: {{}}
moves: {{{moves}}}
"""


class ClosedLoop:
    """Nodes of 10 cores; pods ask for one core each."""

    def __init__(
        self,
        nodes: int,
        used: Callable[[str, list[str]], int],
        *,
        pod_cpu: int = 1000,
        mode: str = "enforce",
        moves: str = "",
    ) -> None:
        """`used` says how many millicores a node uses with the pods of these names, each `pod_cpu`."""
        self.pod_cpu = pod_cpu
        self.run = Run()
        self.nodes = [f"node-{i + 1}" for i in range(nodes)]
        self.where: dict[str, tuple[Pod, str]] = {}
        """Pods and their nodes, by uid."""
        self.used = used
        self.waiting: list[Pod] = []
        """Pods that their owners have made and that have no node yet."""
        self.minute = 0
        self.made = 0
        self.commands: list[EvictionCommand] = []
        self.decisions: list[PlacementDecision] = []
        self.statuses: list[Message] = []
        self.say(tick(), policy_record(POLICY.format(mode=mode, moves=moves)))
        self.say(*(node(name, cpu="10") for name in self.nodes))

    @property
    def outcomes(self) -> list[MoveOutcome]:
        return [each for each in self.statuses if isinstance(each, MoveOutcome)]

    @property
    def rounds(self) -> list[RebalanceRound]:
        return [each for each in self.statuses if isinstance(each, RebalanceRound)]

    def add(self, owner: str, name: str) -> None:
        """A pod of an owner runs on a node."""
        made = self._pod(owner)
        self._run(made, name)

    def minutes(self, count: int) -> None:
        """Let some minutes pass."""
        for _ in range(count):
            self.minute += 1
            seconds = self.minute * 60
            self.say(tick(seconds))
            for name in self.nodes:
                here = [each for each, where in self.where.values() if where == name]
                metrics = tuple(
                    PodMetric(
                        namespace=each.namespace,
                        name=each.name,
                        usage={"cpu": self.pod_cpu, "memory": 0},
                        priority_class="koord-prod",
                    )
                    for each in here
                )
                cpu = self.used(name, [each.name for each in here])
                system = {"cpu": cpu - self.pod_cpu * len(here), "memory": 0}
                said = metric(name, cpu=cpu, seconds=seconds, pods=metrics, system_usage=system)
                self.say(said)
            self.say(tick(seconds + 1))

    def say(self, *messages: Message) -> None:
        """Apply messages one by one, and do what is said until nothing more is."""
        todo = list(messages)
        while todo:
            before = len(self.run.outputs)
            self.run.say(todo.pop(0))
            for value in self.run.outputs[before:]:
                todo += self._do(value)

    def _do(self, value: bytes) -> list[Message]:
        for topic, known in (
            ("eviction-commands", self.commands),
            ("placement-decisions", self.decisions),
            ("status", self.statuses),
        ):
            said = decode(topic, value)
            if not isinstance(said, Refusal):
                known.append(said)
                return self._answer(said)
        return []

    def _answer(self, said: Message) -> list[Message]:
        if isinstance(said, PlacementDecision) and said.outcome == "placed" and said.node:
            (made,) = [each for each in self.waiting if each.uid == said.pod.uid]
            self.waiting.remove(made)
            self._run(made, said.node, first=outcome(said, "done"))
        if isinstance(said, EvictionCommand):
            return self._evict(said)
        return []

    def _evict(self, command: EvictionCommand) -> list[Message]:
        done = evicted(command, "dry" if command.dry_run else "done")
        if command.dry_run:
            return [done]
        gone, name = self.where.pop(command.pod.uid)
        new = self._pod(gone.owners[0].uid)
        self.waiting.append(new)
        return [done, lifecycle("deleted", gone, name), request(new)]

    def _pod(self, owner: str) -> Pod:
        self.made += 1
        owners = controlled_by(owner)
        return pod(f"{owner}-{self.made}", owners=owners, created_at_ms=at(0))

    def _run(self, made: Pod, name: str, first: Message | None = None) -> None:
        there = made.model_copy(update={"node": name, "ready": True, "phase": "Running"})
        self.where[made.uid] = (there, name)
        messages = [] if first is None else [first]
        self.say(*messages, lifecycle("running", there, name))
