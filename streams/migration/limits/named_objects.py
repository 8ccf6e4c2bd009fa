"""Objects that pods name: namespaces with their labels, priority classes with their values.

The objects come from records of `pod-lifecycle`, one by one or in full lists. `protections` looks objects up
by name. An unknown namespace, which the cluster has never sent, is not a namespace without labels.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from schemas.messages.objects import (
    NamespaceRow,
    NamespaceState,
    PriorityClassRow,
    PriorityClassState,
)
from streams.stage.tracked_rows import TrackedRows

#: Most namespaces of a cluster: twice what Kubernetes is tested with.
NAMESPACES_MAX = 20_000
#: Most priority classes of a cluster, which usually has a handful.
PRIORITY_CLASSES_MAX = 1_000

S = TypeVar("S", bound=NamespaceState | PriorityClassState)
R = TypeVar("R", bound=NamespaceRow | PriorityClassRow)


class NamedRows(TrackedRows[str, R], Generic[S, R]):
    """Objects of one kind of one cluster, by name."""

    def __init__(self, cluster: str, table: str, row: type[R], noun: str, most: int) -> None:
        """Start without objects; the table takes up to `most` objects, which messages call `noun`."""
        super().__init__(table, lambda row: row.state.name)
        self.cluster, self._noun, self._most = cluster, noun, most
        self._row: type[R] = row
        self.version = 0
        """Grows whenever an object changes."""

    def apply(self, state: S, sequence: int) -> str | None:
        """Store or remove an object; return why it is refused, else None."""
        name = state.name
        before = self.rows.get(name)
        if state.removed:
            self.drop(name)
            return None
        if before is None and len(self.rows) >= self._most:
            return f"{self._noun} {name} exceeds the limit of {self._most} per cluster"
        values = {"cluster": self.cluster, "state": state, "sequence": sequence}
        self.put(cast("R", self._row.model_validate(values)))
        return None

    def end_list(self, list_id: str, begin: int, *, complete: bool = False) -> None:
        """Remove objects that a full list lacks, if the list has such objects or is `complete` in them."""
        if not complete and not any(row.state.list_id == list_id for row in self.rows.values()):
            return
        for name, row in list(self.rows.items()):
            if row.state.list_id != list_id and row.sequence < begin:
                self.drop(name)

    def put(self, row: R) -> None:
        super().put(row)
        self.version += 1

    def drop(self, key: str) -> R | None:
        self.version += 1
        return super().drop(key)


class NamespaceRows(NamedRows[NamespaceState, NamespaceRow]):
    """The namespaces of one cluster."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster, "namespaces", NamespaceRow, "namespace", NAMESPACES_MAX)

    def find_labels(self, name: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it is unknown."""
        row = self.rows.get(name)
        return None if row is None else row.state.labels


class PriorityClasses(NamedRows[PriorityClassState, PriorityClassRow]):
    """The priority classes of one cluster."""

    def __init__(self, cluster: str) -> None:
        super().__init__(
            cluster, "priority_classes", PriorityClassRow, "priority class", PRIORITY_CLASSES_MAX
        )

    def find_value(self, name: str) -> int | None:
        """Return the priority of a class; None if it is unknown."""
        row = self.rows.get(name)
        return None if row is None else row.state.value
