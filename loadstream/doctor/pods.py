"""The check of pods that loadstream would refuse, by requirement."""

from collections import Counter
from collections.abc import Iterable, Iterator

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages
from loadstream.doctor.findings import Finding, ok, warning
from schemas.messages.pods import Pod, PodLifecycle
from streams.placement.filters.unsupported import list_unsupported

#: Records of `pod-lifecycle` that are read, newest first.
RECORDS_MAX = 50_000
#: Owners whose pods are bound to a node.
_BOUND_TO_NODE = ("DaemonSet", "Node")


def read_pods(connection: Connection, cluster: str) -> list[Pod]:
    """Return the pods of a cluster by its newest records. Raises BrokerUnavailable."""
    pods: dict[str, PodLifecycle] = {}
    for message in PastMessages(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest():
        if isinstance(message, PodLifecycle):
            pods.setdefault(message.pod.uid, message)
    return [event.pod for event in pods.values() if event.event not in ("finished", "deleted")]


def check_pods(pods: Iterable[Pod]) -> Iterator[Finding]:
    """Count the pods that loadstream would refuse, by requirement."""
    total = refused = 0
    counts: Counter[str] = Counter()
    for pod in pods:
        if pod.has_finished or any(owner.kind in _BOUND_TO_NODE for owner in pod.owners):
            continue
        names = list_unsupported(pod)
        total, refused = total + 1, refused + bool(names)
        counts.update(names)
    if refused:
        order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        counted = ", ".join(f"{name} {pods}" for name, pods in order)
        advice = "Leave these pods to another scheduler (spec.schedulerName)"
        yield warning("pods", f"{refused} of {total} pods would be refused: {counted}", advice)
    elif total:
        yield ok("pods", f"none of {total} pods would be refused for its requirements")
