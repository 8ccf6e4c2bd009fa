"""Pods that must not be placed on any node.

Pods with requirements that no filter evaluates are refused, because any node may be wrong for them: for
example zonal volumes, required pod affinity and topology spread. The same applies to features of
Koordinator's scheduler besides the choice of a node:

    gang                 the pod starts together with other pods
    elastic quota        a quota admits the pod
    reservation          the pod may only use reserved room
    cpu binding          the pod gets exclusive CPUs, because of its QoS class or an annotation
    devices              the pod gets a share of a device
"""

from collections.abc import Iterator

from schemas.messages.pods import Pod
from streams.pods.demand import find_exceeded_limit
from streams.usage.go_json import decode, read_fields

_GANG_LABELS = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
_GANG_ANNOTATION = "gang.scheduling.koordinator.sh/name"
_QUOTA_LABEL = "quota.scheduling.koordinator.sh/name"
_RESERVATION_ANNOTATION = "scheduling.koordinator.sh/reservation-affinity"
_BINDING_ANNOTATION = "scheduling.koordinator.sh/resource-spec"
_BINDING_FIELDS = ("requiredcpubindpolicy", "preferredcpubindpolicy")
_NO_BINDING = (None, "", "Default")
_QOS_LABEL = "koordinator.sh/qosClass"
#: Classes whose pods get exclusive CPUs.
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
    return explain_unsupported(pod) or find_exceeded_limit(pod)


def explain_unsupported(pod: Pod) -> str | None:
    """Return why a pod's requirements cannot be evaluated; None if they can."""
    names = list_requirements(pod)
    if not names:
        return None
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"the pod requires {listed}, which loadstream does not evaluate"


def list_requirements(pod: Pod) -> list[str]:
    """Return the requirements of a pod that loadstream does not evaluate, sorted."""
    return sorted({*pod.unsupported, *_list_koordinator_features(pod)})


def _list_koordinator_features(pod: Pod) -> Iterator[str]:
    labels, annotations = pod.labels, pod.annotations
    if any(label in labels for label in _GANG_LABELS) or _GANG_ANNOTATION in annotations:
        yield "a gang of Koordinator"
    if _QUOTA_LABEL in labels:
        yield "an elastic quota of Koordinator"
    if _RESERVATION_ANNOTATION in annotations:
        yield "a reservation of Koordinator"
    if labels.get(_QOS_LABEL) in _BOUND_CLASSES or _asks_for_cpus(annotations):
        yield "cpu binding of Koordinator"
    if any(
        name.startswith(_DEVICE_PREFIX)
        for container in pod.containers
        for name in container.requests
    ):
        yield "devices of Koordinator"


def _asks_for_cpus(annotations: dict[str, str]) -> bool:
    text = annotations.get(_BINDING_ANNOTATION)
    if text is None:
        return False
    try:
        entries = read_fields(decode(text))
    except (ValueError, RecursionError):
        return False
    return any(name in _BINDING_FIELDS and value not in _NO_BINDING for name, value in entries)
