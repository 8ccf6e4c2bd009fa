"""Disruption budgets: how many pods may still be evicted when our own commands are counted too.

A budget's status lags: several commands may leave in one batch before any of them shows. So each
command charges the budgets that cover its pod, from the moment at which it is decided until it is
known to have failed, or until a status comes that was reported after the pod had gone. In between a
status may count the eviction already; then it counts twice, and fewer pods are evicted for a while,
never more.
"""

from collections.abc import Iterator, Mapping
from itertools import count

from schemas.messages.migrations import DisruptionBudgetRow
from schemas.messages.pod_selectors import PodSelector
from schemas.messages.pods import Pod
from schemas.messages.workloads import DisruptionBudget
from schemas.topics.codec import encode
from streams.stage.sized_cache import SizedCache
from streams.stage.tracked_rows import TrackedRows

#: Phases in which Kubernetes evicts a pod without asking a budget.
_FREE_PHASES = ("Pending", "Succeeded", "Failed")
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

    def find_charged(self, pod: Pod) -> DisruptionBudgetRow | None:
        """The budget that pays for the eviction of a pod; None: none does.

        A pod that has not begun to run is evicted whatever covers it, and one that is not ready is
        free by a budget that always allows it, or that has all the healthy pods that it desires.
        Source: Kubernetes' pkg/registry/core/pod/storage/eviction.go.
        """
        if pod.phase in _FREE_PHASES:
            return None
        row = next(iter(self.covering_rows(pod)), None)
        if row is None or pod.ready:
            return row
        budget = row.budget
        healthy = budget.current_healthy >= budget.desired_healthy > 0
        free = healthy or budget.unhealthy_pod_eviction_policy == "AlwaysAllow"
        return None if free else row

    def exhausted(self, pod: Pod) -> str | None:
        """Why the budgets that cover a pod allow no eviction of it now; None: they do."""
        names = self.covering(pod)
        if len(names) > 1 and pod.phase not in _FREE_PHASES:
            return (
                f"{len(names)} disruption budgets cover the pod ({', '.join(names[:3])}), and "
                "Kubernetes evicts no pod that more than one covers"
            )
        row = self.find_charged(pod)
        return describe(row) if row is not None and left(row) <= 0 else None

    def charge(self, pod: Pod) -> None:
        """A command takes a pod."""
        row = self.find_charged(pod)
        if row is not None and pod.uid not in row.charged:
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


#: Most selectors of one namespace that name no label which a pod must have: each is asked of every
#: pod.
UNBOUND_SELECTORS_MAX = 256
#: Values that one selector may name, in all its expressions.
SELECTOR_VALUES_MAX = 2_048

#: Answers kept of one cluster, and their bytes.
ANSWERS_MAX, ANSWERS_BYTES_MAX = 32_768, 8 * 1024 * 1024
#: Bytes of a short text.
_TEXT_BYTES = 80

#: A label and its value; no value: any.
_Handle = tuple[str, str | None]
#: Names of the budgets that cover pods, by the number of an index's selectors and the pods' labels.
Answers = SizedCache[tuple[int, tuple[tuple[str, str], ...]], tuple[str, ...]]
_NUMBERS = count()


class _Group:
    """Budgets of one selector."""

    __slots__ = ("handles", "names", "selector")

    def __init__(self, selector: PodSelector) -> None:
        self.selector = selector
        self.names: dict[str, None] = {}
        self.handles: tuple[_Handle, ...] = ()
        """Where it is found; empty: it is asked of every pod."""


class BudgetIndex:
    """The selectors of one namespace's budgets."""

    def __init__(self, answers: Answers | None = None) -> None:
        """`answers`: those of all namespaces of a cluster; none: it keeps its own."""
        self._groups: dict[bytes, _Group] = {}
        self._of_name: dict[str, bytes] = {}
        self._by_handle: dict[_Handle, dict[bytes, None]] = {}
        self._unbound: dict[bytes, None] = {}
        self._answers = Answers(ANSWERS_BYTES_MAX, ANSWERS_MAX) if answers is None else answers
        self._number = next(_NUMBERS)
        """Of the selectors as they are: answers of a number before are old."""
        self.asked = 0
        """How many selectors have been compared with labels."""

    def refuses(self, selector: PodSelector | None) -> str | None:
        """Why a selector is not taken in; None: it is."""
        if selector is None:
            return None
        values = sum(len(each.values) for each in selector.match_expressions)
        if values > SELECTOR_VALUES_MAX:
            return f"its selector names {values} values; allowed are at most {SELECTOR_VALUES_MAX}"
        unbound = len(self._unbound)
        if unbound < UNBOUND_SELECTORS_MAX or encode(selector) in self._groups:
            return None
        if next(_choices(selector), None) is not None:
            return None
        return (
            f"its selector requires no label, and {unbound} selectors of its namespace require none "
            "already; no more are allowed"
        )

    def put(self, name: str, selector: PodSelector | None) -> None:
        """A budget of a name is there, in place of an older one."""
        key = None if selector is None else encode(selector)
        if key is not None and self._of_name.get(name) == key:
            return
        self.drop(name)
        if selector is None or key is None:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(selector)
            self._place(key, group)
        group.names[name] = None
        self._of_name[name] = key
        self._number = next(_NUMBERS)

    def drop(self, name: str) -> None:
        """A budget is gone."""
        key = self._of_name.pop(name, None)
        if key is None:
            return
        self._number = next(_NUMBERS)
        group = self._groups[key]
        del group.names[name]
        if group.names:
            return
        del self._groups[key]
        self._unbound.pop(key, None)
        for handle in group.handles:
            del self._by_handle[handle][key]
            if not self._by_handle[handle]:
                del self._by_handle[handle]

    def covering(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Names of the budgets that select a pod, in their order."""
        asked = self._number, tuple(sorted(labels.items()))
        known = self._answers.get(asked)
        if known is None:
            known = tuple(sorted(self._found(labels)))
            texts = 2 * len(labels) + len(known)
            self._answers.put(asked, known, _TEXT_BYTES * (1 + texts))
        return known

    def _found(self, labels: Mapping[str, str]) -> Iterator[str]:
        keys = dict(self._unbound)
        for label, value in labels.items():
            keys.update(self._by_handle.get((label, value), {}))
            keys.update(self._by_handle.get((label, None), {}))
        for key in keys:
            group = self._groups[key]
            self.asked += 1
            if group.selector.matches(labels):
                yield from group.names

    def _place(self, key: bytes, group: _Group) -> None:
        """Where fewest are found already.

        Selectors that all name one value too are found by another.
        """
        group.handles = min(
            _choices(group.selector),
            key=lambda handles: sum(len(self._by_handle.get(each, ())) for each in handles),
            default=(),
        )
        for handle in group.handles:
            self._by_handle.setdefault(handle, {})[key] = None
        if not group.handles:
            self._unbound[key] = None


def _choices(selector: PodSelector) -> Iterator[tuple[_Handle, ...]]:
    """Each is enough to find a selector by: a pod that it selects has one of these labels."""
    for label, value in selector.match_labels.items():
        yield ((label, value),)
    for each in selector.match_expressions:
        if each.operator == "In" and each.values:
            yield tuple(dict.fromkeys((each.key, value) for value in each.values))
        elif each.operator == "Exists":
            yield ((each.key, None),)
