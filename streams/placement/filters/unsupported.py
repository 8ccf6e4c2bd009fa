"""Pods that must not be placed on any node.

If no filter evaluates a requirement of a pod, any node may be wrong for the pod. So the pod is refused, for
example because of zonal volumes, required pod affinity or topology spread. Pods that use other features of
Koordinator's scheduler are refused too:

    gang                 the pod starts together with other pods
    elastic quota        a quota admits the pod
    reservation          the pod may only use reserved room
    cpu binding          the pod gets exclusive CPUs, because of its QoS class or an annotation
    devices              the pod gets a share of a device

Kubernetes limits the size of a pod (1.5 MiB in etcd), but not the number of its parts. A pod of this size may
name 50,000 labels, and each label costs time on every node. The limits of this module are far above the
numbers of real pods. With them, the slowest record takes less than 250 ms on 5,000 nodes (`make bench
ONLY=worst_record_ms.request_affinity`). If a pod exceeds a limit, a decision refuses its request, and records
of the running pod become dead letters.
"""

from collections.abc import Iterator

from schemas.messages.pods import Pod
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
    names = list_unsupported(pod)
    if not names:
        return None
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"the pod requires {listed}, which loadstream does not evaluate"


def list_unsupported(pod: Pod) -> list[str]:
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
    if labels.get(_QOS_LABEL) in _BOUND_CLASSES or _requires_cpu_binding(annotations):
        yield "cpu binding of Koordinator"
    if any(
        name.startswith(_DEVICE_PREFIX)
        for container in pod.containers
        for name in container.requests
    ):
        yield "devices of Koordinator"


def _requires_cpu_binding(annotations: dict[str, str]) -> bool:
    text = annotations.get(_BINDING_ANNOTATION)
    if text is None:
        return False
    try:
        entries = read_fields(decode(text))
    except (ValueError, RecursionError):
        return False
    return any(name in _BINDING_FIELDS and value not in _NO_BINDING for name, value in entries)


# --- limits -------------------------------------------------------------------------------------

#: Labels in node selector and required node affinity: half of the number of label columns, so that the
#: columns of two such pods fit.
LABELS_PER_POD_MAX = 64
#: Expressions in all terms of the required node affinity; each is evaluated on all nodes.
EXPRESSIONS_PER_POD_MAX = 512
#: Values in all these expressions.
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
    lists = [amounts for part in containers for amounts in (part.requests, part.limits)]
    yield "requests and limits in all containers", sum(map(len, lists)), AMOUNTS_PER_POD_MAX
    yield "resources in all containers", len(set(pod.overhead).union(*lists)), RESOURCES_PER_POD_MAX
    ports = sum(len(part.host_ports) for part in containers)
    yield "host ports in all containers", ports, HOST_PORTS_PER_POD_MAX
