"""Required anti-affinity of held pods: which nodes a new pod must stay away from.

Terms are indexed by the labels that their selectors require, so a pod is compared only with terms that may
select it. If these are too many, all of them count as matches, which bounds the time of a request.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from schemas.messages.pods import Pod, PodAffinityTerm

#: Most terms that are compared with one pod. If there are more, each of them counts as a match.
COMPARED_MAX = 256

#: Namespace of the pod that has a term, and the term as text.
_Key = tuple[str, str]


class HeldTerm:
    """A term that held pods of one namespace have."""

    __slots__ = ("_term", "nodes", "topology_key", "values")

    def __init__(self, term: PodAffinityTerm) -> None:
        self._term = term
        self.topology_key = term.topology_key
        self.values: tuple[tuple[str, str | None], ...] = tuple(_find_values(term))
        """A selected pod has one of these labels; None is any value. Empty if no label is required."""
        self.nodes: Counter[str] = Counter()
        """Number of pods with the term by node."""

    def matches(self, pod: Pod, namespace: str) -> bool:
        """Tell whether the term selects a pod; `namespace` is that of the pods with the term."""
        term = self._term
        namespaces = term.namespaces or (namespace,)
        if not term.all_namespaces and pod.namespace not in namespaces:
            return False
        return term.selector is not None and term.selector.matches(pod.labels)


def _find_values(term: PodAffinityTerm) -> Iterator[tuple[str, str | None]]:
    """Yield the labels of one requirement of the selector; each selected pod has one of them."""
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
        """Add the terms of a pod that is held on a node."""
        for term in pod.required_anti_affinity:
            key = pod.namespace, term.model_dump_json()
            held = self._terms.get(key)
            if held is None:
                held = self._terms[key] = HeldTerm(term)
                for index in self._indexes(held):
                    index[key] = None
            held.nodes[node] += 1

    def drop(self, pod: Pod, node: str) -> None:
        """Remove the terms of a pod that is no longer held on a node."""
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
        """Return the terms that select a pod."""
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
