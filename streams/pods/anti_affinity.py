"""Required anti-affinity of the pods that are held: which nodes a new pod must stay away from.

Terms are found by the labels that they ask for, so a request looks only at terms that may match it. A
request that meets too many of them is kept away by all of them, which bounds the time that it takes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from schemas.messages.pods import Pod, PodAffinityTerm

#: Terms that are compared with one pod; of more than these each counts as if it matched.
COMPARED_MAX = 256

#: Namespace of the pod that has a term, and the term as text.
_Key = tuple[str, str]


class HeldTerm:
    """A term of held pods."""

    __slots__ = ("_term", "nodes", "topology_key", "values")

    def __init__(self, term: PodAffinityTerm) -> None:
        self._term = term
        self.topology_key = term.topology_key
        self.values: tuple[tuple[str, str | None], ...] = tuple(_find_values(term))
        """Labels of which a pod must have one; none as value: any value. Empty: no label is needed."""
        self.nodes: Counter[str] = Counter()
        """Pods that have the term, by node."""

    def matches(self, pod: Pod, namespace: str) -> bool:
        """Whether a pod must stay away; `namespace` is that of the pods which have the term."""
        term = self._term
        namespaces = term.namespaces or (namespace,)
        if not term.all_namespaces and pod.namespace not in namespaces:
            return False
        return term.selector is not None and term.selector.matches(pod.labels)


def _find_values(term: PodAffinityTerm) -> Iterator[tuple[str, str | None]]:
    """Labels of one requirement of a term's selector, of which each pod that it selects has one."""
    if term.selector is None:
        return
    for label in term.selector.match_labels.items():
        yield label
        return
    for expression in term.selector.match_expressions:
        if expression.operator == "In":
            yield from ((expression.key, value) for value in expression.values)
            return
        if expression.operator == "Exists":
            yield expression.key, None
            return


class AntiAffinity:
    """Terms of all pods held in a cluster."""

    def __init__(self) -> None:
        self._terms: dict[_Key, HeldTerm] = {}
        self._by_label: dict[tuple[str, str | None], dict[_Key, None]] = {}
        self._unlabelled: dict[_Key, None] = {}

    def add(self, pod: Pod, node: str) -> None:
        """A pod is held on a node."""
        for term in pod.required_anti_affinity:
            key = pod.namespace, term.model_dump_json()
            held = self._terms.get(key)
            if held is None:
                held = self._terms[key] = HeldTerm(term)
                for index in self._indexes(held):
                    index[key] = None
            held.nodes[node] += 1

    def drop(self, pod: Pod, node: str) -> None:
        """A pod is not held on a node any more."""
        for term in pod.required_anti_affinity:
            key = pod.namespace, term.model_dump_json()
            held = self._terms[key]
            held.nodes[node] -= 1
            if not held.nodes[node]:
                del held.nodes[node]
            if not held.nodes:
                for index in self._indexes(held):
                    index.pop(key, None)
                for label in held.values:
                    if not self._by_label.get(label):
                        self._by_label.pop(label, None)
                del self._terms[key]

    def _indexes(self, held: HeldTerm) -> Iterable[dict[_Key, None]]:
        if not held.values:
            return (self._unlabelled,)
        return [self._by_label.setdefault(label, {}) for label in held.values]

    def find_terms(self, pod: Pod) -> list[HeldTerm]:
        """The terms that keep a pod away."""
        if not self._terms:
            return []
        keys = dict(self._unlabelled)
        for name, value in pod.labels.items():
            keys |= self._by_label.get((name, value), {})
            keys |= self._by_label.get((name, None), {})
        terms = self._terms
        if len(keys) > COMPARED_MAX:
            return [terms[key] for key in keys]
        return [terms[key] for key in keys if terms[key].matches(pod, key[0])]
