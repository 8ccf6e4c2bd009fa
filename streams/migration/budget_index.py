"""Which disruption budgets of a namespace cover a pod, without asking every budget.

A selector that requires one of some values of a label is found by these values, and a selector that
requires a label to exist is found by the label; only the other selectors are compared with every
pod. Budgets with equal selectors are one question, and pods with equal labels one answer, which is
kept until a selector of the namespace changes.
"""

from collections.abc import Iterator, Mapping
from itertools import count

from schemas.messages.workloads import PodSelector
from schemas.topics.codec import encode
from streams.stage.sized_cache import SizedCache

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
