"""How many replicas the owners of pods want, and what protects all pods of an owner.

A `WorkloadState` says it. If none came for an owner, the pods that are held count instead, which is
conservative: a pod that was evicted and not yet replaced lowers the number, and with it the limits;
it never raises them. The text of every gate says which of the two it used.
"""

from dataclasses import dataclass

from schemas.messages.migrations import WorkloadRow
from schemas.messages.pods import Pod
from schemas.messages.workloads import WorkloadState
from schemas.policy.durations import format_duration_ms
from streams.pods.owners import Owners
from streams.stage.tracked_rows import TrackedRows

#: Most workloads of a cluster that are remembered.
WORKLOADS_MAX = 200_000
#: Pods of a workload stay for this long after its replicas were lowered: its controller chooses which
#: of them go. As long as an autoscaler waits by default before it lowers them again.
LOWERED_LASTS_MS = 5 * 60_000
#: Kinds whose number of pods falls without a wish of their users.
_FALLING = ("Job", "DaemonSet")


@dataclass(frozen=True, slots=True)
class Replicas:
    """An owner's replicas, and how they are known."""

    owner: str
    """Its uid."""
    name: str
    """Kind, namespace and name, as a sentence names it."""
    count: int
    inferred: bool
    """Counted from the pods held, because no workload was reported."""
    evictions_allowed: int | None = None
    """Pods that may be evicted before their Job fails; None: any number."""
    lowered_at_ms: int | None = None
    """When its replicas were lowered last."""

    def __str__(self) -> str:
        """As in "ReplicaSet shop/web with 3 replicas (inferred from the pods seen)"."""
        noun = "replica" if self.count == 1 else "replicas"
        how = " (inferred from the pods seen)" if self.inferred else ""
        return f"{self.name} with {self.count} {noun}{how}"

    def failure_counts(self, moving: int) -> str | None:
        """Why one more eviction would be a failure of its Job that matters; None: it would not."""
        if self.evictions_allowed is None or moving < self.evictions_allowed:
            return None
        text = f"an eviction counts as a failure of {self.name}"
        if not self.evictions_allowed:
            return f"{text}; it may have none (backoffLimit, restartPolicy, podFailurePolicy)"
        return f"{text}; it may have {self.evictions_allowed}, and {moving} pods are on the move"

    def scaling_down(self, now_ms: int) -> str | None:
        """Why its controller is choosing pods to remove now; None: it is not."""
        if self.lowered_at_ms is None or now_ms - self.lowered_at_ms >= LOWERED_LASTS_MS:
            return None
        return (
            f"the replicas of {self.name} were lowered to {self.count} "
            f"{format_duration_ms(max(0, now_ms - self.lowered_at_ms))} ago"
        )


class Workloads(TrackedRows[str, WorkloadRow]):
    """The workloads of a cluster, by uid."""

    def __init__(self, cluster: str, owners: Owners) -> None:
        super().__init__("workloads", lambda row: row.workload.uid)
        self.cluster = cluster
        self.owners = owners

    def apply(self, state: WorkloadState, sequence: int, now_ms: int) -> str | None:
        """A workload is there or gone; answers why it was not taken in."""
        uid = state.uid
        if state.removed:
            self.drop(uid)
            return None
        before = self.rows.get(uid)
        if before is None and len(self.rows) >= WORKLOADS_MAX:
            return f"workload {state.name} would be one more than {WORKLOADS_MAX} in the cluster"
        lowered_at_ms = None if before is None else before.lowered_at_ms
        if before is not None and state.replicas < before.workload.replicas:
            lowered_at_ms = None if state.owner_kind in _FALLING else now_ms
        self.put(
            WorkloadRow(
                cluster=self.cluster, workload=state, lowered_at_ms=lowered_at_ms, sequence=sequence
            )
        )
        return None

    def end_list(self, list_id: str, begin: int, *, complete: bool = False) -> None:
        """A full list of pods has ended.

        If it named workloads, or is `complete` in them, those that it lacks are gone.
        """
        if not complete and not any(row.workload.list_id == list_id for row in self.rows.values()):
            return
        gone = [
            uid
            for uid, row in self.rows.items()
            if row.workload.list_id != list_id and row.sequence < begin
        ]
        for uid in gone:
            self.drop(uid)

    def of(self, pod: Pod) -> Replicas | None:
        """The replicas of a pod's controller; None: nothing controls it."""
        owner = pod.controller
        if owner is None:
            return None
        row = self.rows.get(owner.uid)
        name = f"{owner.kind} {pod.namespace}/{owner.name or owner.uid}"
        if row is not None:
            return Replicas(
                owner.uid, name, row.workload.replicas, inferred=False,
                evictions_allowed=row.workload.evictions_allowed, lowered_at_ms=row.lowered_at_ms,
            )  # fmt: skip
        return Replicas(owner.uid, name, len(self.owners.pods(owner.uid)), inferred=True)
