"""Objects of a cluster, from records of `pod-lifecycle`, one by one or in full lists.

`protections` looks up namespaces and priority classes by name. An unknown namespace, which the cluster has
never sent, is not a namespace without labels.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

from schemas.messages.migrations import DisruptionBudgetRow, WorkloadRow
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceRow,
    NamespaceState,
    PriorityClassRow,
    PriorityClassState,
    WorkloadState,
)
from streams.stage.tracked_rows import K, TrackedRows

#: Most namespaces of a cluster: twice what Kubernetes is tested with.
NAMESPACES_MAX = 20_000
#: Most priority classes of a cluster, which usually has a handful.
PRIORITY_CLASSES_MAX = 1_000

S = TypeVar("S", NamespaceState, PriorityClassState, WorkloadState, DisruptionBudget)
R = TypeVar("R", bound=NamespaceRow | PriorityClassRow | WorkloadRow | DisruptionBudgetRow)


class ObjectRows(TrackedRows[K, R], Generic[K, S, R]):
    """Objects of one kind of one cluster."""

    def __init__(
        self, cluster: str, table: str, row: type[R], most: int, get_key: Callable[[Any], K]
    ) -> None:
        """Start without objects; the table takes up to `most`. `get_key` returns the key of an object."""
        super().__init__(table, lambda row: get_key(row.state))
        self.cluster, self._row, self._most, self._get_key = cluster, row, most, get_key
        self.version = 0
        """Grows with every change."""

    def apply(self, state: S, sequence: int) -> str | None:
        """Store or remove an object; return why it is refused, else None."""
        key = self._get_key(state)
        before = self.rows.get(key)
        if state.removed:
            self.drop(key)
            return None
        if before is None and len(self.rows) >= self._most:
            return f"{state.kind} {state.name} exceeds the limit of {self._most} per cluster"
        problem = self.explain_refusal(state)
        if problem is None:
            values = {"cluster": self.cluster, "state": state, "sequence": sequence}
            values |= self.compute_fields(state, before)
            self.put(cast("R", self._row.model_validate(values)))
        return problem

    def explain_refusal(self, state: S) -> str | None:
        """Return why an object is refused."""
        return None

    def compute_fields(self, state: S, before: R | None) -> dict[str, Any]:
        """Return the fields of a new row that are not in the object."""
        return {}

    def end_list(self, list_id: str, begin: int, *, complete: bool) -> None:
        """Remove objects that a full list lacks, if the list has such objects or is `complete` in them."""
        if complete or any(row.state.list_id == list_id for row in self.rows.values()):
            for key, row in list(self.rows.items()):
                if row.state.list_id != list_id and row.sequence < begin:
                    self.drop(key)

    def put(self, row: R) -> None:
        super().put(row)
        self.version += 1

    def drop(self, key: K) -> R | None:
        self.version += 1
        return super().drop(key)


class NamespaceRows(ObjectRows[str, NamespaceState, NamespaceRow]):
    def __init__(self, cluster: str) -> None:
        super().__init__(
            cluster, "namespaces", NamespaceRow, NAMESPACES_MAX, lambda state: state.name
        )

    def find_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it is unknown."""
        row = self.rows.get(name)
        return None if row is None else row.state.labels


class PriorityClasses(ObjectRows[str, PriorityClassState, PriorityClassRow]):
    def __init__(self, cluster: str) -> None:
        super().__init__(
            cluster,
            "priority_classes",
            PriorityClassRow,
            PRIORITY_CLASSES_MAX,
            lambda state: state.name,
        )

    def find_value(self, name: str) -> int | None:
        """Return the priority of a class; None if it is unknown."""
        row = self.rows.get(name)
        return None if row is None else row.state.value
