"""Applies lifecycle records: a pod gets room on a node, moves, or releases its room."""

from dataclasses import dataclass

from schemas.base.message import EPOCH_MS_MAX
from schemas.messages.pods import Pod, PodLifecycle
from streams.inventory.inventory import Inventory
from streams.pods.held_pod import HeldPod
from streams.pods.kind import intern_pod

#: Prefixes of a kubelet's reasons for rejecting a pod; the name of a resource follows "OutOf".
REJECTIONS = (
    "NodeAffinity",
    "NodePorts",
    "NodeShutdown",
    "OutOf",
    "TaintToleration",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
)


@dataclass(frozen=True, slots=True)
class PodChange:
    """A pod before and after a record."""

    before: HeldPod | None
    """None if no node held the pod."""
    after: Pod
    arrived: bool
    """Whether the record is the first one that shows the pod on its node."""
    is_over: bool
    """Whether the pod was deleted or has finished."""

    @property
    def is_rejection(self) -> bool:
        """Whether a kubelet rejected a pod that loadstream had placed."""
        placed = self.before is not None and self.before.decision_id is not None
        return placed and (self.after.failure or "").startswith(REJECTIONS)


def is_over(record: PodLifecycle) -> bool:
    return record.event in ("deleted", "finished") or record.pod.has_finished


def find_pod_change(inventory: Inventory, record: PodLifecycle) -> PodChange:
    """Return a pod before and after a record; call before `apply_lifecycle`."""
    pod = record.pod
    node, before = inventory.find_held(pod.uid) or (None, None)
    has_ended = is_over(record)
    was_on_node = (
        node is not None
        and before is not None
        and node.name == pod.node
        and before.expires_at_ms is None
    )
    return PodChange(
        before=before,
        after=pod,
        arrived=not has_ended and pod.node is not None and not was_on_node,
        is_over=has_ended,
    )


def apply_lifecycle(inventory: Inventory, lifecycle: PodLifecycle) -> None:
    pod = lifecycle.pod
    _, before = inventory.find_held(pod.uid) or (None, None)
    if is_over(lifecycle):
        # A full list removes a finished pod at its end, with the pods that it lacks.
        if lifecycle.event != "seen":
            inventory.release(pod.uid)
    elif pod.node is not None:
        _hold(inventory, lifecycle, pod.node, before)
    elif pod.nominated_node is not None:
        # Another scheduler has nominated the pod. A placement by loadstream has precedence.
        if before is None or before.is_nominated:
            _hold(inventory, lifecycle, pod.nominated_node, None, expires_at_ms=EPOCH_MS_MAX)
    elif before is not None and before.is_nominated:
        inventory.release(pod.uid)
    elif (list_id := inventory.lists.resolve_id("pod-lifecycle", lifecycle.list_id)) is not None:
        inventory.mark_listed(pod.uid, list_id)


def _hold(
    inventory: Inventory,
    lifecycle: PodLifecycle,
    name: str,
    before: HeldPod | None,
    expires_at_ms: int | None = None,
) -> None:
    """Hold a pod on a node, instead of another node that held it."""
    pod = lifecycle.pod
    if inventory.node_of_pod.get(pod.uid, name) != name:
        inventory.release(pod.uid)
    kind = intern_pod(pod)
    held = HeldPod(
        pod=pod,
        kind=kind,
        assigned_at_ms=inventory.now_ms if before is None else before.assigned_at_ms,
        decision_id=None if before is None else before.decision_id,
        expires_at_ms=expires_at_ms,
        requested_at_ms=None if before is None else before.requested_at_ms,
        sequence=inventory.numbers.records_applied if before is None else before.sequence,
        list_id=inventory.lists.resolve_id("pod-lifecycle", lifecycle.list_id)
        or (None if before is None else before.list_id),
        arrival=inventory.numbers.next_arrival(),
    )
    inventory.hold(name, held, first_seen=lifecycle.event == "seen")
