"""Disruption budgets: how many pods may still be evicted, counting commands that were sent.

The status of a budget lags: one batch may send several commands before the status shows their evictions.
So each command charges the budget of its pod, until the command fails, or until a status is reported after
the pod is gone. If the status shows the eviction earlier, the eviction counts twice for a while. Then fewer
pods are evicted than the budget allows, but not more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from schemas.messages.migrations import DisruptionBudgetRow
from schemas.messages.objects import DisruptionBudget
from schemas.messages.pods import Pod, PodSelector
from schemas.topics.codec import encode
from streams.migration.limits.objects import ObjectRows
from streams.stage.sized_cache import SizedCache

#: Phases in which Kubernetes evicts pods regardless of budgets.
_FREE_PHASES = ("Pending", "Succeeded", "Failed")
#: Most budgets of a cluster.
BUDGETS_MAX = 100_000

BudgetKey = tuple[str, str]


def count_left(row: DisruptionBudgetRow) -> int:
    """Return the number of pods that may still be evicted; below 0 if the status has worsened."""
    return row.state.disruptions_allowed - len(row.charged) - len(row.gone)


def describe_budget(row: DisruptionBudgetRow) -> str:
    used = len(row.charged) + len(row.gone)
    budget = row.state
    allowed = budget.disruptions_allowed
    text = (
        f"disruption budget {budget.namespace}/{budget.name} allows {allowed} "
        f"{'disruption' if allowed == 1 else 'disruptions'} "
        f"({budget.current_healthy} of {budget.expected_pods} pods are healthy, "
        f"{budget.desired_healthy} must be)"
    )
    return f"{text}; eviction commands use {used}" if used else text


def _get_key(budget: DisruptionBudget) -> BudgetKey:
    return budget.namespace, budget.name


class Budgets(ObjectRows[BudgetKey, DisruptionBudget, DisruptionBudgetRow]):
    """The disruption budgets of a cluster, by namespace and name."""

    def __init__(self, cluster: str) -> None:
        super().__init__(cluster, "disruption_budgets", DisruptionBudgetRow, BUDGETS_MAX, _get_key)
        self._selectors: dict[str, BudgetIndex] = {}
        """Selectors by namespace."""
        self._cache = CoveringCache(CACHED_BYTES_MAX, CACHED_MAX)
        self._charged: dict[str, dict[BudgetKey, None]] = {}
        """Charged budgets by uid of the pod, until the pod is gone."""

    def explain_refusal(self, state: DisruptionBudget) -> str | None:
        index = self._selectors.get(state.namespace) or BudgetIndex()
        problem = index.explain_refusal(state.name, state.selector)
        if problem is None:
            return None
        return f"budget {state.namespace}/{state.name} is refused: {problem}"

    def compute_fields(
        self, state: DisruptionBudget, before: DisruptionBudgetRow | None
    ) -> dict[str, Any]:
        return {"charged": () if before is None else before.charged}

    def find_covering_names(self, pod: Pod) -> tuple[str, ...]:
        """Return the sorted names of the budgets that select a pod."""
        index = self._selectors.get(pod.namespace)
        return () if index is None else index.find_covering(pod.labels)

    def find_covering(self, pod: Pod) -> list[DisruptionBudgetRow]:
        """Return the budgets that select a pod, in the order of names."""
        return [self.rows[pod.namespace, name] for name in self.find_covering_names(pod)]

    def find_charged(self, pod: Pod) -> DisruptionBudgetRow | None:
        """Return the budget to charge for the eviction of a pod; None if the eviction is free.

        The eviction is free if the pod does not run, or if it is unready and the budget has enough healthy
        pods or the policy AlwaysAllow for unhealthy pods.
        Source: Kubernetes' pkg/registry/core/pod/storage/eviction.go.
        """
        if pod.phase in _FREE_PHASES:
            return None
        row = next(iter(self.find_covering(pod)), None)
        if row is None or pod.ready:
            return row
        budget = row.state
        is_healthy = budget.current_healthy >= budget.desired_healthy > 0
        is_free = is_healthy or budget.unhealthy_pod_eviction_policy == "AlwaysAllow"
        return None if is_free else row

    def explain_exhausted(self, pod: Pod) -> str | None:
        """Return why budgets do not allow the eviction of a pod now; None if they allow it."""
        names = self.find_covering_names(pod)
        if len(names) > 1 and pod.phase not in _FREE_PHASES:
            return (
                f"{len(names)} disruption budgets select the pod ({', '.join(names[:3])}); Kubernetes "
                "evicts no pod that has more than one"
            )
        row = self.find_charged(pod)
        return describe_budget(row) if row is not None and count_left(row) <= 0 else None

    def charge(self, pod: Pod) -> None:
        """Charge the budget of a pod for which a command is sent."""
        row = self.find_charged(pod)
        if row is not None and pod.uid not in row.charged:
            self.put(row.model_copy(update={"charged": (*row.charged, pod.uid)}))

    def discharge(self, uid: str, *, gone: bool) -> None:
        """End the charges of a pod: its command has failed, or the pod is gone."""
        for key in sorted(self._charged.pop(uid, {})):
            row = self.rows[key]
            charged = tuple(charged_uid for charged_uid in row.charged if charged_uid != uid)
            gone_uids = (*row.gone, uid) if gone else row.gone
            self.put(row.model_copy(update={"charged": charged, "gone": gone_uids}))

    def put(self, row: DisruptionBudgetRow) -> None:
        key = _get_key(row.state)
        before = self.rows.get(key)
        if before is None or before.state is not row.state:
            index = self._selectors.setdefault(row.state.namespace, BudgetIndex(self._cache))
            index.put(row.state.name, row.state.selector)
        for uid in row.charged:
            self._charged.setdefault(uid, {})[key] = None
        super().put(row)

    def drop(self, key: BudgetKey) -> DisruptionBudgetRow | None:
        row = super().drop(key)
        if row is not None:
            index = self._selectors.get(row.state.namespace)
            if index is not None:
                index.drop(row.state.name)
                if index.is_empty:
                    del self._selectors[row.state.namespace]
            for uid in row.charged:
                del self._charged[uid][key]
                if not self._charged[uid]:
                    del self._charged[uid]
        return row


#: A label is selective if fewer budgets of its namespace require the label. This is also the limit for budgets
#: that require the same labels, none of them selective: each is compared with every pod that has these labels.
UNSELECTIVE_BUDGETS_MAX = 128
#: Most values of one selector, in all its expressions.
SELECTOR_VALUES_MAX = 1_024

#: Cached answers of one cluster, and their bytes.
CACHED_MAX, CACHED_BYTES_MAX = 32_768, 8 * 1024 * 1024
#: Bytes of a short text.
_TEXT_BYTES = 80

#: A label and its value; None stands for any value.
_Label = tuple[str, str | None]
#: Names of the budgets that select a pod, by the version of the selectors and the pod's labels.
CoveringCache = SizedCache[tuple[int, tuple[tuple[str, str], ...]], tuple[str, ...]]
_VERSIONS = count()


class _Group:
    """Budgets of a namespace that have the same selector."""

    __slots__ = ("index_labels", "label_sets", "names", "selector")

    def __init__(self, selector: PodSelector) -> None:
        self.selector = selector
        self.label_sets = list(_list_label_sets(selector))
        self.names: dict[str, None] = {}
        self.index_labels: tuple[_Label, ...] = ()
        """Labels under which the selector is indexed; empty if it is compared with every pod."""


class BudgetIndex:
    """The selectors of one namespace's budgets."""

    def __init__(self, cache: CoveringCache | None = None) -> None:
        self._groups: dict[bytes, _Group] = {}
        self._keys: dict[str, bytes] = {}
        self._by_label: dict[_Label, dict[bytes, None]] = {}
        self._requiring: Counter[_Label] = Counter()
        """Number of budgets that require each label, for any order of the budgets."""
        self._groups_requiring: dict[_Label, dict[bytes, None]] = {}
        self._unindexed: dict[bytes, None] = {}
        self._cache = CoveringCache(CACHED_BYTES_MAX, CACHED_MAX) if cache is None else cache
        self._version = next(_VERSIONS)
        """Version of the selectors. Cached answers of an older version are stale."""

    @property
    def is_empty(self) -> bool:
        return not self._keys

    def explain_refusal(self, name: str, selector: PodSelector | None) -> str | None:
        """Return why the selector of a budget is refused; None if it is accepted."""
        if selector is None or self._keys.get(name) == encode(selector):
            return None
        values = sum(len(expression.values) for expression in selector.match_expressions)
        if values > SELECTOR_VALUES_MAX:
            return f"its selector names {values} values; allowed are at most {SELECTOR_VALUES_MAX}"
        label_sets = list(_list_label_sets(selector))
        if label_sets:
            if self._is_selective(label_sets):
                return None
            count = min(max(map(self._count_unselective, labels)) for labels in label_sets)
        else:
            count = sum(len(self._groups[key].names) for key in self._unindexed)
        if count < UNSELECTIVE_BUDGETS_MAX:
            return None
        subject = "the same labels" if label_sets else "no label either"
        return f"{count} budgets of its namespace require {subject}, which is the limit"

    def _is_selective(self, label_sets: Iterable[tuple[_Label, ...]]) -> bool:
        """Tell whether all labels of one set are selective."""
        return any(
            max(self._requiring[label] for label in labels) < UNSELECTIVE_BUDGETS_MAX
            for labels in label_sets
        )

    def _count_unselective(self, label: _Label) -> int:
        """Return the number of budgets that require a label and no selective labels."""
        groups = [self._groups[key] for key in self._groups_requiring.get(label, ())]
        return sum(len(group.names) for group in groups if not self._is_selective(group.label_sets))

    def put(self, name: str, selector: PodSelector | None) -> None:
        """Set the selector of a budget."""
        key = None if selector is None else encode(selector)
        if key is not None and self._keys.get(name) == key:
            return
        self.drop(name)
        if selector is None or key is None:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(selector)
            self._index(key, group)
        group.names[name] = None
        self._requiring.update(_list_labels(group.label_sets))
        self._keys[name] = key
        self._version = next(_VERSIONS)

    def drop(self, name: str) -> None:
        key = self._keys.pop(name, None)
        if key is None:
            return
        self._version = next(_VERSIONS)
        group = self._groups[key]
        del group.names[name]
        for label in _list_labels(group.label_sets):
            self._requiring[label] -= 1
            if not self._requiring[label]:
                del self._requiring[label]
        if group.names:
            return
        del self._groups[key]
        self._unindexed.pop(key, None)
        for index, labels in (
            (self._by_label, group.index_labels),
            (self._groups_requiring, _list_labels(group.label_sets)),
        ):
            for label in labels:
                del index[label][key]
                if not index[label]:
                    del index[label]

    def find_covering(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the sorted names of the budgets that select a pod."""
        key = self._version, tuple(sorted(labels.items()))
        names = self._cache.get(key)
        if names is None:
            names = tuple(sorted(self._match(labels)))
            texts = 2 * len(labels) + len(names)
            self._cache.put(key, names, _TEXT_BYTES * (1 + texts))
        return names

    def _match(self, labels: Mapping[str, str]) -> Iterator[str]:
        keys = dict(self._unindexed)
        for label, value in labels.items():
            keys.update(self._by_label.get((label, value), {}))
            keys.update(self._by_label.get((label, None), {}))
        for key in keys:
            group = self._groups[key]
            if group.selector.matches(labels):
                yield from group.names

    def _index(self, key: bytes, group: _Group) -> None:
        # The labels with the fewest selectors, so that few selectors are compared with a pod.
        group.index_labels = min(
            group.label_sets,
            key=lambda labels: sum(len(self._by_label.get(label, ())) for label in labels),
            default=(),
        )
        for label in group.index_labels:
            self._by_label.setdefault(label, {})[key] = None
        for label in _list_labels(group.label_sets):
            self._groups_requiring.setdefault(label, {})[key] = None
        if not group.index_labels:
            self._unindexed[key] = None


def _list_labels(label_sets: Iterable[tuple[_Label, ...]]) -> set[_Label]:
    return {label for labels in label_sets for label in labels}


def _list_label_sets(selector: PodSelector) -> Iterator[tuple[_Label, ...]]:
    """Yield sets of labels. A pod that the selector selects has at least one label of each set."""
    for label, value in selector.match_labels.items():
        yield ((label, value),)
    for expression in selector.match_expressions:
        if expression.operator == "In" and expression.values:
            yield tuple(dict.fromkeys((expression.key, value) for value in expression.values))
        elif expression.operator == "Exists":
            yield ((expression.key, None),)
