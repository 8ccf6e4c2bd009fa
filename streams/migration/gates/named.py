"""What pods name and do not describe: namespaces with their labels, priority classes with their
values.

In come records of `pod-lifecycle`, one by one or in full lists; out come answers to the
protections, which ask by name. What a cluster has never sent is not known, and the answer says so
instead of guessing.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from schemas.messages.namespaces import (
    NamespaceRow,
    NamespaceState,
    PriorityClassRow,
    PriorityClassState,
)
from streams.stage.tracked_rows import TrackedRows

#: Most namespaces of a cluster that are remembered: twice what Kubernetes is tested with.
NAMESPACES_MAX = 20_000
#: Most priority classes; clusters have a handful.
PRIORITY_CLASSES_MAX = 1_000

S = TypeVar("S", bound=NamespaceState | PriorityClassState)
R = TypeVar("R", bound=NamespaceRow | PriorityClassRow)


class NamedRows(TrackedRows[str, R], Generic[S, R]):
    """Objects of one kind of one cluster, by name."""

    def __init__(self, cluster: str, table: str, row: type[R], what: str, most: int) -> None:
        """Begin without any.

        Args:
            cluster: its name.
            table: where the rows are kept.
            row: class of the rows.
            what: the kind, for sentences.
            most: how many are remembered.
        """
        super().__init__(table, lambda row: row.state.name)
        self.cluster, self._what, self._most = cluster, what, most
        self._row: type[R] = row
        self.version = 0
        """Grows whenever an object changes."""

    def apply(self, state: S, sequence: int) -> str | None:
        """One is there or gone; answers why it was not taken in."""
        name = state.name
        before = self.rows.get(name)
        if state.removed:
            self.drop(name)
            return None
        if before is None and len(self.rows) >= self._most:
            return f"{self._what} {name} would be one more than {self._most} in the cluster"
        values = {"cluster": self.cluster, "state": state, "sequence": sequence}
        self.put(cast("R", self._row.model_validate(values)))
        return None

    def end_list(self, list_id: str, begin: int, *, complete: bool = False) -> None:
        """A full list of pods has ended.

        If it named any of the kind, or is `complete` in it, those that it lacks are gone.
        """
        if not complete and not any(row.state.list_id == list_id for row in self.rows.values()):
            return
        for name, row in list(self.rows.items()):
            if row.state.list_id != list_id and row.sequence < begin:
                self.drop(name)

    def put(self, row: R) -> None:
        """Keep a row as it is now."""
        super().put(row)
        self.version += 1

    def drop(self, key: str) -> R | None:
        """Forget one; answers with what was known of it."""
        self.version += 1
        return super().drop(key)


class NamespaceRows(NamedRows[NamespaceState, NamespaceRow]):
    """The namespaces of one cluster."""

    def __init__(self, cluster: str = "") -> None:
        super().__init__(cluster, "namespaces", NamespaceRow, "namespace", NAMESPACES_MAX)

    def labels(self, name: str) -> Mapping[str, str] | None:
        """Labels of a namespace; None: it is not known."""
        row = self.rows.get(name)
        return None if row is None else row.state.labels


class PriorityClasses(NamedRows[PriorityClassState, PriorityClassRow]):
    """The priority classes of one cluster."""

    def __init__(self, cluster: str = "") -> None:
        of = "priority_classes", PriorityClassRow, "priority class"
        super().__init__(cluster, *of, PRIORITY_CLASSES_MAX)

    def value(self, name: str) -> int | None:
        """Priority of a class; None: it is not known."""
        row = self.rows.get(name)
        return None if row is None else row.state.value
