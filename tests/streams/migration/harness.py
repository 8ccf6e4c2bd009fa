"""A small cluster that moves pods, in few words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.collect import CollectPolicyRecord
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.pods import Pod
from schemas.messages.rounds import RebalanceRound
from streams.cluster.state import ClusterState, Position
from streams.rebalance.candidates import Candidate, Gate
from streams.stage.cause import Cause, as_of
from streams.stage.records import OutputMessage
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
from tests.streams.outputs import read_message


@dataclass
class Moving:
    """A cluster's state, given message by message; its outputs are kept."""

    state: ClusterState = field(default_factory=lambda: ClusterState(CLUSTER))
    offset: int = 0
    seconds: float = 0
    commands: list[EvictionCommand] = field(default_factory=list)
    reports: list[MigrationStatus] = field(default_factory=list)
    drains: list[DrainStatus] = field(default_factory=list)
    decisions: list[PlacementDecision] = field(default_factory=list)
    rounds: list[RebalanceRound] = field(default_factory=list)

    def say(self, *messages: Any) -> list[Any]:
        """Apply messages; answers with what they caused. A refusal is an error of the test."""
        said: list[Any] = []
        for message in messages:
            answer = self.ask(message)
            assert not isinstance(answer, Refusal), answer.reason
            said += answer
        return said

    def ask(self, message: Any, topic: str = "t") -> Any:
        """Apply one message; answers as the state does."""
        self.offset += 1
        position = Position(topic, 0, self.offset, {topic: self.offset})
        answer = self.state.apply(message, position)
        if not isinstance(answer, Refusal):
            return self.keep(answer)
        return answer

    def keep(self, outputs: Sequence[OutputMessage]) -> list[Any]:
        """Keep outputs; answers with their messages."""
        kept: dict[type, list[Any]] = {
            EvictionCommand: self.commands,
            MigrationStatus: self.reports,
            DrainStatus: self.drains,
            PlacementDecision: self.decisions,
            RebalanceRound: self.rounds,
        }
        said = list(map(read_message, outputs))
        for each in said:
            if not isinstance(each, CollectPolicyRecord):
                kept[type(each)].append(each)
        return said

    def later(self, seconds: float = 1) -> list[Any]:
        """Let time pass to one tick."""
        self.seconds += seconds
        return self.say(tick(self.seconds))

    def cause(self) -> Cause:
        """A record that is being applied."""
        self.offset += 1
        return Cause(
            CLUSTER, "t", 0, self.offset, at(self.seconds),
            as_of(0, {}),
        )  # fmt: skip

    def propose(self, uid: str, node: str | None = None, **fields: Any) -> str | None:
        """Let a round want a pod to leave; answers with what the first gate says."""
        gate = self.gate(uid, node, **fields)
        return None if gate is None else gate.text

    def gate(self, uid: str, node: str | None = None, **fields: Any) -> Gate | None:
        """The same; answers with the gate."""
        found = self.state.inventory.held(uid)
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
        answer = migrations.hold_back(found[1], candidate.node, candidate.pool, cause.now_ms)
        answer = answer or migrations.propose(candidate, cause)
        self.keep(self.state.migrations.lifecycle.take_messages())
        return answer

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
    assert isinstance(answer, Refusal)
    return answer.reason


def reports(moving: Moving, uid: str) -> list[tuple[str, str]]:
    """Phase and message of each report on a pod's migration."""
    return [(each.phase, each.message) for each in moving.reports if each.pod.uid == uid]
