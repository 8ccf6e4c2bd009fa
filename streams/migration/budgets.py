"""Disruption budgets: how many pods may still be evicted when our own commands are counted too.

A budget's status lags: several commands may leave in one batch before any of them shows. So each command
charges the budgets that cover its pod, from the moment at which it is decided until it is known to have
come to nothing, or until a status comes that was told after the pod had gone. In between a status may
count the eviction already; then it counts twice, and fewer pods are evicted for a while, never more.
"""

from collections.abc import Iterable, Sequence

from schemas.migrations import DisruptionBudgetRow
from schemas.pods import Pod
from schemas.workloads import DisruptionBudget

#: Most budgets of a cluster that are remembered.
BUDGETS_MAX = 100_000

Key = tuple[str, str]


def left(row: DisruptionBudgetRow) -> int:
    """Pods of a budget that may still be evicted; below 0 if its status fell under what is charged."""
    return row.budget.disruptions_allowed - len(row.charged) - len(row.gone)


def describe(row: DisruptionBudgetRow) -> str:
    """As in "disruption budget shop/web allows 1 more, of which commands take 1"."""
    taken = len(row.charged) + len(row.gone)
    budget = row.budget
    return (
        f"disruption budget {budget.namespace}/{budget.name} allows {budget.disruptions_allowed} "
        f"({budget.current_healthy} of {budget.expected_pods} pods healthy, "
        f"{budget.desired_healthy} wanted), of which commands have taken {taken}"
    )


class Budgets:
    """The disruption budgets of a cluster."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._rows: dict[str, dict[str, DisruptionBudgetRow]] = {}
        """By namespace and name."""
        self._charged: dict[str, dict[Key, None]] = {}
        """Budgets that a pod is charged to, while it is not gone, by its uid."""
        self._size = 0
        self.changed: dict[Key, None] = {}
        """Rows of table `disruption_budgets` to write."""

    def __len__(self) -> int:
        return self._size

    def get(self, key: Key) -> DisruptionBudgetRow | None:
        """The row of a budget."""
        return self._rows.get(key[0], {}).get(key[1])

    def apply(self, budget: DisruptionBudget, sequence: int) -> str | None:
        """A budget's status; answers why it was not taken in."""
        key = (budget.namespace, budget.name)
        before = self.get(key)
        if budget.removed:
            if before is not None:
                self._remove(key, before)
            return None
        if before is None and self._size >= BUDGETS_MAX:
            return f"budget {budget.name} would be one more than {BUDGETS_MAX} in the cluster"
        self._put(
            DisruptionBudgetRow(
                cluster=self.cluster,
                budget=budget,
                charged=() if before is None else before.charged,
                sequence=sequence,
            )
        )
        return None

    def end_list(self, list_id: str, begin: int) -> None:
        """A full list of pods has ended: if it named budgets, those that it lacks are gone."""
        rows = [row for named in self._rows.values() for row in named.values()]
        if not any(row.budget.list_id == list_id for row in rows):
            return
        for row in rows:
            if row.budget.list_id != list_id and row.sequence < begin:
                self._remove((row.budget.namespace, row.budget.name), row)

    def covering(self, pod: Pod) -> list[DisruptionBudgetRow]:
        """Budgets that select a pod, by name."""
        named = self._rows.get(pod.namespace)
        if not named:
            return []
        return [
            row
            for _, row in sorted(named.items())
            if row.budget.selector is not None and row.budget.selector.matches(pod.labels)
        ]

    def charge(self, pod: Pod) -> None:
        """A command takes a pod."""
        for row in self.covering(pod):
            if pod.uid not in row.charged:
                self._put(row.model_copy(update={"charged": (*row.charged, pod.uid)}))
                key = (row.budget.namespace, row.budget.name)
                self._charged.setdefault(pod.uid, {})[key] = None

    def discharge(self, uid: str, *, gone: bool) -> None:
        """A command has come to nothing, or its pod is gone and the next status reflects it."""
        for key in sorted(self._charged.pop(uid, {})):
            row = self.get(key)
            if row is None:
                continue
            charged = tuple(each for each in row.charged if each != uid)
            taken = (*row.gone, uid) if gone else row.gone
            self._put(row.model_copy(update={"charged": charged, "gone": taken}))

    def touch(self) -> None:
        """Count every budget as changed."""
        for namespace, named in self._rows.items():
            self.changed.update(dict.fromkeys((namespace, name) for name in named))

    def restore(self, rows: Iterable[DisruptionBudgetRow]) -> None:
        """Take over table rows."""
        for row in rows:
            self._put(row)
            for uid in row.charged:
                key = (row.budget.namespace, row.budget.name)
                self._charged.setdefault(uid, {})[key] = None
        self.changed.clear()

    def _put(self, row: DisruptionBudgetRow) -> None:
        named = self._rows.setdefault(row.budget.namespace, {})
        self._size += row.budget.name not in named
        named[row.budget.name] = row
        self.changed[row.budget.namespace, row.budget.name] = None

    def _remove(self, key: Key, row: DisruptionBudgetRow) -> None:
        named = self._rows[key[0]]
        del named[key[1]]
        if not named:
            del self._rows[key[0]]
        self._size -= 1
        for uid in row.charged:
            budgets = self._charged.get(uid, {})
            budgets.pop(key, None)
            if not budgets:
                self._charged.pop(uid, None)
        self.changed[key] = None


def exhausted(rows: Sequence[DisruptionBudgetRow]) -> str | None:
    """Why a pod covered by these budgets may not be evicted now; None: it may."""
    if len(rows) > 1:
        names = ", ".join(row.budget.name for row in rows[:3])
        return (
            f"{len(rows)} disruption budgets cover the pod ({names}), and Kubernetes evicts no pod "
            "that more than one covers"
        )
    if rows and left(rows[0]) <= 0:
        return describe(rows[0])
    return None
