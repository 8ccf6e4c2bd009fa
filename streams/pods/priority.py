"""Koordinator's classes of pods: by label, else by priority band, else by quality of service.

Source: docs/upstream.md A2.8 and A6.1. The fall-back through the quality of service is applied
whichever way the first two say nothing, so that a pod always has a class: an ordinary pod with any
cpu or memory request or limit is prod, a pod without is batch.
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
    """The class of a pod; never none."""
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
