"""The pods of one node as lists, one per property.

They are built when a pod has come, gone or changed. Sort keys are computed on first use, because only
pods on hot nodes are sorted.
"""

from collections.abc import Sequence
from operator import attrgetter, is_

import numpy as np

from schemas.messages.pods import Pod
from streams.pods.held_pod import HeldPod
from streams.rebalance.eviction_keys import eviction_keys, pack_keys
from streams.stage.arrays import IntArray

_uid = attrgetter("pod.uid")


def _rank(held: HeldPod) -> Sequence[int]:
    keys = eviction_keys(held.pod, held.kind)
    return (*pack_keys(keys), -(held.pod.created_at_ms or 0))


class PackedPods:
    """Properties of one node's pods that do not depend on a metric."""

    def __init__(
        self, source: Sequence[HeldPod], before: "PackedPods | None" = None, *, by_uid: bool = False
    ) -> None:
        """Pack pods in the order of arrival, or `by_uid`; results for unchanged pods of `before` are reused."""
        self.source = list(source)
        self.held = sorted(source, key=_uid) if by_uid else self.source
        self.pods = [held.pod for held in self.held]
        self.names = [(pod.namespace, pod.name) for pod in self.pods]
        self.prod = [held.kind.prod for held in self.held]
        self.prods = sum(self.prod)
        self.bound = [pod.node is not None for pod in self.pods]
        """False if room is only reserved for the pod."""
        self.terminating = [
            index for index, pod in enumerate(self.pods) if pod.deleting_at_ms is not None
        ]
        self._keys: IntArray | None = None
        self._known = {} if before is None else before.ranked(self.pods)
        """Rows of `keys` that are already computed, by the pod's identity."""

    @property
    def keys(self) -> IntArray:
        """Sort keys, shape (pods, 4): the six keys of `costs` pack_keys into three, then youngest first."""
        if self._keys is None:
            rows = [self._known.get(id(held.pod)) or _rank(held) for held in self.held]
            self._keys = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
            self._known = {}
        return self._keys

    def ranked(self, pods: Sequence[Pod]) -> dict[int, Sequence[int]]:
        """Return the computed rows of `keys` of those pods, by identity."""
        if self._keys is None and not self._known:
            return {}
        rows = self._known
        if self._keys is not None:
            rows = dict(zip(map(id, self.pods), self._keys.tolist(), strict=True))
        return {id(pod): rows[id(pod)] for pod in pods if id(pod) in rows}

    def update(self, source: Sequence[HeldPod], *, by_uid: bool) -> "PackedPods":
        """Return the pods for a new source, or self if the pods have not changed."""
        if len(source) != len(self.source):
            return PackedPods(source, self, by_uid=by_uid)
        if not all(map(is_, source, self.source)):
            if not all(new.pod is old.pod for new, old in zip(source, self.source, strict=True)):
                return PackedPods(source, self, by_uid=by_uid)
            self.source = list(source)
            self.held = sorted(source, key=_uid) if by_uid else self.source
        return self
