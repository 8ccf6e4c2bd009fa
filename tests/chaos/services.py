"""Services of a chaos run: pods that their owners replace, and clusters that evict them from hot nodes.

Pods of services run until they are evicted. One node of their cluster after the other becomes hot, because
its system usage and the pods of services on it use much. Rounds come every second and limits are high, so
that pods are evicted all the time. One such cluster reserves room before a pod is evicted, one does not,
and one only observes. Everything here is a function of its arguments.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.migrations import Mode
from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import Container, OwnerReference, Pod, PodSelector

SERVICES = 4
#: Number of pods of each service.
REPLICAS = 8
#: Minimum of running pods in the disruption budget of service 0.
HEALTHY_MIN = 6
NAMESPACE = "services"
#: Small enough to fit on most nodes that other pods have filled.
REQUESTS = {"cpu": "50m", "memory": "64Mi"}
#: Annotation of a replacement: uid of the evicted pod.
REPLACES = "chaos/replaces"
#: Timeout of a migration, whatever the outcome of its command.
TTL_S = 15

_HOT_SYSTEM_MILLICORES, _HOT_POD_MILLICORES = 9_000, 1_500
_CALM_SYSTEM_MILLICORES, _CALM_POD_MILLICORES = 1_000, 100

_POLICY = f"""
mode: {{mode}}
descheduling: {{{{deschedulingInterval: 1s}}}}
rebalance:
  highThresholds: {{{{cpu: 70}}}}
  lowThresholds: {{{{cpu: 40}}}}
  anomalyCondition: {{{{consecutiveAbnormalities: 2, consecutiveNormalities: 1}}}}
migration:
  defaultJobMode: {{job_mode}}
  defaultJobTTL: {TTL_S}s
  skipCheckExpectedReplicas: true
  maxUnavailablePerWorkload: 100%
  maxMigratingPerWorkload: 100%
  maxMigratingPerNode: 10
  evictBurst: 10
  objectLimiters: {{{{workload: {{{{duration: 1s, maxMigrating: 10, burst: 10}}}}}}}}
moves:
  coolingSeconds: 1
  loopWindowSeconds: 10
  maxMovesPerOwner: 20
  initialFreezeSeconds: 1
  maxFreezeSeconds: 2
  followSeconds: 6
"""

Action = Literal["migrate", "abort", "drain", "undrain"]
Way = Literal["observe"] | Mode
"""How a cluster evicts: not at all, or in one of the two modes."""


@dataclass(frozen=True)
class UserRequest:
    """A user's request; its pod or node is drawn when it is sent."""

    cluster: str
    action: Action
    request_id: str
    drawn: float
    """From 0 to 1: which pod, migration or node."""
    mode: Mode | None = None


def policy(way: Way) -> str:
    """Return the section of a cluster's policy about evictions."""
    enforced = way != "observe"
    job_mode = way if enforced else "ReservationFirst"
    return _POLICY.format(mode="enforce" if enforced else "observe", job_mode=job_mode)


def workload(cluster: str, service: int) -> WorkloadState:
    """Return the workload of a service."""
    name = _name(cluster, service)
    return WorkloadState(
        cluster=cluster,
        uid=f"rs-{name}",
        owner_kind="ReplicaSet",
        namespace=NAMESPACE,
        name=name,
        replicas=REPLICAS,
    )


def budget(cluster: str, healthy: int) -> DisruptionBudget:
    """Return the budget of service 0 while this many of its pods run."""
    return DisruptionBudget(
        cluster=cluster,
        namespace=NAMESPACE,
        name="budget",
        selector=PodSelector(match_labels={"app": _name(cluster, 0)}),
        disruptions_allowed=max(0, healthy - HEALTHY_MIN),
        current_healthy=healthy,
        desired_healthy=HEALTHY_MIN,
        expected_pods=REPLICAS,
    )


def pod(cluster: str, service: int, number: int) -> Pod:
    """Return a pod of a service; the first pods have the numbers below `REPLICAS`."""
    owner = _name(cluster, service)
    name = f"{owner}-{number}"
    return Pod(
        namespace=NAMESPACE,
        name=name,
        uid=f"u-{name}",
        labels={"app": owner},
        owners=(OwnerReference(kind="ReplicaSet", name=owner, uid=f"rs-{owner}", controller=True),),
        containers=(Container(requests=REQUESTS),),
    )


def replacement(evicted: Pod) -> Pod:
    """Return the replacement of an evicted pod; equal arguments give the same pod."""
    owner, number = evicted.name.rsplit("-", 1)
    name = f"{owner}-{int(number) + REPLICAS}"
    return evicted.model_copy(
        update={
            "name": name,
            "uid": f"u-{name}",
            "node": None,
            "phase": "Pending",
            "ready": False,
            "annotations": {REPLACES: evicted.uid},
        }
    )


def metric(cluster: str, node: str, pods: Iterable[Pod], now_ms: int, *, hot: bool) -> NodeMetric:
    """Return the usage of a node with these pods of services."""
    system = _HOT_SYSTEM_MILLICORES if hot else _CALM_SYSTEM_MILLICORES
    usage = {"cpu": _HOT_POD_MILLICORES if hot else _CALM_POD_MILLICORES, "memory": 2**28}
    metrics = tuple(
        PodMetric(namespace=pod.namespace, name=pod.name, usage=usage, priority_class="koord-prod")
        for pod in pods
    )
    return NodeMetric(
        cluster=cluster,
        node=node,
        updated_at_ms=now_ms,
        usage={"cpu": system + usage["cpu"] * len(metrics), "memory": 2**32},
        system_usage={"cpu": system, "memory": 2**31},
        pods=metrics,
    )


def _name(cluster: str, service: int) -> str:
    return f"{cluster}-s{service}"
