"""Demand, priority class and limits of a pod, computed once per kind of pod.

Requests and limits are summed as Kubernetes sums them (docs/reference/upstream.md A6.5):

    sum = max(containers + sidecars,
              max over init containers of (init container + sidecars that started before it))
          + overhead

Overhead counts for a limit only if there is a limit. Quantities are added exactly and rounded up once.
Scores by requests assume a small request for containers without a request for cpu or memory (K3); it is kept
apart from the requests.

Koordinator's priority class of a pod follows from a label, else from its priority, else from its quality of
service. An ordinary pod with a request or limit of cpu or memory is prod, and a pod without is batch (A2.8,
A6.1). Pods of class batch and mid request other resources instead of cpu and memory, and pods of class free
request nothing (A4.1, A4.2).

Kubernetes limits the size of a pod (1.5 MiB in etcd), but not the number of its parts. A pod of this size may
name 50,000 labels, and each of them costs time on every node. With the limits of this module, which real pods
stay far below, the slowest record takes less than 250 ms on 5,000 nodes (`make bench
ONLY=worst_record_ms.request_affinity`). A request that exceeds a limit is refused by a decision, and a
running pod becomes a dead letter.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from schemas.base.quantities import parse_nanos, round_amount
from schemas.messages.pods import Container, HostPort, Pod

#: Requests that scores by requests assume for containers without a request.
ASSUMED_REQUESTS: Mapping[str, str] = MappingProxyType({"cpu": "100m", "memory": "200Mi"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PodDemand:
    """Requests and limits of a whole pod: cpu in millicores, other resources in their base unit.

    A resource that some container names is a key, even if its amount is 0.
    """

    requests: Mapping[str, int]
    limits: Mapping[str, int]
    assumed: Mapping[str, int]
    """What scores by requests assume for containers without a request; amounts above 0 only."""
    host_ports: tuple[HostPort, ...]

    best_effort: bool
    """Whether no container has a request or limit of cpu or memory; overhead does not count."""


def compute_demand(pod: Pod) -> PodDemand:
    """Sum requests, limits and host ports of a pod.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    requests = _add_up(pod, "requests")
    return PodDemand(
        requests=requests,
        limits=_add_up(pod, "limits"),
        assumed=_compute_assumed(pod, requests),
        host_ports=tuple(
            port
            for container in (*pod.containers, *_sidecars(pod))
            for port in container.host_ports
        ),
        best_effort=not any(
            parse_nanos(amounts.get(resource, "0")) > 0
            for container in (*pod.containers, *pod.init_containers)
            for amounts in (container.requests, container.limits)
            for resource in ("cpu", "memory")
        ),
    )


def _sidecars(pod: Pod) -> tuple[Container, ...]:
    return tuple(c for c in pod.init_containers if c.restart_policy == "Always")


def _compute_assumed(pod: Pod, requests: Mapping[str, int]) -> dict[str, int]:
    containers = (*pod.containers, *pod.init_containers)
    if all(container.requests.keys() >= ASSUMED_REQUESTS.keys() for container in containers):
        return {}
    with_assumed = _add_up(pod, "requests", ASSUMED_REQUESTS)
    added = {name: with_assumed.get(name, 0) - requests.get(name, 0) for name in ASSUMED_REQUESTS}
    return {name: amount for name, amount in added.items() if amount > 0}


def _add_up(pod: Pod, field: str, missing: Mapping[str, str] = _NOTHING) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in pod.containers:
        _add(running, {**missing, **getattr(container, field)})
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in pod.init_containers:
        amounts = {**missing, **getattr(container, field)}
        if container.restart_policy == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            step = sidecars
        else:
            step = dict(sidecars)
            _add(step, amounts)
        for resource, amount in step.items():
            starting[resource] = max(starting.get(resource, 0), amount)
    for resource, amount in starting.items():
        running[resource] = max(running.get(resource, 0), amount)
    for resource, text in pod.overhead.items():
        if field == "requests" or running.get(resource, 0) > 0:
            running[resource] = running.get(resource, 0) + parse_nanos(text)
    return {resource: round_amount(resource, amount) for resource, amount in running.items()}


def _add(total: dict[str, int], quantities: Mapping[str, str]) -> None:
    for resource, text in quantities.items():
        total[resource] = total.get(resource, 0) + parse_nanos(text)


# --- priority class -----------------------------------------------------------------------------

PriorityClass = Literal["prod", "mid", "batch", "free"]

PRIORITY_CLASS_LABEL = "koordinator.sh/priority-class"
QOS_CLASS_LABEL = "koordinator.sh/qosClass"
#: All labels that a class depends on.
CLASS_LABELS = (PRIORITY_CLASS_LABEL, QOS_CLASS_LABEL)

_BY_LABEL: dict[str, PriorityClass] = {
    "koord-prod": "prod",
    "koord-mid": "mid",
    "koord-batch": "batch",
    "koord-free": "free",
}
_BANDS: tuple[tuple[int, int, PriorityClass], ...] = (
    (9000, 9999, "prod"),
    (7000, 7999, "mid"),
    (5000, 5999, "batch"),
    (3000, 3999, "free"),
)
_BY_QOS: dict[str, PriorityClass] = {
    "LSE": "prod",
    "LSR": "prod",
    "LS": "prod",
    "SYSTEM": "prod",
    "BE": "batch",
}


def priority_class(pod: Pod, demand: PodDemand) -> PriorityClass:
    label = pod.labels.get(PRIORITY_CLASS_LABEL)
    if label is not None:
        by_label = _BY_LABEL.get(label)
        if by_label is not None:
            return by_label
    elif pod.priority is not None:
        for low, high, name in _BANDS:
            if low <= pod.priority <= high:
                return name
    by_qos = _BY_QOS.get(pod.labels.get(QOS_CLASS_LABEL, ""))
    if by_qos is not None:
        return by_qos
    if pod.qos_class is not None:
        return "batch" if pod.qos_class == "BestEffort" else "prod"
    return "batch" if demand.best_effort else "prod"


# --- requests of a class ------------------------------------------------------------------------

#: Expected usage of a pod without requests and limits: 250 millicores, 200 MiB; not scaled.
DEFAULT_DEMAND = {
    "cpu": 250,
    "memory": 200 * 1024 * 1024,
    "kubernetes.io/batch-cpu": 250,
    "kubernetes.io/batch-memory": 200 * 1024 * 1024,
}
#: Resources that a class requests instead of cpu and memory.
_TRANSLATED: dict[PriorityClass, dict[str, str]] = {
    "batch": {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"},
    "mid": {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"},
    "free": {},
}


def translate_resource(resource: str, of_class: PriorityClass) -> str | None:
    """Return the resource that a class requests instead of a resource; None if it requests none."""
    if of_class == "prod":
        return resource
    return _TRANSLATED[of_class].get(resource)


def resolve_demand(resource: str, demand: PodDemand, of_class: PriorityClass) -> int:
    """Return a pod's request or limit of a resource, else the default for pods without a request."""
    amount = find_request(resource, demand, of_class)
    return amount or DEFAULT_DEMAND.get(translate_resource(resource, of_class) or "", 0)


def resolve_demands(demand: PodDemand, of_class: PriorityClass) -> dict[str, int]:
    """Return `resolve_demand` of each resource for which it is not 0."""
    names = dict.fromkeys((*DEFAULT_DEMAND, *demand.requests, *demand.limits))
    resolved = {name: resolve_demand(name, demand, of_class) for name in names}
    return {name: amount for name, amount in resolved.items() if amount}


def find_request(resource: str, demand: PodDemand, of_class: PriorityClass) -> int:
    """Return a pod's request of a resource, else its limit, else 0.

    The name that the class uses comes first, then the name of the resource.
    """
    for name in (translate_resource(resource, of_class) or "", resource):
        amount = demand.requests.get(name, 0) or demand.limits.get(name, 0)
        if amount:
            return amount
    return 0


# --- limits -------------------------------------------------------------------------------------

#: Labels in node selector and required node affinity: half of the number of label columns, so that two
#: such pods do not displace each other's columns.
LABELS_PER_POD_MAX = 64
#: Expressions in all terms of the required node affinity; each is evaluated on all nodes.
EXPRESSIONS_PER_POD_MAX = 512
#: Values of those expressions.
VALUES_PER_POD_MAX = 4_096
#: Resources in all containers: as many as one list may name.
RESOURCES_PER_POD_MAX = 64
#: Requests and limits in all containers: 64 containers that name every resource twice.
AMOUNTS_PER_POD_MAX = 8_192
#: Host ports in all containers.
HOST_PORTS_PER_POD_MAX = 1_024


def find_exceeded_limit(pod: Pod) -> str | None:
    """Return which limit a pod exceeds, with both numbers; None if it exceeds none."""
    for subject, count, allowed in _count_parts(pod):
        if count > allowed:
            return f"the pod has {count} {subject}; allowed are at most {allowed}"
    return None


def _count_parts(pod: Pod) -> Iterator[tuple[str, int, int]]:
    containers = (*pod.containers, *pod.init_containers)
    if pod.required_node_affinity or pod.node_selector:
        expressions = [
            part
            for term in pod.required_node_affinity or ()
            for part in (*term.match_expressions, *term.match_fields)
        ]
        labels = {*pod.node_selector, *(part.key for part in expressions)}
        yield "labels in node selector and node affinity", len(labels), LABELS_PER_POD_MAX
        yield "expressions in its node affinity", len(expressions), EXPRESSIONS_PER_POD_MAX
        values = sum(len(part.values) for part in expressions)
        yield "values in its node affinity", values, VALUES_PER_POD_MAX
    amounts = [len(part.requests) + len(part.limits) for part in containers]
    yield "requests and limits in all containers", sum(amounts), AMOUNTS_PER_POD_MAX
    yield (
        "resources in all containers",
        len(_list_resources(pod, containers)),
        RESOURCES_PER_POD_MAX,
    )
    ports = sum(len(part.host_ports) for part in containers)
    yield "host ports in all containers", ports, HOST_PORTS_PER_POD_MAX


def _list_resources(pod: Pod, containers: tuple[Container, ...]) -> set[str]:
    return (
        set(pod.overhead)
        .union(*(container.requests for container in containers))
        .union(*(container.limits for container in containers))
    )
