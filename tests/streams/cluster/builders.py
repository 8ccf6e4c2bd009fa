"""What tests of the core say to it, in few words; times are seconds after `START_MS`.

Messages of a small cluster, of a cluster that moves pods, moves that were made, and policies of
rounds. Names of owners, pods and workloads are their uids.
"""

import json
from typing import Any

import yaml

from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.migrations import MigrationRequest, MigrationRow
from schemas.messages.moves import FollowedEvictionRow, RecentMove
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pod_selectors import PodSelector, SelectorRequirement
from schemas.messages.pods import Container, OwnerReference, Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.workloads import (
    DisruptionBudget,
    WorkloadState,
)
from schemas.policy import LoadAwareSchedulingArgs, Policy, load_aware_args, read_policy
from streams.stage.cause import build_as_of

CLUSTER = "test"
START_MS = 1_760_000_000_000
GI = 1024**3

THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
SCALING_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"


def at(seconds: float) -> int:
    """Milliseconds of a time."""
    return START_MS + int(seconds * 1000)


def controlled_by(owner: str, kind: str = "ReplicaSet") -> tuple[OwnerReference, ...]:
    """References to a pod's controller, whose uid is its name."""
    return (OwnerReference(kind=kind, name=owner, uid=owner, controller=True),)


def node(name: str = "node-1", *, cpu: str = "8", memory: str = "32Gi", **fields: Any) -> NodeState:
    """A node that is there."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return NodeState(
        **{
            "cluster": CLUSTER,
            "node": name,
            "event": "added",
            "allocatable": allocatable,
            **fields,
        }
    )


def node_gone(name: str = "node-1") -> NodeState:
    """A node that is there no more."""
    return NodeState(cluster=CLUSTER, node=name, event="removed")


def metric(
    name: str = "node-1", *, cpu: int = 0, memory: int = 0, seconds: float = 0, **fields: Any
) -> NodeMetric:
    """What a node used: millicores and bytes."""
    usage = {"cpu": cpu, "memory": memory}
    return NodeMetric(
        **{
            "cluster": CLUSTER,
            "node": name,
            "updated_at_ms": at(seconds),
            "usage": usage,
            **fields,
        }
    )


def aggregated(duration_s: int, **usage: dict[str, int]) -> AggregatedUsage:
    """Figures over one duration, as in `aggregated(300, p95={"cpu": 100})`."""
    return AggregatedUsage.model_validate({"duration_ms": duration_s * 1000, "usage": usage})


def pod_metric(uid: str, priority_class: str = "koord-prod", **usage: int) -> PodMetric:
    """What a pod used."""
    return PodMetric(namespace="default", name=uid, usage=usage, priority_class=priority_class)


def container(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **fields: Any
) -> Container:
    """A container."""
    return Container(requests=requests or {}, limits=limits or {}, **fields)


def pod(uid: str = "pod-1", *, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Pod:
    """A pod of one container whose limits are its requests; its name is its uid."""
    amounts = {"cpu": cpu, "memory": memory}
    return Pod(
        **{
            "namespace": "default",
            "name": uid,
            "uid": uid,
            "containers": (container(amounts, amounts),),
            **fields,
        }
    )


def full(uid: str, **fields: Any) -> Pod:
    """A pod that takes all cpu of a `node`."""
    return pod(uid, cpu="8", **fields)


def request(of: Pod | str = "pod-1", **fields: Any) -> SchedulingRequest:
    """A pod wants a node."""
    wanting = pod(of) if isinstance(of, str) else of
    return SchedulingRequest(cluster=CLUSTER, pod=wanting, requested_at_ms=START_MS, **fields)


def lifecycle(event: Any, of: Pod, node: str | None = None, **fields: Any) -> PodLifecycle:
    """Something happened to a pod, on a node if one is given."""
    there = of if node is None else of.model_copy(update={"node": node})
    return PodLifecycle(cluster=CLUSTER, event=event, pod=there, **fields)


def outcome(
    of: PlacementDecision, result: Any, reason: str = "", *, pod_gone: bool = False
) -> CommandOutcome:
    """What came of a binding."""
    return CommandOutcome(
        command_id=of.decision_id,
        cluster=CLUSTER,
        command="bind",
        pod=PodRef(namespace=of.pod.namespace, name=of.pod.name, uid=of.pod.uid),
        node=of.node,
        result=result,
        reason=reason,
        pod_gone=pod_gone,
        happened_at_ms=of.decided_at_ms,
    )


def tick(seconds: float = 0, partition: int = 0) -> ClockTick:
    """It is so late."""
    return ClockTick(partition=partition, now_ms=at(seconds))


def policy_record(document: str = "", **fields: Any) -> PolicyRecord:
    """A policy is applied."""
    return PolicyRecord(cluster=CLUSTER, document=document, applied_at_ms=START_MS, **fields)


def policy(document: str = "") -> Policy:
    """A policy as its document says."""
    return read_policy(document)


def load_args(**args: Any) -> LoadAwareSchedulingArgs:
    """Arguments of the load-aware plugin in upstream's names."""
    return load_aware_args(args)


def as_json(value: Any) -> str:
    """An annotation's text."""
    return json.dumps(value)


# --- migrations ----------------------------------------------------------------------------------

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
            "owners": controlled_by(owner, kind=kind),
            **fields,
        },
    )


def workload(uid: str = "web", replicas: int = 3, **fields: Any) -> WorkloadState:
    """An owner and what it wants."""
    return WorkloadState(
        **{
            "cluster": CLUSTER, "uid": uid, "owner_kind": "ReplicaSet", "namespace": "default",
            "name": uid, "replicas": replicas, **fields,
        }
    )  # fmt: skip


def budget(allowed: int, name: str = "web", app: str = "web", **fields: Any) -> DisruptionBudget:
    """A disruption budget over the pods of an app."""
    return DisruptionBudget(
        cluster=CLUSTER, namespace="default", name=name,
        selector=PodSelector(match_labels={"app": app}), disruptions_allowed=allowed,
        current_healthy=3, desired_healthy=2, expected_pods=3, **fields,
    )  # fmt: skip


def namespace(name: str = "default", team: str = "shop", **fields: Any) -> NamespaceState:
    """A namespace of a team."""
    return NamespaceState(cluster=CLUSTER, name=name, labels={"team": team}, **fields)


def priority_class(value: int, name: str = "high", **fields: Any) -> PriorityClassState:
    """A class and what it is worth."""
    return PriorityClassState(cluster=CLUSTER, name=name, value=value, **fields)


def ask(action: Any, *, pod: Pod | None = None, **fields: Any) -> MigrationRequest:
    """A user's request."""
    ref = None if pod is None else PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)
    return MigrationRequest(
        request_id=f"request-{action}", cluster=CLUSTER, action=action, pod=ref,
        requested_at_ms=at(0), **fields,
    )  # fmt: skip


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


def migration_row(number: int, node: str, **fields: Any) -> MigrationRow:
    """A migration as the registry holds it."""
    return MigrationRow.model_construct(
        migration_id=f"m-{number}", pod=replica(f"p-{number}"), source_node=node, owner=f"o-{node}",
        phase="Pending", attempts=0, replacement=None, sequence=number, **fields,
    )  # fmt: skip


def expression(key: str, operator: str, *values: str) -> SelectorRequirement:
    """What a selector requires of a label."""
    return SelectorRequirement.model_validate(
        {"key": key, "operator": operator, "values": values}, strict=True
    )


# --- moves ----------------------------------------------------------------------------------------

AS_OF = build_as_of(0, {})


def moves_policy(mode: str = "enforce", **moves: Any) -> Policy:
    """A policy with these fields of `moves`, and rounds so often that they do not matter."""
    fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in moves.items())
    rounds = "descheduling: {deschedulingInterval: 1s}"
    return read_policy(f"mode: {mode}\n{rounds}\nmoves: {{{fields}}}\n")


def owned_pod(uid: str, owner: str = "owner", node: str | None = None) -> Pod:
    """A pod of an owner; its name is its uid."""
    owners = controlled_by(owner)
    return Pod(namespace="shop", name=uid, uid=uid, node=node, owners=owners)


def ref(uid: str) -> PodRef:
    """Which pod."""
    return PodRef(namespace="shop", name=uid, uid=uid)


def eviction(
    uid: str,
    owner: str = "owner",
    source: str = "a",
    seconds: float = 0,
    *,
    number: str = "",
    hot: bool = True,
) -> FollowedEvictionRow:
    """A pod was evicted from a node; commands have the name of the pod, or a number."""
    return FollowedEvictionRow(
        cluster=CLUSTER,
        command_id=f"e-{number or uid}-0000000",
        migration_id=f"m-{number or uid}-0000000",
        pool="web",
        phase="node",
        pod=ref(uid),
        owner=owner,
        source_node=source,
        evicted_at_ms=at(seconds),
        source_hot_before=hot,
    )


def chain(*steps: tuple[str, str, int, int]) -> list[RecentMove]:
    """Moves as source, target, when left, when arrived."""
    return [
        RecentMove(source=source, target=target, left_at_ms=left, arrived_at_ms=arrived)
        for source, target, left, arrived in steps
    ]


# --- rounds ---------------------------------------------------------------------------------------

#: Millicores of one percent of a node.
PERCENT = 100
INTERVAL_MS = 60_000

BY_THRESHOLDS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
BY_RISK = """
plugins: {balance: [OverutilizationRisk]}
overutilizationRisk: {resources: [{name: cpu}]}
riskMoves: {minSavedMinutes: 9, maxMovesPerRound: 3}
"""


def by_thresholds(document: str) -> str:
    """The policy where pods move by thresholds alone, unless it says by what."""
    named = "plugins:" in document or "compat: koordinator" in document
    return document if named else f"{document}\nplugins: {{balance: [LowNodeLoad]}}\n"
