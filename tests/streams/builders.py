"""Messages and parts of a small cluster for tests of both stages.

Every builder names the fewest things: a pod is named by its uid, and times are seconds after `START_MS`
where a builder says so. Further fields of a message are given by their names.
"""

from collections.abc import Mapping
from typing import Any

import orjson
import yaml

from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import AsOf, PlacementDecision, SchedulingRequest
from schemas.messages.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.migrations import MigrationRequest, MigrationRow
from schemas.messages.moves import FollowedEvictionRow, RecentMove
from schemas.messages.nodes import NodeState
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceState,
    PriorityClassState,
    WorkloadState,
)
from schemas.messages.pods import (
    Container,
    NodeRequirement,
    OwnerReference,
    Pod,
    PodLifecycle,
    PodRef,
    PodSelector,
    SelectorRequirement,
)
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import CollectPolicyRecord, NodeCollectPolicy, NodeUsage
from schemas.policy import LoadAwareSchedulingArgs, Policy, read_policy
from schemas.topics.codec import decode
from schemas.topics.partitions import find_policy_numbers, partition_for
from streams.aggregate.collect_policies import PoolRules
from streams.inventory.node import Node
from streams.pods.held_pod import HeldPod
from streams.pods.kind import Kind, kind_of
from streams.stage.cause import build_as_of
from streams.usage.estimate import Estimator
from tests.plugin_arguments import load_aware_args

CLUSTER = "test"
START_MS = 1_760_000_000_000
SECOND = 1_000
MINUTE = 60_000
GI = 1024**3
AS_OF = build_as_of(0, {})

THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
SCALING_FACTORS = "scheduling.koordinator.sh/load-estimated-scaling-factors"
AFTER_SCHEDULED = "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
AFTER_INITIALIZED = "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"


def at(seconds: float) -> int:
    """Milliseconds of a time."""
    return START_MS + round(seconds * 1000)


def tick(seconds: float = 0, partition: int = 0) -> ClockTick:
    return ClockTick(partition=partition, now_ms=at(seconds))


# --- nodes ---------------------------------------------------------------------------------------


def node(name: str = "node-1", *, cpu: str = "8", memory: str = "32Gi", **fields: Any) -> NodeState:
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110"}
    return bare_node(name, **{"allocatable": allocatable, **fields})


def nodes(count: int = 4, *, cores: int = 16, pods: int = 110) -> list[NodeState]:
    """Nodes n0, n1, ... with 4 GiB a core."""
    allocatable = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": str(pods)}
    return [node(f"n{number}", allocatable=allocatable) for number in range(count)]


def bare_node(name: str, **fields: Any) -> NodeState:
    """A node that has nothing but these fields."""
    return NodeState(**{"cluster": CLUSTER, "node": name, "event": "added", **fields})


def removed_node(name: str = "node-1") -> NodeState:
    return bare_node(name, event="removed")


def inventory_node(
    state: NodeState,
    *held: Pod,
    estimator: Estimator | None = None,
    metric: NodeMetric | None = None,
    at_ms: int = 0,
) -> Node:
    """A node of the inventory, with pods that were assigned to it at a time and a metric."""
    node = Node(state.node, estimator or Estimator(LoadAwareSchedulingArgs()))
    node.set_state(state)
    hold(node, *held, at_ms=at_ms)
    if metric is not None and not metric.removed:
        node.set_metric(metric)
    return node


def offering_node(allocatable: dict[str, str], *held: Pod) -> Node:
    """A node of the inventory with these amounts; it may hold the same pod several times."""
    pods = (pod.model_copy(update={"uid": f"held-{number}"}) for number, pod in enumerate(held))
    return inventory_node(bare_node("n", allocatable=allocatable), *pods)


def hold(node: Node, *pods: Pod, at_ms: int = 0) -> None:
    """Let pods take room on a node."""
    for pod in pods:
        node.hold(HeldPod(pod=pod, kind=kind_of(pod), assigned_at_ms=at_ms), at_ms)


# --- pods ----------------------------------------------------------------------------------------


def container(
    requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **fields: Any
) -> Container:
    return Container(requests=requests or {}, limits=limits or {}, **fields)


def bare_pod(uid: str = "p", **fields: Any) -> Pod:
    """A pod that has nothing but these fields."""
    return Pod(**{"namespace": "default", "name": uid, "uid": uid, **fields})


def pod(uid: str = "pod-1", *, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Pod:
    """A pod of one container whose limits are its requests."""
    amounts = {"cpu": cpu, "memory": memory}
    return bare_pod(uid, **{"containers": (container(amounts, amounts),), **fields})


def big_pod(uid: str, **fields: Any) -> Pod:
    """A pod that takes all cpu of a `node`."""
    return pod(uid, cpu="8", **fields)


def requesting_pod(*requests: dict[str, str]) -> Pod:
    """A pod with a container for each of these requests, without limits."""
    return bare_pod("requesting", containers=tuple(container(amounts) for amounts in requests))


def replica(uid: str, owner: str = "web", *, kind: str = "ReplicaSet", **fields: Any) -> Pod:
    """A ready pod of an owner, placed by a scheduler whose pods may have reservations."""
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


def bare_kind(**fields: Any) -> Kind:
    """The kind of a `bare_pod`."""
    return kind_of(bare_pod(**fields))


def controlled_by(owner: str, kind: str = "ReplicaSet") -> tuple[OwnerReference, ...]:
    """References to a pod's controller, whose uid is its name."""
    return (OwnerReference(kind=kind, name=owner, uid=owner, controller=True),)


def ref(uid: str | Pod) -> PodRef:
    pod = bare_pod(uid) if isinstance(uid, str) else uid
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def node_requirement(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement.model_validate({"key": key, "operator": operator, "values": values})


def label_requirement(key: str, operator: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement.model_validate(
        {"key": key, "operator": operator, "values": values}, strict=True
    )


def amounts(cpu: str, memory: str, **others: str) -> dict[str, str]:
    """Amounts by resource."""
    return {"cpu": cpu, "memory": memory, **others}


def lifecycle(event: Any, of: Pod, node: str | None = None, **fields: Any) -> PodLifecycle:
    """Something happened to a pod, on a node if one is given."""
    pod = of if node is None else of.model_copy(update={"node": node})
    return PodLifecycle(cluster=CLUSTER, event=event, pod=pod, **fields)


def numbered_pod(number: int, *, cpu: str = "500m", memory: str = "1Gi", **fields: Any) -> Pod:
    """Pod p<number> with uid u<number>, for tests that need many."""
    containers = (container(amounts(cpu, memory)),)
    return bare_pod(
        **{"name": f"p{number}", "uid": f"u{number}", "containers": containers, **fields}
    )


# --- requests and outcomes -----------------------------------------------------------------------


def request(of: Pod | str = "pod-1", **fields: Any) -> SchedulingRequest:
    """A pod asks for a node."""
    asking = pod(of) if isinstance(of, str) else of
    return SchedulingRequest(
        **{"cluster": CLUSTER, "pod": asking, "requested_at_ms": START_MS, **fields}
    )


def numbered_request(number: int, *, at_ms: int = START_MS, **fields: Any) -> SchedulingRequest:
    """A `numbered_pod` asks for a node."""
    return request(numbered_pod(number, **fields), requested_at_ms=at_ms)


def user_request(action: Any, *, pod: Pod | None = None, **fields: Any) -> MigrationRequest:
    """A user asks for a migration, a pause, an abort or a drain."""
    return MigrationRequest(
        request_id=f"request-{action}",
        cluster=CLUSTER,
        action=action,
        pod=None if pod is None else ref(pod),
        requested_at_ms=START_MS,
        **fields,
    )


def outcome(
    command: PlacementDecision | EvictionCommand,
    result: Any = "done",
    reason: str = "",
    *,
    pod_gone: bool = False,
) -> CommandOutcome:
    """The result of a binding or an eviction."""
    return CommandOutcome(
        command_id=command.decision_id
        if isinstance(command, PlacementDecision)
        else command.command_id,
        cluster=CLUSTER,
        command="bind" if isinstance(command, PlacementDecision) else "evict",
        pod=PodRef(namespace=command.pod.namespace, name=command.pod.name, uid=command.pod.uid),
        node=command.node,
        result=result,
        reason=reason,
        pod_gone=pod_gone,
        happened_at_ms=command.decided_at_ms,
    )


# --- usage ---------------------------------------------------------------------------------------


def metric(
    name: str = "node-1", *, cpu: int = 0, memory: int = 1, seconds: float = 0, **fields: Any
) -> NodeMetric:
    """What a node used: millicores and bytes."""
    return NodeMetric(
        **{
            "cluster": CLUSTER,
            "node": name,
            "updated_at_ms": at(seconds),
            "usage": {"cpu": cpu, "memory": memory},
            **fields,
        }
    )


def pod_metric(uid: str, priority_class: str = "koord-prod", **usage: int) -> PodMetric:
    return PodMetric(namespace="default", name=uid, usage=usage, priority_class=priority_class)


def aggregated(duration_s: int, **usage: dict[str, int]) -> AggregatedUsage:
    """Figures over one duration, as in `aggregated(300, p95={"cpu": 100})`."""
    return AggregatedUsage.model_validate({"duration_ms": duration_s * 1000, "usage": usage})


def sample(
    seconds: float = 0,
    cpu: int = 1_000,
    node: str = "n0",
    cluster: str = CLUSTER,
    **fields: Any,
) -> dict[str, Any]:
    """A usage sample as its producer writes it."""
    return {
        "schema_version": 1,
        "cluster": cluster,
        "node": node,
        "sampled_at_ms": at(seconds),
        "usage": {"cpu": cpu},
        **fields,
    }


def pod_usage(name: str, cpu: int, uid: str | None = None, **fields: Any) -> dict[str, Any]:
    """A pod's part of a sample."""
    return {
        "namespace": "default",
        "name": name,
        "uid": uid or f"uid-{name}",
        "usage": {"cpu": cpu},
        **fields,
    }


def read_sample(raw: Mapping[str, Any]) -> NodeUsage:
    message = decode("node-usage", orjson.dumps(raw))
    assert isinstance(message, NodeUsage), message
    return message


def node_in(partition: int, partitions: int, cluster: str = CLUSTER) -> str:
    """A node whose samples belong to this partition."""
    names = (f"n{number}" for number in range(10_000))
    return next(
        name
        for name in names
        if partition_for(f"{cluster}/{name}".encode(), partitions) == partition
    )


def collect_policy(
    average_s: int = 60, report_s: int = 30, durations_s: tuple[int, ...] = (40, 120)
) -> NodeCollectPolicy:
    """A policy whose windows are so short that a test fills them with a few samples."""
    return NodeCollectPolicy(
        average_ms=average_s * SECOND,
        report_ms=report_s * SECOND,
        durations_ms=tuple(seconds * SECOND for seconds in durations_s),
        memory="usageWithoutPageCache",
    )


QUICK = collect_policy()
QUICK_COLLECTING = PoolRules(QUICK)


def collect_policy_record(
    default: NodeCollectPolicy,
    pools: Mapping[str, NodeCollectPolicy] | None = None,
    cluster: str = CLUSTER,
    partition: int = 0,
    partitions: int = 1,
) -> CollectPolicyRecord:
    """A collect policy as the cluster stage sends it to a partition."""
    return CollectPolicyRecord(
        cluster=cluster,
        number=find_policy_numbers(cluster, partitions)[partition],
        default=default,
        pools=dict(pools or {}),
        as_of=AsOf.model_validate(AS_OF),
    )


# --- policies ------------------------------------------------------------------------------------

#: Migrations without any limit.
NO_LIMITS = """
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


def policy_record(document: str = "", **fields: Any) -> PolicyRecord:
    return PolicyRecord(cluster=CLUSTER, document=document, applied_at_ms=START_MS, **fields)


def migration_policy(extra: str = "", **migration: Any) -> str:
    """The policy without limits, with some of the fields of `migration`."""
    document = yaml.safe_load(NO_LIMITS)
    document["migration"] |= migration
    document |= yaml.safe_load(extra) or {}
    return yaml.safe_dump(document)


def moves_policy(mode: str = "enforce", **moves: Any) -> Policy:
    """A policy with these fields of `moves`, and rounds so often that they do not matter."""
    fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in moves.items())
    rounds = "descheduling: {deschedulingInterval: 1s}"
    return read_policy(f"mode: {mode}\n{rounds}\nmoves: {{{fields}}}\n")


def load_args(**fields: Any) -> LoadAwareSchedulingArgs:
    """Arguments of the load-aware plugin by upstream's names."""
    return load_aware_args(fields)


# --- workloads and migrations --------------------------------------------------------------------


def workload(uid: str = "web", replicas: int = 3, **fields: Any) -> WorkloadState:
    return WorkloadState(
        **{
            "cluster": CLUSTER,
            "uid": uid,
            "owner_kind": "ReplicaSet",
            "namespace": "default",
            "name": uid,
            "replicas": replicas,
            **fields,
        }
    )


def budget(
    allowed: int = 1, name: str = "web", app: str = "web", **fields: Any
) -> DisruptionBudget:
    """A disruption budget over the pods of an app."""
    return DisruptionBudget(
        **{
            "cluster": CLUSTER,
            "namespace": "default",
            "name": name,
            "selector": PodSelector(match_labels={"app": app}),
            "disruptions_allowed": allowed,
            "current_healthy": 3,
            "desired_healthy": 2,
            "expected_pods": 3,
            **fields,
        }
    )


def namespace(name: str = "default", team: str = "shop", **fields: Any) -> NamespaceState:
    """A namespace of a team."""
    return NamespaceState(cluster=CLUSTER, name=name, labels={"team": team}, **fields)


def priority_class(value: int, name: str = "high", **fields: Any) -> PriorityClassState:
    return PriorityClassState(cluster=CLUSTER, name=name, value=value, **fields)


def migration_row(number: int, node: str, **fields: Any) -> MigrationRow:
    """A migration as the registry holds it."""
    return MigrationRow.model_construct(
        **{
            "migration_id": f"m-{number}",
            "pod": replica(f"p-{number}"),
            "source_node": node,
            "owner": f"o-{node}",
            "phase": "Pending",
            "attempts": 0,
            "replacement": None,
            "sequence": number,
            **fields,
        }
    )


def followed_eviction(
    uid: str,
    owner: str = "owner",
    source: str = "a",
    seconds: float = 0,
    *,
    number: str = "",
    hot: bool = True,
) -> FollowedEvictionRow:
    """A pod was evicted from a node; the command has the name of the pod, or a number."""
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


def recent_moves(*steps: tuple[str, str, int, int]) -> list[RecentMove]:
    """Moves as source, target, when left, when arrived."""
    return [
        RecentMove(source=source, target=target, left_at_ms=left_s, arrived_at_ms=arrived)
        for source, target, left_s, arrived in steps
    ]
