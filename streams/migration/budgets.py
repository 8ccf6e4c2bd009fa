"""Disruption budgets: how many pods may still be evicted when our own commands are counted too.

A budget's status lags: several commands may leave in one batch before any of them shows. So each
command charges the budgets that cover its pod, from the moment at which it is decided until it is
known to have failed, or until a status comes that was reported after the pod had gone. In between a
status may count the eviction already; then it counts twice, and fewer pods are evicted for a while,
never more.
"""

from schemas.messages.migrations import DisruptionBudgetRow
from schemas.messages.pods import Pod
from schemas.messages.workloads import DisruptionBudget
from streams.migration.budget_index import ANSWERS_BYTES_MAX, ANSWERS_MAX, Answers, BudgetIndex
from streams.stage.tracked_rows import TrackedRows

#: Most budgets of a cluster that are remembered.
BUDGETS_MAX = 100_000

Key = tuple[str, str]


def left(row: DisruptionBudgetRow) -> int:
    """Pods of a budget that may still be evicted.

    Below 0 if its status fell under what is charged.
    """
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


class Budgets(TrackedRows[Key, DisruptionBudgetRow]):
    """The disruption budgets of a cluster, by namespace and name."""

    def __init__(self, cluster: str) -> None:
        super().__init__("disruption_budgets")
        self.cluster = cluster
        self._named: dict[str, dict[str, DisruptionBudgetRow]] = {}
        """By namespace, and by name."""
        self._selectors: dict[str, BudgetIndex] = {}
        """By namespace."""
        self._answers = Answers(ANSWERS_BYTES_MAX, ANSWERS_MAX)
        """Theirs."""
        self._charged: dict[str, dict[Key, None]] = {}
        """Budgets that a pod is charged to, while it is not gone, by its uid."""
        self.version = 0
        """Grows whenever a selector is another one."""

    def apply(self, budget: DisruptionBudget, sequence: int) -> str | None:
        """A budget's status; answers why it was not taken in."""
        key = (budget.namespace, budget.name)
        before = self.row(key)
        if budget.removed:
            if before is not None:
                self._remove(key, before)
            return None
        if before is None and len(self.rows) >= BUDGETS_MAX:
            return f"budget {budget.name} would be one more than {BUDGETS_MAX} in the cluster"
        index = self._selectors.get(budget.namespace)
        why = (index or BudgetIndex()).refuses(budget.selector)
        if why is not None:
            return f"budget {budget.namespace}/{budget.name} is not taken in: {why}"
        self._put(
            DisruptionBudgetRow(
                cluster=self.cluster,
                budget=budget,
                charged=() if before is None else before.charged,
                sequence=sequence,
            )
        )
        return None

    def end_list(self, list_id: str, begin: int, *, complete: bool = False) -> None:
        """A full list of pods has ended.

        If it named budgets, or is `complete` in them, those that it lacks are gone.
        """
        rows = [row for named in self._named.values() for row in named.values()]
        if not complete and not any(row.budget.list_id == list_id for row in rows):
            return
        for row in rows:
            if row.budget.list_id != list_id and row.sequence < begin:
                self._remove((row.budget.namespace, row.budget.name), row)

    def covering(self, pod: Pod) -> tuple[str, ...]:
        """Names of the budgets of its namespace that select a pod, in their order."""
        index = self._selectors.get(pod.namespace)
        return () if index is None else index.covering(pod.labels)

    def covering_rows(self, pod: Pod) -> list[DisruptionBudgetRow]:
        """The budgets that select a pod, by name."""
        names = self.covering(pod)
        named = self._named.get(pod.namespace, {})
        return [named[name] for name in names]

    def exhausted(self, pod: Pod) -> str | None:
        """Why the budgets that cover a pod allow no eviction of it now; None: they do."""
        names = self.covering(pod)
        if len(names) > 1:
            return (
                f"{len(names)} disruption budgets cover the pod ({', '.join(names[:3])}), and "
                "Kubernetes evicts no pod that more than one covers"
            )
        row = self._named[pod.namespace][names[0]] if names else None
        return describe(row) if row is not None and left(row) <= 0 else None

    def charge(self, pod: Pod) -> None:
        """A command takes a pod."""
        for row in self.covering_rows(pod):
            if pod.uid not in row.charged:
                self._put(row.model_copy(update={"charged": (*row.charged, pod.uid)}))
                key = (row.budget.namespace, row.budget.name)
                self._charged.setdefault(pod.uid, {})[key] = None

    def discharge(self, uid: str, *, gone: bool) -> None:
        """A command has failed, or its pod is gone and the next status reflects it."""
        for key in sorted(self._charged.pop(uid, {})):
            row = self.row(key)
            if row is None:
                continue
            charged = tuple(each for each in row.charged if each != uid)
            taken = (*row.gone, uid) if gone else row.gone
            self._put(row.model_copy(update={"charged": charged, "gone": taken}))

    def take(self, row: DisruptionBudgetRow) -> None:
        """Take over a row as it was written."""
        self._put(row)
        for uid in row.charged:
            self._charged.setdefault(uid, {})[row.budget.namespace, row.budget.name] = None

    def _put(self, row: DisruptionBudgetRow) -> None:
        key = row.budget.namespace, row.budget.name
        before = self.rows.get(key)
        self._named.setdefault(row.budget.namespace, {})[row.budget.name] = row
        if before is None or before.budget is not row.budget:
            self.version += 1
            index = self._selectors.get(row.budget.namespace)
            if index is None:
                index = self._selectors[row.budget.namespace] = BudgetIndex(self._answers)
            index.put(row.budget.name, row.budget.selector)
        self.set(key, row)

    def _remove(self, key: Key, row: DisruptionBudgetRow) -> None:
        named = self._named[key[0]]
        del named[key[1]]
        self.version += 1
        self._selectors[key[0]].drop(key[1])
        if not named:
            del self._named[key[0]], self._selectors[key[0]]
        for uid in row.charged:
            budgets = self._charged.get(uid, {})
            budgets.pop(key, None)
            if not budgets:
                self._charged.pop(uid, None)
        self.drop(key)
