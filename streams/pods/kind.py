"""Kinds of pods: pods of one kind are interchangeable for every filter and score.

A kind contains all properties of a pod that a decision depends on, so pods of one kind share one
ranking. Names, uids and times are not part of it.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import orjson

from schemas.messages.pods import Pod
from streams.pods.demand import PodDemand, pod_demand
from streams.pods.priority import CLASS_LABELS, PriorityClass, priority_class
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
#: Those of them whose values pods of one kind share in memory: equal, and never changed.
_SHARED = (
    "containers",
    "init_containers",
    "overhead",
    "node_selector",
    "required_node_affinity",
    "tolerations",
)
#: Only these annotations change a decision.
_ANNOTATION_PREFIX = "scheduling.koordinator.sh/"


@dataclass(frozen=True)
class Kind:
    """What pods of one kind have in common."""

    key: bytes
    """Digest of everything below; equal keys mean interchangeable pods."""
    pod: Pod
    """The common part of all pods of the kind, from which plugins read requirements."""
    demand: PodDemand
    priority_class: PriorityClass
    daemon: bool
    """Owned by a DaemonSet."""
    size: int = 0
    """Approximate size in bytes."""

    @cached_property
    def prod(self) -> bool:
        """The pod is of the prod class."""
        return self.priority_class == "prod"


#: The parts of a pod that its kind depends on, as they are written.
_Asked = tuple[object, ...]
#: Cached kinds. Several texts may mean one kind.
_KNOWN: SizedCache[_Asked, Kind] = SizedCache(bytes_max=32 * 1024 * 1024, entries_max=8_192)
#: Size of a pod in memory, in bytes per character of its text.
_BYTES_PER_CHARACTER = 12
#: Labels and owners that pods share in memory.
_FIRST: SizedCache[tuple[object, ...], Any] = SizedCache(
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
    asked = (
        spec,
        tuple(item for item in pod.annotations.items() if item[0].startswith(_ANNOTATION_PREFIX)),
        *(pod.labels.get(label) for label in CLASS_LABELS),
        pod.priority,
        pod.qos_class,
        daemon,
    )
    kind = _KNOWN.get(asked)
    if kind is None:
        kind = _made(pod, daemon)
        _KNOWN.put(asked, kind, kind.size)
    return kind


def _made(pod: Pod, daemon: bool) -> Kind:
    demand = pod_demand(pod)
    of_class = priority_class(pod, demand)
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
        priority_class=of_class,
        daemon=daemon,
        size=_BYTES_PER_CHARACTER * len(text),
    )


def _common(pod: Pod) -> Pod:
    """Return the pod without its individual parts: a kind outlives the pods that it was made from."""
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


def share_parts(pod: Pod, kind: Kind) -> Pod:
    """Return the pod, with its large parts shared with other pods.

    Containers, labels and owners take most of a pod's memory, and a cluster has many pods of few
    kinds and owners. The pod itself is changed, to equal values: a copy would cost more than all
    the rest.
    """
    own, common = pod.__dict__, kind.pod.__dict__
    for field in _SHARED:
        own[field] = common[field]
    # No decision depends on which fields were set.
    object.__setattr__(pod, "__pydantic_fields_set__", kind.pod.__pydantic_fields_set__)
    own["labels"] = _intern(("labels", *pod.labels.items()), pod.labels)
    own["owners"] = _intern(("owners", *pod.owners), pod.owners)
    if not pod.annotations:
        own["annotations"] = _NO_ANNOTATIONS
    return pod


def _intern(key: tuple[object, ...], value: Any) -> Any:
    """Return the first value that was passed with an equal key."""
    first = _FIRST.get(key)
    if first is None:
        _FIRST.put(key, value, _BYTES_PER_CHARACTER * len(str(key)))
        return value
    return first
