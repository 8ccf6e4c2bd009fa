"""Kinds of pods, and the demand and priority class of a kind.

Every filter and score treats the pods of one kind alike. A kind has all properties of a pod that filters and
scores depend on, so pods of one kind share a ranking. Names, uids and times are not part of a kind. Demand
and priority class are computed once per kind.

Requests and limits are summed as Kubernetes sums them (docs/reference/upstream.md A6):

    sum = max(containers + sidecars,
              max over init containers of (init container + sidecars that started before it))
          + overhead

Overhead counts for a limit only if there is a limit. Quantities are added exactly and rounded up once.
Scores by requests assume a small request for containers without a request for cpu or memory (K3). A demand
has the assumed amounts apart from the requests.

Koordinator's priority class of a pod follows from a label, else from its priority, else from its quality of
service. An ordinary pod with a request or limit of cpu or memory is prod, and any other is batch (A2, A6).
Pods of class batch and mid request other resources instead of cpu and memory, and pods of class free
request nothing (A4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Literal

import orjson

from schemas.base.quantities import parse_nanos, round_amount
from schemas.messages.pods import HostPort, Pod
from streams.stage.sized_cache import SizedCache

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
    """Requests that scores assume for containers without a request; amounts above 0 only."""
    host_ports: tuple[HostPort, ...]
    best_effort: bool
    """Whether no container has a request or limit of cpu or memory; overhead does not count."""


def compute_demand(pod: Pod) -> PodDemand:
    """Sum requests, limits and host ports of a pod.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    requests = _add_up(pod, "requests")
    sidecars = [part for part in pod.init_containers if part.restart_policy == "Always"]
    return PodDemand(
        requests=requests,
        limits=_add_up(pod, "limits"),
        assumed=_compute_assumed(pod, requests),
        host_ports=tuple(
            port for container in (*pod.containers, *sidecars) for port in container.host_ports
        ),
        best_effort=not any(
            parse_nanos(amounts.get(resource, "0")) > 0
            for container in (*pod.containers, *pod.init_containers)
            for amounts in (container.requests, container.limits)
            for resource in ("cpu", "memory")
        ),
    )


def _compute_assumed(pod: Pod, requests: Mapping[str, int]) -> dict[str, int]:
    containers = (*pod.containers, *pod.init_containers)
    if all(container.requests.keys() >= ASSUMED_REQUESTS.keys() for container in containers):
        return {}
    with_assumed = _add_up(pod, "requests", ASSUMED_REQUESTS)
    added = {name: with_assumed.get(name, 0) - requests.get(name, 0) for name in ASSUMED_REQUESTS}
    return {name: amount for name, amount in added.items() if amount > 0}


def _add_up(pod: Pod, field: str, assumed: Mapping[str, str] = _NOTHING) -> dict[str, int]:
    running: dict[str, int] = {}
    for container in pod.containers:
        _add(running, {**assumed, **getattr(container, field)})
    starting: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in pod.init_containers:
        amounts = {**assumed, **getattr(container, field)}
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
#: Classes by thousands of the priority.
_BY_PRIORITY: dict[int, PriorityClass] = {9: "prod", 7: "mid", 5: "batch", 3: "free"}
_BY_QOS: dict[str, PriorityClass] = {
    "LSE": "prod",
    "LSR": "prod",
    "LS": "prod",
    "SYSTEM": "prod",
    "BE": "batch",
}


def resolve_priority_class(pod: Pod, demand: PodDemand) -> PriorityClass:
    label = pod.labels.get(PRIORITY_CLASS_LABEL)
    named = None
    if label is not None:
        named = _BY_LABEL.get(label)
    elif pod.priority is not None:
        named = _BY_PRIORITY.get(pod.priority // 1000)
    named = named or _BY_QOS.get(pod.labels.get(QOS_CLASS_LABEL, ""))
    if named is not None:
        return named
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


def translate_resource(resource: str, priority_class: PriorityClass) -> str | None:
    """Return the resource that a class requests instead of a resource; None if it requests none."""
    if priority_class == "prod":
        return resource
    return _TRANSLATED[priority_class].get(resource)


def resolve_demand(resource: str, demand: PodDemand, priority_class: PriorityClass) -> int:
    """Return a pod's request or limit of a resource, else the default for pods without a request."""
    amount = find_request(resource, demand, priority_class)
    return amount or DEFAULT_DEMAND.get(translate_resource(resource, priority_class) or "", 0)


def resolve_demands(demand: PodDemand, priority_class: PriorityClass) -> dict[str, int]:
    """Return `resolve_demand` of all resources, without amounts of 0."""
    names = dict.fromkeys((*DEFAULT_DEMAND, *demand.requests, *demand.limits))
    resolved = {name: resolve_demand(name, demand, priority_class) for name in names}
    return {name: amount for name, amount in resolved.items() if amount}


def find_request(resource: str, demand: PodDemand, priority_class: PriorityClass) -> int:
    """Return a pod's request of a resource, else its limit, else 0.

    The resource that the class requests instead has precedence over `resource`.
    """
    for name in (translate_resource(resource, priority_class) or "", resource):
        amount = demand.requests.get(name, 0) or demand.limits.get(name, 0)
        if amount:
            return amount
    return 0


# --- kinds --------------------------------------------------------------------------------------

#: Fields whose values pods of one kind share in memory; they are never changed.
_SHARED = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "required_node_affinity",
    "tolerations",
)
#: Fields of a pod on which filters and scores depend.
_FIELDS = {*_SHARED, "required_node", "unsupported"}
#: Prefix of the annotations that filters and scores depend on.
_ANNOTATION_PREFIX = "scheduling.koordinator.sh/"


@dataclass(frozen=True)
class Kind:
    """The common properties of the pods of one kind."""

    key: bytes
    """Digest of the properties."""
    pod: Pod
    """A pod with the common properties only."""
    demand: PodDemand
    resolved: Mapping[str, int]
    """Demand by resource, above 0 (`resolve_demands`)."""
    priority_class: PriorityClass
    prod: bool
    daemon: bool
    """Whether a DaemonSet owns the pods."""
    size: int = 0
    """Approximate size in bytes."""


#: Kinds by unsorted properties of pods, so a kind may have several keys.
_KINDS: SizedCache[tuple[object, ...], Kind] = SizedCache(
    bytes_max=32 * 1024 * 1024, entries_max=8_192
)
#: Bytes that a pod takes in memory per character of its JSON text.
_BYTES_PER_CHARACTER = 12
#: Labels and owners that pods share in memory.
_SHARED_PARTS: SizedCache[tuple[object, ...], Any] = SizedCache(
    bytes_max=64 * 1024 * 1024, entries_max=65_536
)
_NO_ANNOTATIONS: dict[str, str] = {}


def kind_of(pod: Pod) -> Kind:
    """Return the kind that a pod belongs to.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    daemon = any(owner.kind == "DaemonSet" for owner in pod.owners)
    spec = pod.__pydantic_serializer__.to_json(pod, include=_FIELDS, exclude_defaults=True)
    cache_key = (
        spec,
        tuple(item for item in pod.annotations.items() if item[0].startswith(_ANNOTATION_PREFIX)),
        *(pod.labels.get(label) for label in CLASS_LABELS),
        pod.priority,
        pod.qos_class,
        daemon,
    )
    kind = _KINDS.get(cache_key)
    if kind is None:
        kind = _build_kind(pod, daemon)
        _KINDS.put(cache_key, kind, kind.size)
    return kind


def _build_kind(pod: Pod, daemon: bool) -> Kind:
    demand = compute_demand(pod)
    priority_class = resolve_priority_class(pod, demand)
    resolved = resolve_demands(demand, priority_class)
    common = _copy_common_fields(pod)
    described = common.model_dump(mode="json", include=_FIELDS, exclude_defaults=True)
    described["annotations"] = common.annotations
    described["class"] = priority_class
    described["daemon"] = daemon
    text = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
    return Kind(
        key=blake2b(text, digest_size=16).digest(),
        pod=common,
        demand=demand,
        resolved=resolved,
        priority_class=priority_class,
        prod=priority_class == "prod",
        daemon=daemon,
        size=_BYTES_PER_CHARACTER * len(text),
    )


def _copy_common_fields(pod: Pod) -> Pod:
    """Return a copy that does not keep the individual fields of the pod in memory."""
    return pod.model_copy(
        update={
            "labels": {key: pod.labels[key] for key in CLASS_LABELS if key in pod.labels},
            "annotations": {
                key: value
                for key, value in pod.annotations.items()
                if key.startswith(_ANNOTATION_PREFIX)
            },
            "owners": (),
            "volume_claims": (),
            "required_anti_affinity": (),
        }
    )


def intern_pod(pod: Pod) -> Kind:
    """Return the kind of a pod, and let the pod share large fields with equal pods.

    Containers, labels and owners take most of a pod's memory, and a cluster has many pods of few kinds and
    owners. The pod is changed in place, because a copy takes longer than all other steps.

    Raises:
        QuantityError: a quantity of the pod cannot be read.
    """
    kind = kind_of(pod)
    fields, shared = pod.__dict__, kind.pod.__dict__
    for field in _SHARED:
        fields[field] = shared[field]
    # No decision depends on which fields were set.
    object.__setattr__(pod, "__pydantic_fields_set__", kind.pod.__pydantic_fields_set__)
    fields["labels"] = _intern(("labels", *pod.labels.items()), pod.labels)
    fields["owners"] = _intern(("owners", *pod.owners), pod.owners)
    if not pod.annotations:
        fields["annotations"] = _NO_ANNOTATIONS
    return kind


def _intern(key: tuple[object, ...], value: Any) -> Any:
    shared = _SHARED_PARTS.get(key)
    if shared is None:
        _SHARED_PARTS.put(key, value, _BYTES_PER_CHARACTER * len(str(key)))
        return value
    return shared
