"""How many replicas the owners of pods want.

A `WorkloadState` says it. If none came for an owner, the pods that are held count instead, which is
conservative: a pod that was evicted and not yet replaced lowers the number, and with it the limits;
it never raises them. The text of every gate says which of the two it used.
"""

from dataclasses import dataclass

from schemas.messages.migrations import WorkloadRow
from schemas.messages.pods import Pod
from schemas.messages.workloads import WorkloadState
from streams.pods.owners import Owners
from streams.stage.tracked_rows import TrackedRows

#: Most workloads of a cluster that are remembered.
WORKLOADS_MAX = 200_000


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

    def __str__(self) -> str:
        """As in "ReplicaSet shop/web with 3 replicas (inferred from the pods seen)"."""
        noun = "replica" if self.count == 1 else "replicas"
        how = " (inferred from the pods seen)" if self.inferred else ""
        return f"{self.name} with {self.count} {noun}{how}"


class Workloads(TrackedRows[str, WorkloadRow]):
    """The workloads of a cluster, by uid."""

    def __init__(self, cluster: str, owners: Owners) -> None:
        super().__init__("workloads", lambda row: row.workload.uid)
        self.cluster = cluster
        self.owners = owners

    def apply(self, state: WorkloadState, sequence: int) -> str | None:
        """A workload is there or gone; answers why it was not taken in."""
        uid = state.uid
        if state.removed:
            self.drop(uid)
            return None
        if uid not in self.rows and len(self.rows) >= WORKLOADS_MAX:
            return f"workload {state.name} would be one more than {WORKLOADS_MAX} in the cluster"
        self.put(WorkloadRow(cluster=self.cluster, workload=state, sequence=sequence))
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
            return Replicas(owner.uid, name, row.workload.replicas, inferred=False)
        return Replicas(owner.uid, name, len(self.owners.pods(owner.uid)), inferred=True)
