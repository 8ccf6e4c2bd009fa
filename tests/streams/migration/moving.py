"""A small cluster that moves pods, in few words."""

from dataclasses import dataclass, field
from typing import Any

import yaml

from schemas.collect import CollectPolicyRecord
from schemas.decisions import AsOf, PlacementDecision
from schemas.evictions import EvictionCommand
from schemas.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.outcomes import CommandOutcome
from schemas.pods import OwnerReference, Pod, PodRef
from schemas.refusals import Refusal
from schemas.rounds import RebalanceRound
from schemas.workloads import DisruptionBudget, PodSelector, WorkloadState
from streams.cluster.state import ClusterState, Position
from streams.inventory.cause import Cause
from streams.rebalance.outcome import Candidate, Gate
from tests.streams.cluster.builders import (
    CLUSTER,
    at,
    lifecycle,
    node,
    pod,
    policy_record,
    tick,
)

#: No limit that a test does not ask for.
FREE = """
mode: enforce
compat: loadstream
migration:
  maxMigratingPerNode: 0
  skipCheckExpectedReplicas: true
  evictQPS: 1000
  evictBurst: 1000
  objectLimiters: {workload: {duration: 0s}}
  skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload]
"""


def policy_text(extra: str = "", **migration: Any) -> str:
    """The policy without limits, with some of migration's arguments as given."""
    document = yaml.safe_load(FREE)
    document["migration"] |= migration
    document |= yaml.safe_load(extra) or {}
    return yaml.safe_dump(document)


def replica(uid: str, owner: str = "web", *, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    """A pod of an owner, ready, placed by a scheduler whose pods may have reservations."""
    return pod(
        uid,
        **{
            "scheduler": "koord-scheduler",
            "phase": "Running",
            "ready": True,
            "labels": {"app": owner},
            "owners": (OwnerReference(kind=kind, name=owner, uid=owner, controller=True),),
            **fields,
        },
    )


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
            self.keep(answer)
        return answer

    def keep(self, said: Any) -> None:
        kept: dict[type, list[Any]] = {
            EvictionCommand: self.commands,
            MigrationStatus: self.reports,
            DrainStatus: self.drains,
            PlacementDecision: self.decisions,
            RebalanceRound: self.rounds,
        }
        for each in said:
            if not isinstance(each, CollectPolicyRecord):
                kept[type(each)].append(each)

    def later(self, seconds: float = 1) -> list[Any]:
        """Let time pass to one tick."""
        self.seconds += seconds
        return self.say(tick(self.seconds))

    def cause(self) -> Cause:
        """A record that is being applied."""
        self.offset += 1
        return Cause(
            CLUSTER, "t", 0, self.offset, at(self.seconds),
            AsOf(partition=0, offsets={}, policy_digest="default"),
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
        answer = self.state.migrations.propose(candidate, self.cause())
        self.keep(self.state.migrations.take())
        return answer

    def row(self, uid: str) -> Any:
        """The migration of a pod."""
        row = self.state.migrations.of_pod(uid)
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


def evicted(command: EvictionCommand, result: Any = "done", reason: str = "") -> CommandOutcome:
    """What came of a command."""
    return CommandOutcome(
        command_id=command.command_id,
        cluster=CLUSTER,
        command="evict",
        pod=command.pod,
        node=command.node,
        result=result,
        reason=reason,
        happened_at_ms=command.decided_at_ms,
    )


def ask(action: Any, *, pod: Pod | None = None, **fields: Any) -> MigrationRequest:
    """A user's request."""
    ref = None if pod is None else PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return MigrationRequest(
        request_id=f"request-{action}", cluster=CLUSTER, action=action, pod=ref,
        requested_at_ms=at(0), **fields,
    )  # fmt: skip


def workload(uid: str = "web", replicas: int = 3, **fields: Any) -> WorkloadState:
    """An owner and what it wants."""
    return WorkloadState(
        cluster=CLUSTER, uid=uid, owner_kind="ReplicaSet", namespace="default", name=uid,
        replicas=replicas, **fields,
    )  # fmt: skip


def budget(allowed: int, name: str = "web", app: str = "web", **fields: Any) -> DisruptionBudget:
    """A disruption budget over the pods of an app."""
    return DisruptionBudget(
        cluster=CLUSTER, namespace="default", name=name,
        selector=PodSelector(match_labels={"app": app}), disruptions_allowed=allowed,
        current_healthy=3, desired_healthy=2, expected_pods=3, **fields,
    )  # fmt: skip
