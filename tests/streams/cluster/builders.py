"""Messages of a small cluster in few words; times are seconds after `START_MS`."""

import json
from typing import Any

from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Container, OwnerReference, Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.policy import LoadAwareSchedulingArgs, Policy, load_aware_args, read_policy

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
