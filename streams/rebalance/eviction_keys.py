"""Sort keys of pods for eviction, in ascending order.

A round adds usage and age as keys.
Source: docs/reference/upstream.md B4, B5.
"""

from schemas.base.quantities import parse_nanos
from schemas.messages.pods import Pod
from streams.pods.kind import QOS_CLASS_LABEL, Kind

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST_ANNOTATION = "scheduling.koordinator.sh/eviction-cost"
NO_EVICTION_ANNOTATION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"

#: Order in which classes of pods are evicted.
CLASS_RANKS = {"free": 1, "batch": 2, "mid": 3, "prod": 4}
_QOS_RANKS = {"BestEffort": 1, "Burstable": 2, "Guaranteed": 3}
_KOORDINATOR_QOS_RANKS = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
#: Rank of the priority class, spec.priority, ranks of Kubernetes' and Koordinator's QoS class, deletion
#: cost, eviction cost.
Keys = tuple[int, int, int, int, int, int]


def compute_eviction_keys(pod: Pod, kind: Kind) -> Keys:
    """Return the six keys of a pod, the most important key first."""
    qos_rank = _QOS_RANKS[pod.qos_class or compute_qos_class(pod)]
    return (
        CLASS_RANKS[kind.priority_class],
        pod.priority or 0,
        qos_rank,
        # Without a label BestEffort, Burstable and Guaranteed pods are BE, LS and LSR.
        _KOORDINATOR_QOS_RANKS.get(pod.labels.get(QOS_CLASS_LABEL, ""), qos_rank),
        parse_cost(pod.annotations.get(DELETION_COST_ANNOTATION)),
        parse_cost(pod.annotations.get(EVICTION_COST_ANNOTATION)),
    )


def parse_cost(text: str | None) -> int:
    """Parse the number of an annotation; an invalid number is 0.

    Kubernetes checks only the first character for a leading zero, so "-05" is -5 and "007" is invalid.
    """
    if not text or not text.isascii():
        return 0
    digits = text.removeprefix("-")
    if not digits.isdigit() or (text[0] == "0" and text != "0") or len(digits) > 64:
        return 0
    number = int(text)
    return number if _INT32_MIN <= number <= _INT32_MAX else 0


def compute_qos_class(pod: Pod) -> str:
    """Compute Kubernetes' QoS class of a pod from its containers, as ComputePodQOS does."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    limited = True
    for container in (*pod.containers, *pod.init_containers):
        for total, amounts in ((requests, container.requests), (limits, container.limits)):
            for name in ("cpu", "memory"):
                amount = parse_nanos(amounts.get(name, "0"))
                if amount > 0:
                    total[name] = total.get(name, 0) + amount
                limited &= amount > 0 or total is requests
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"
