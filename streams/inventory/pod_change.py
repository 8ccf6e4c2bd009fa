"""What a record of a pod changes, worked out once, before anything has taken it in."""

from dataclasses import dataclass

from schemas.messages.pods import Pod, PodLifecycle
from streams.inventory.inventory import Inventory
from streams.inventory.node import Held
from streams.inventory.pod_sums import terminated


@dataclass(frozen=True, slots=True)
class PodChange:
    """One pod before and after a record."""

    before: Held | None
    """How it was held; None: it was not, or its request waits."""
    after: Pod
    arrived: bool
    """It got the node that it names only now: it was elsewhere, or only expected there."""
    over: bool
    """It is deleted, or runs no more."""


def is_over(record: PodLifecycle) -> bool:
    """Whether the pod is deleted, or runs no more."""
    return record.event in ("deleted", "finished") or terminated(record.pod)


def pod_change(inventory: Inventory, record: PodLifecycle) -> PodChange:
    """What a record changes; the inventory has not observed it yet."""
    pod = record.pod
    found = inventory.held(pod.uid)
    over = is_over(record)
    here = found is not None and found[0].name == pod.node and found[1].expires_at_ms is None
    return PodChange(
        before=None if found is None else found[1],
        after=pod,
        arrived=not over and pod.node is not None and not here,
        over=over,
    )
