"""A small cluster that moves pods, in few words."""

from typing import Any

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.pods import Pod
from schemas.messages.rounds import RebalanceRound
from streams.rebalance.candidates import Candidate, Gate
from streams.stage.cause import Cause, build_as_of
from tests.streams.cluster.builders import (
    CLUSTER,
    FREE,
    ask,
    at,
    lifecycle,
    node,
    policy_record,
    replica,
    tick,
)
from tests.streams.cluster.harness import Run
from tests.streams.outputs import read_message, read_output


class Moving(Run):
    """A run that keeps outputs by their class, and answers with refusals."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: float = 0
        self.commands: list[EvictionCommand] = []
        self.reports: list[MigrationStatus] = []
        self.drains: list[DrainStatus] = []
        self.decisions: list[PlacementDecision] = []
        self.rounds: list[RebalanceRound] = []

    def say(self, *messages: Any, topic: str | None = None) -> list[Any]:
        """Apply messages one by one; return their outputs. A refusal is an error of the test."""
        outputs: list[Any] = []
        for message in messages:
            answer = self.ask(message, topic)
            assert not isinstance(answer, DeadLetter), answer.reason
            outputs += answer
        return outputs

    def ask(self, message: Any, topic: str | None = None) -> Any:
        """Apply one message; return its outputs, or its dead letter."""
        result = self.stage.apply([self.log.message(message, topic)])
        refused = len(self.dead_letters)
        self.keep(result)
        if len(self.dead_letters) > refused:
            return self.dead_letters[-1]
        return self.sort([read_output(each.topic, each.value) for each in result.outputs])

    def sort(self, outputs: list[Any]) -> list[Any]:
        """Keep outputs by their class; return them."""
        kept: dict[type, list[Any]] = {
            EvictionCommand: self.commands,
            MigrationStatus: self.reports,
            DrainStatus: self.drains,
            PlacementDecision: self.decisions,
            RebalanceRound: self.rounds,
        }
        for each in outputs:
            if type(each) in kept:
                kept[type(each)].append(each)
        return outputs

    def later(self, seconds: float = 1) -> list[Any]:
        """Let time pass to one tick."""
        self.seconds += seconds
        return self.say(tick(self.seconds))

    def cause(self) -> Cause:
        """Return a record that is being applied."""
        offset = self.log.ends["clock"] = self.log.ends.get("clock", 0) + 1
        return Cause(CLUSTER, "clock", 0, offset, at(self.seconds), build_as_of(0, {}))

    def propose(self, uid: str, node: str | None = None, **fields: Any) -> str | None:
        """Let a round want a pod to leave; answers with what the first gate says."""
        gate = self.gate(uid, node, **fields)
        return None if gate is None else gate.text

    def gate(self, uid: str, node: str | None = None, **fields: Any) -> Gate | None:
        """The same; answers with the gate."""
        found = self.state.inventory.find_held(uid)
        assert found is not None
        candidate = Candidate(
            found[1],
            node or found[0].name,
            **{
                "pool": "default",
                "phase": "node",
                "reason": "node is overutilized",
                "target": None,
                "usage": {},
                **fields,
            },
        )
        migrations, cause = self.state.migrations, self.cause()
        answer = migrations.hold_back(found[1], candidate.node, cause.now_ms)
        answer = answer or migrations.propose(candidate, cause)
        self.collect()
        return answer

    def collect(self) -> None:
        """Keep the outputs of the migrations."""
        self.sort(list(map(read_message, self.state.migrations.lifecycle.take_messages())))

    def row(self, uid: str) -> Any:
        """The migration of a pod."""
        row = self.state.migrations.lifecycle.registry.find_by_pod(uid)
        assert row is not None
        return row

    @property
    def last(self) -> tuple[str, str]:
        """Phase and reason reported last."""
        return self.reports[-1].phase, self.reports[-1].reason


def cluster(policy: str = FREE, *pods: tuple[Pod, str], nodes: int = 3) -> Moving:
    """Nodes node-1 ... with pods on them, at second 1."""
    moving = Moving()
    moving.say(policy_record(policy), *(node(f"node-{n + 1}") for n in range(nodes)))
    moving.later()
    moving.say(*(lifecycle("seen", each, name) for each, name in pods))
    return moving


def many(count: int, policy: str = FREE) -> Moving:
    """Pods of one node."""
    pods = [(replica(f"p-{number:02}"), "node-1") for number in range(count)]
    return cluster(policy, *pods)


def full_list(moving: Moving, list_id: str, *named: Any, kinds: tuple[str, ...] = ()) -> None:
    """A full list of namespaces or workloads is read, as `list_id`."""
    moving.ask(ListBegin(cluster=CLUSTER, list_id=list_id), "pod-lifecycle")
    for each in named:
        moving.ask(each.model_copy(update={"list_id": list_id}), "pod-lifecycle")
    moving.ask(ListEnd(cluster=CLUSTER, list_id=list_id, kinds=kinds), "pod-lifecycle")


def refused(moving: Moving, action: Any, **fields: Any) -> str:
    """Why a user's request is refused."""
    answer = moving.ask(ask(action, **fields))
    assert isinstance(answer, DeadLetter)
    return answer.reason


def reports(moving: Moving, uid: str) -> list[tuple[str, str]]:
    """Phase and message of each report on a pod's migration."""
    return [(each.phase, each.message) for each in moving.reports if each.pod.uid == uid]
