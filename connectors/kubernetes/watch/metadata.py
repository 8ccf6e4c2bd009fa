"""What every object has: name, labels, the annotations that decisions read, times.

Annotations are a third of many objects, and most change for reasons of others. Only those are
carried that a filter, a score or a protection reads, so that a change of another one is none.
"""

from datetime import datetime
from typing import Any

from schemas.base.message import EPOCH_MS_MAX, EPOCH_MS_MIN

#: Annotations of a pod: all under the prefix tell kinds of pods apart.
_PREFIX = "scheduling.koordinator.sh/"
_OF_PODS = frozenset(
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
_OF_NODES = frozenset(
    {"scheduling.koordinator.sh/usage-thresholds", "node.koordinator.sh/raw-allocatable"}
)

Json = dict[str, Any]
"""An object as the API server writes it, or the plain values of a record."""


def metadata(found: Json) -> Json:
    """metadata of an object; empty if it has none."""
    return found.get("metadata") or {}


def pod_annotations(meta: Json) -> dict[str, str]:
    """Annotations of a pod that decisions read."""
    found = meta.get("annotations")
    if not found:
        return {}
    return {
        key: value for key, value in found.items() if key in _OF_PODS or key.startswith(_PREFIX)
    }


def node_annotations(meta: Json) -> dict[str, str]:
    """Annotations of a node that decisions read."""
    found = meta.get("annotations")
    return {key: found[key] for key in sorted(_OF_NODES) if key in found} if found else {}


def time_ms(text: str | None) -> int | None:
    """A time as Kubernetes writes it, in milliseconds; none: there is none, or it is no time.

    One that no record takes becomes the nearest that records take: a node without a clock of its own
    begins in 1970, and a pod with a long grace period may terminate until after 2100.
    """
    if not text:
        return None
    try:
        found_ms = int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None
    return min(max(found_ms, EPOCH_MS_MIN), EPOCH_MS_MAX)


def given(**values: Any) -> Json:
    """Plain values without those that are empty: absent fields read back as their defaults."""
    return {name: value for name, value in values.items() if value}
