"""How many replicas the owners of pods want, and when no pod of an owner may be evicted.

The number of replicas comes from the owner's `WorkloadState`. Without a `WorkloadState`, the existing pods
are counted. This is conservative: each evicted pod lowers the number, and so the limits, until the pod is
replaced. The texts of gates say where the number comes from.
"""

from dataclasses import dataclass
from typing import Any

from schemas.messages.migrations import WorkloadRow
from schemas.messages.objects import WorkloadState
from schemas.messages.pods import Pod
from schemas.policy.durations import format_duration_ms
from streams.inventory.inventory import Inventory
from streams.migration.limits.objects import ObjectRows

#: Most workloads of a cluster.
WORKLOADS_MAX = 200_000
#: A controller removes pods for some time after its replicas were lowered, so no other pod of the workload
#: is evicted for this long. By default, autoscalers wait for the same time before they lower replicas again.
SCALING_DOWN_MS = 5 * 60_000
#: Kinds that may have fewer pods without being scaled down.
_SHRINKING_KINDS = ("Job", "DaemonSet")


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of an owner."""

    owner: str
    """uid of the owner."""
    name: str
    """Kind, namespace and name, for messages."""
    count: int
    inferred: bool
    """Whether existing pods were counted, because no workload was reported."""
    evictions_allowed: int | None = None
    """Pods that may be evicted before their Job fails; None for any number."""
    lowered_at_ms: int | None = None
    """Time at which the replicas were last lowered."""

    def __str__(self) -> str:
        """Return a text such as "ReplicaSet shop/web with 3 replicas (inferred from the pods seen)"."""
        noun = "replica" if self.count == 1 else "replicas"
        source = " (inferred from the pods seen)" if self.inferred else ""
        return f"{self.name} with {self.count} {noun}{source}"

    def explain_job_failure(self, moving: int) -> str | None:
        """Return why another eviction may make the Job fail; None if it cannot."""
        if self.evictions_allowed is None or moving < self.evictions_allowed:
            return None
        if self.inferred:
            return f"an eviction may count as a failure of {self.name}, which was not reported; send workloads"
        text = f"an eviction counts as a failure of {self.name}"
        if not self.evictions_allowed:
            return f"{text}, which allows none (backoffLimit, restartPolicy, podFailurePolicy)"
        return f"{text}, which allows {self.evictions_allowed}; {moving} pods are migrating"

    def explain_scaling_down(self, now_ms: int) -> str | None:
        """Return why the controller may be removing pods now; None if it is not."""
        if self.lowered_at_ms is None or now_ms - self.lowered_at_ms >= SCALING_DOWN_MS:
            return None
        return (
            f"the replicas of {self.name} were lowered to {self.count} "
            f"{format_duration_ms(max(0, now_ms - self.lowered_at_ms))} ago"
        )


class Workloads(ObjectRows[str, WorkloadState, WorkloadRow]):
    """The workloads of a cluster, by uid."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__(cluster, "workloads", WorkloadRow, WORKLOADS_MAX, lambda state: state.uid)
        self.inventory = inventory

    def compute_fields(self, state: WorkloadState, before: WorkloadRow | None) -> dict[str, Any]:
        lowered_at_ms = None if before is None else before.lowered_at_ms
        if before is not None and state.replicas < before.state.replicas:
            is_scaled = state.owner_kind not in _SHRINKING_KINDS
            lowered_at_ms = self.inventory.now_ms if is_scaled else None
        return {"lowered_at_ms": lowered_at_ms}

    def find_replicas(self, pod: Pod) -> Replicas | None:
        """Return the replicas of a pod's controller; None if it has no controller."""
        owner = pod.controller
        if owner is None:
            return None
        row = self.rows.get(owner.uid)
        name = f"{owner.kind} {pod.namespace}/{owner.name or owner.uid}"
        if row is not None:
            return Replicas(
                owner.uid, name, row.state.replicas, inferred=False,
                evictions_allowed=row.state.evictions_allowed, lowered_at_ms=row.lowered_at_ms,
            )  # fmt: skip
        # It is not known how many failures an unreported Job allows.
        return Replicas(
            owner.uid, name, len(self.inventory.owners.list_pods(owner.uid)), inferred=True,
            evictions_allowed=0 if owner.kind == "Job" else None,
        )  # fmt: skip
