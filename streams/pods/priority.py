"""Koordinator's priority classes, and the resources that each class requests.

A pod's class follows from a label, else from its priority, else from its quality of service. An ordinary
pod with a request or limit of cpu or memory is prod, and a pod without is batch.
Source: docs/reference/upstream.md A2.8 and A6.1.

Pods of class batch and mid request other resources instead of cpu and memory, and pods of class free
request nothing. Source: docs/reference/upstream.md A4.1, A4.2.
"""

from typing import Literal

from schemas.messages.pods import Pod
from streams.pods.demand import PodDemand

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


def find_request(resource: str, demand: PodDemand, of_class: PriorityClass) -> int:
    """Return a pod's request of a resource, else its limit, else 0.

    The name that the class uses comes first, then the name of the resource.
    """
    for name in (translate_resource(resource, of_class) or "", resource):
        amount = demand.requests.get(name, 0) or demand.limits.get(name, 0)
        if amount:
            return amount
    return 0
