"""Indexes of the pods held in a cluster.

Each change of a held pod updates the indexes, so that decisions need not search the cluster:

- all pods and unready pods by controller, for limits per workload (a placeholder has no controller),
- terms of required anti-affinity, for the nodes that a new pod must avoid.

Terms of anti-affinity are indexed by the labels that their selectors require, so a pod is compared only
with terms that may select it. If there are too many of these terms, all of them count as matches. This limits
the time of a request.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from schemas.messages.pods import Pod, PodAffinityTerm

#: Most terms that are compared with one pod.
COMPARED_MAX = 256

#: Namespace of the pod that has a term, and the term as text.
_Key = tuple[str, str]
#: A label with one of its values; None is any value.
_Label = tuple[str, str | None]
#: Stands for the label of terms that require none.
_NO_LABEL: _Label = ("", None)
_NONE: Mapping[str, None] = {}


class OwnedPods:
    """Pods held in a cluster, by the uid of their controller."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, None]] = {}
        self._unready: dict[str, dict[str, None]] = {}
        self._owner_of: dict[str, str] = {}
        """Uid of the controller, by uid of the pod."""
        self.version = 0
        """Grows with every change."""

    def add(self, pod: Pod) -> None:
        """Add or update a held pod; its controller may have changed."""
        self.version += 1
        owner = pod.controller
        if owner is None or self._owner_of.get(pod.uid) != owner.uid:
            self.drop(pod.uid)
        if owner is None:
            return
        self._owner_of[pod.uid] = owner.uid
        self._pods.setdefault(owner.uid, {})[pod.uid] = None
        if not pod.ready:
            self._unready.setdefault(owner.uid, {})[pod.uid] = None
        else:
            _remove(self._unready, owner.uid, pod.uid)

    def drop(self, uid: str) -> None:
        self.version += 1
        owner_uid = self._owner_of.pop(uid, None)
        if owner_uid is not None:
            _remove(self._pods, owner_uid, uid)
            _remove(self._unready, owner_uid, uid)

    def list_pods(self, owner_uid: str) -> Mapping[str, None]:
        """Return the uids of the pods of a controller, in no defined order."""
        return self._pods.get(owner_uid, _NONE)

    def list_unready(self, owner_uid: str) -> Mapping[str, None]:
        """Return the uids of the pods of a controller that are not ready."""
        return self._unready.get(owner_uid, _NONE)


def _remove(index: dict[str, dict[str, None]], owner_uid: str, uid: str) -> None:
    uids = index.get(owner_uid)
    if uids is not None:
        uids.pop(uid, None)
        if not uids:
            del index[owner_uid]


class AntiAffinityTerm:
    """A term of required anti-affinity of held pods in one namespace."""

    __slots__ = ("_term", "labels", "nodes", "topology_key")

    def __init__(self, term: PodAffinityTerm) -> None:
        self._term = term
        self.topology_key = term.topology_key
        self.labels = tuple(dict.fromkeys(_find_labels(term))) or (_NO_LABEL,)
        """Each selected pod has one of these labels."""
        self.nodes: Counter[str] = Counter()
        """Number of pods with the term by node."""

    def matches(self, pod: Pod, namespace: str) -> bool:
        """Tell whether the term selects a pod; `namespace` is that of the pods with the term."""
        term = self._term
        namespaces = term.namespaces or (namespace,)
        if not term.all_namespaces and pod.namespace not in namespaces:
            return False
        return term.selector is not None and term.selector.matches(pod.labels)


def _find_labels(term: PodAffinityTerm) -> Iterator[_Label]:
    """Yield the labels that one requirement of the selector accepts."""
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
    """Terms of required anti-affinity of all pods held in a cluster."""

    def __init__(self) -> None:
        self._terms: dict[_Key, AntiAffinityTerm] = {}
        self._by_label: dict[_Label, dict[_Key, None]] = {}

    def __len__(self) -> int:
        return len(self._terms)

    def add(self, pod: Pod, node: str) -> None:
        """Add the terms of a pod that is held on a node."""
        for term in pod.required_anti_affinity:
            key = pod.namespace, term.model_dump_json()
            held_term = self._terms.get(key)
            if held_term is None:
                held_term = self._terms[key] = AntiAffinityTerm(term)
                for label in held_term.labels:
                    self._by_label.setdefault(label, {})[key] = None
            held_term.nodes[node] += 1

    def drop(self, pod: Pod, node: str) -> None:
        """Remove the terms of a pod that is no longer held on a node."""
        for term in pod.required_anti_affinity:
            key = pod.namespace, term.model_dump_json()
            held_term = self._terms[key]
            held_term.nodes[node] -= 1
            if not held_term.nodes[node]:
                del held_term.nodes[node]
            if not held_term.nodes:
                for label in held_term.labels:
                    self._by_label[label].pop(key)
                    if not self._by_label[label]:
                        del self._by_label[label]
                del self._terms[key]

    def find_terms(self, pod: Pod) -> list[AntiAffinityTerm]:
        """Return the terms that select a pod, or all terms that may select it if there are too many."""
        keys = dict(self._by_label.get(_NO_LABEL, {}))
        for name, value in pod.labels.items():
            keys |= self._by_label.get((name, value), {})
            keys |= self._by_label.get((name, None), {})
        terms = self._terms
        if len(keys) > COMPARED_MAX:
            return [terms[key] for key in keys]
        return [terms[key] for key in keys if terms[key].matches(pod, key[0])]
