"""Metadata of objects: name, labels, relevant annotations, times.

Annotations are a third of many objects, and most annotations are irrelevant here. Only annotations that a
filter, a score or a protection reads are kept, so other changes cause no record.
"""

from functools import cache
from typing import Any

from pydantic.alias_generators import to_snake

from connectors.kubernetes.api import times
from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN

#: Annotations with this prefix distinguish kinds of pods.
_PREFIX = "scheduling.koordinator.sh/"
_POD_ANNOTATIONS = frozenset(
    {
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "controller.kubernetes.io/pod-deletion-cost",
        "descheduler.alpha.kubernetes.io/evict",
        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
        "gang.scheduling.koordinator.sh/name",
        "karpenter.sh/do-not-disrupt",
        "karpenter.sh/do-not-evict",
        "kubernetes.io/config.mirror",
        "kubernetes.io/config.source",
    }
)
_NODE_ANNOTATIONS = frozenset(
    {"scheduling.koordinator.sh/usage-thresholds", "node.koordinator.sh/raw-allocatable"}
)

_record_name = cache(to_snake)

Json = dict[str, Any]
"""An object as the API server writes it, or the plain values of a record."""


def get_metadata(obj: Json) -> Json:
    return obj.get("metadata") or {}


def select_pod_annotations(meta: Json) -> dict[str, str]:
    """Return the annotations of a pod that decisions read."""
    annotations = meta.get("annotations") or {}
    return {
        key: value
        for key, value in annotations.items()
        if key in _POD_ANNOTATIONS or key.startswith(_PREFIX)
    }


def select_node_annotations(meta: Json) -> dict[str, str]:
    """Return the annotations of a node that decisions read."""
    annotations = meta.get("annotations") or {}
    return {key: annotations[key] for key in sorted(_NODE_ANNOTATIONS) if key in annotations}


def parse_time_ms(text: str | None) -> int | None:
    """Return a time of Kubernetes in milliseconds; None: missing or invalid.

    Times outside the range of records are moved to its ends: a node without a clock starts in 1970, and a
    pod with a long grace period may terminate after 2100.
    """
    time_ms = times.parse_time_ms(text)
    return None if time_ms is None else min(max(time_ms, EPOCH_MS_MIN), EPOCH_MS_MAX)


def select(obj: Json, *names: str) -> Json:
    """Return the fields that are not empty, under the names of records: hostIP becomes host_ip."""
    return drop_empty(**{_record_name(name): obj.get(name) for name in names})


def drop_empty(**values: Any) -> Json:
    """Return the values that are not empty: absent fields read back as their defaults."""
    return {name: value for name, value in values.items() if value}
