"""Kinds of pods: every filter and score treats the pods of one kind alike.

A kind has all properties of a pod that filters and scores depend on, so pods of one kind share a ranking.
Names, uids and times are not part of a kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from schemas.messages.pods import Pod
from streams.pods.demand import (
    CLASS_LABELS,
    PodDemand,
    PriorityClass,
    compute_demand,
    priority_class,
    resolve_demands,
)
from streams.stage.sized_cache import SizedCache

#: Fields of a pod on which filters and scores depend.
_FIELDS = {
    "required_node",
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "required_node_affinity",
    "tolerations",
    "unsupported",
}
#: Fields whose values pods of one kind share in memory; they are never changed.
_SHARED = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "required_node_affinity",
    "tolerations",
)
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
    """Request of each resource, else limit, else default; other resources have none (`resolve_demand`)."""
    priority_class: PriorityClass
    prod: bool
    daemon: bool
    """Whether a DaemonSet owns the pods."""
    size: int = 0
    """Approximate size in bytes."""


#: Kinds by the properties as they are written: several spellings may mean one kind.
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
    written = (
        spec,
        tuple(item for item in pod.annotations.items() if item[0].startswith(_ANNOTATION_PREFIX)),
        *(pod.labels.get(label) for label in CLASS_LABELS),
        pod.priority,
        pod.qos_class,
        daemon,
    )
    kind = _KINDS.get(written)
    if kind is None:
        kind = _build_kind(pod, daemon)
        _KINDS.put(written, kind, kind.size)
    return kind


def _build_kind(pod: Pod, daemon: bool) -> Kind:
    demand = compute_demand(pod)
    of_class = priority_class(pod, demand)
    resolved = resolve_demands(demand, of_class)
    common = _common(pod)
    described = common.model_dump(mode="json", include=_FIELDS, exclude_defaults=True)
    described["annotations"] = common.annotations
    described["class"] = of_class
    described["daemon"] = daemon
    text = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
    return Kind(
        key=blake2b(text, digest_size=16).digest(),
        pod=common,
        demand=demand,
        resolved=resolved,
        priority_class=of_class,
        prod=of_class == "prod",
        daemon=daemon,
        size=_BYTES_PER_CHARACTER * len(text),
    )


def _common(pod: Pod) -> Pod:
    """Return the pod without its individual fields, which the kind must not keep in memory."""
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
    """Return the kind of a pod that is kept, and replace large fields of the pod by equal ones of other pods.

    Containers, labels and owners take most of a pod's memory, and a cluster has many pods of few kinds and
    owners. The pod is changed in place, because a copy would cost more than everything else.

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
