"""API objects of golden scenarios as the messages of connectors."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.messages.nodes import NodeState, Taint
from schemas.messages.pods import Container, OwnerReference, Pod, PodLifecycle, Toleration
from schemas.policy.durations import parse_duration_ms

Json = Mapping[str, Any]

CLUSTER = "golden"


def time_ms(text: str | None) -> int | None:
    """Convert RFC 3339 to milliseconds; `times` has removed finer times."""
    if text is None:
        return None
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def node(item: Json) -> NodeState:
    """Return the state of a node."""
    return NodeState(
        cluster=CLUSTER,
        node=item["name"],
        event="added",
        allocatable=item["allocatable"],
        labels=item.get("labels", {}),
        annotations=item.get("annotations", {}),
        taints=tuple(Taint.model_validate(taint) for taint in item.get("taints", ())),
        unschedulable=item.get("unschedulable", False),
    )


def metric(item: Json) -> NodeMetric:
    """Return the message of a NodeMetric."""
    interval_s = item.get("reportIntervalSeconds")
    return NodeMetric(
        cluster=CLUSTER,
        node=item["node"],
        updated_at_ms=time_ms(item.get("updateTime")),
        report_interval_ms=None if interval_s is None else interval_s * 1000,
        usage=None if item.get("nodeMetricNil") else parse_amounts(item.get("nodeUsage", {})),
        system_usage=parse_amounts(item.get("systemUsage", {})),
        aggregated=tuple(
            AggregatedUsage(
                duration_ms=parse_duration_ms(entry["duration"]),
                usage={kind: parse_amounts(usage) for kind, usage in entry["usage"].items()},
            )
            for entry in item.get("aggregatedNodeUsages", ())
        ),
        pods=tuple(
            PodMetric(
                namespace=reported["namespace"],
                name=reported["name"],
                usage=parse_amounts(reported.get("usage", {})),
                priority_class=reported.get("priorityClass", ""),
            )
            for reported in item.get("podsMetric", ())
        ),
    )


def lifecycle(event: Any, item: Json) -> PodLifecycle:
    """Return the event of a pod."""
    return PodLifecycle(cluster=CLUSTER, event=event, pod=pod(item))


def pod(item: Json) -> Pod:
    owner = item.get("ownerKind")
    return Pod(
        namespace=item["namespace"],
        name=item["name"],
        uid=item["uid"],
        node=item.get("node"),
        priority=item.get("priority"),
        phase=item.get("phase") or "Pending",
        qos_class=item.get("qosClass"),
        labels=item.get("labels", {}),
        annotations=item.get("annotations", {}),
        owners=(OwnerReference(kind=owner),) if owner else (),
        containers=tuple(container(one) for one in item.get("containers", ())),
        init_containers=tuple(container(one) for one in item.get("initContainers", ())),
        overhead=item.get("overhead", {}),
        node_selector=item.get("nodeSelector", {}),
        tolerations=tuple(Toleration.model_validate(one) for one in item.get("tolerations", ())),
        created_at_ms=time_ms(item.get("createdAt")),
        scheduled_at_ms=time_ms(item.get("scheduledTime")),
        initialized_at_ms=time_ms(item.get("initializedTime")),
    )


def container(item: Json) -> Container:
    return Container(
        requests=item.get("requests", {}),
        limits=item.get("limits", {}),
        restart_policy=item.get("restartPolicy"),
    )
