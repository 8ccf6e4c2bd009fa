"""Refusal of pods with requirements that no filter here evaluates.

It asks about the pod alone, before any node is looked at: zonal volumes, required pod affinity,
topology spread and the like may make any node wrong, so none is right. The same holds for what
Koordinator's scheduler does for a pod besides choosing its node:

    gang                 the pod starts together with others
    elastic quota        a quota admits it
    reservation          it may go to reserved room only
    cpu binding          it gets CPUs of its own: by its QoS class, or as it asks
    devices              it gets a share of a device
"""

from collections.abc import Iterator

from schemas.messages.pods import Pod
from streams.pods.limits import find_exceeded_limit
from streams.usage.go_json import decode, fields

_GANG_LABELS = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
_GANG_ANNOTATION = "gang.scheduling.koordinator.sh/name"
_QUOTA_LABEL = "quota.scheduling.koordinator.sh/name"
_RESERVATION_ANNOTATION = "scheduling.koordinator.sh/reservation-affinity"
_BINDING_ANNOTATION = "scheduling.koordinator.sh/resource-spec"
_BINDING_FIELDS = ("requiredcpubindpolicy", "preferredcpubindpolicy")
_NO_BINDING = (None, "", "Default")
_QOS_LABEL = "koordinator.sh/qosClass"
#: Classes whose pods get CPUs of their own.
_BOUND_CLASSES = ("LSE", "LSR")
_DEVICE_PREFIX = "koordinator.sh/"


def find_obstacle(pod: Pod) -> str | None:
    """Return why a pod must not be placed; None if it may be.

    Like Kubernetes' scheduler, this refuses pods that are bound, have finished or are being deleted.
    """
    if pod.node is not None:
        return f"the pod is already bound to {pod.node}"
    if pod.has_finished:
        return "the pod has finished"
    if pod.deleting_at_ms is not None:
        return "the pod is being deleted"
    return refusal(pod) or find_exceeded_limit(pod)


def refusal(pod: Pod) -> str | None:
    """Why a pod cannot be placed at all, in a sentence that names each such requirement once.

    Returns:
        None for a pod without such requirements, which goes on to the filters.
    """
    names = list_requirements(pod)
    if not names:
        return None
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"the pod requires {listed}, which loadstream does not evaluate"


def list_requirements(pod: Pod) -> list[str]:
    """Return the names of what a pod requires and loadstream does not evaluate."""
    return sorted({*pod.unsupported, *_of_koordinator(pod)})


def _of_koordinator(pod: Pod) -> Iterator[str]:
    labels, annotations = pod.labels, pod.annotations
    if any(label in labels for label in _GANG_LABELS) or _GANG_ANNOTATION in annotations:
        yield "a gang of Koordinator"
    if _QUOTA_LABEL in labels:
        yield "an elastic quota of Koordinator"
    if _RESERVATION_ANNOTATION in annotations:
        yield "a reservation of Koordinator"
    if labels.get(_QOS_LABEL) in _BOUND_CLASSES or _asks_for_cpus(annotations):
        yield "cpu binding of Koordinator"
    if any(name.startswith(_DEVICE_PREFIX) for each in pod.containers for name in each.requests):
        yield "devices of Koordinator"


def _asks_for_cpus(annotations: dict[str, str]) -> bool:
    text = annotations.get(_BINDING_ANNOTATION)
    if text is None:
        return False
    try:
        asked = fields(decode(text))
    except (ValueError, RecursionError):
        return False
    return any(name in _BINDING_FIELDS and value not in _NO_BINDING for name, value in asked)
