"""The pods of one node as lists, one per property.

The lists are built when a pod is added, removed or changed. Sort keys are computed on first use, because only
pods on hot nodes are sorted.
"""

from collections.abc import Sequence
from operator import attrgetter, is_

import numpy as np

from schemas.messages.pods import Pod
from streams.pods.held_pod import HeldPod
from streams.rebalance.eviction_keys import compute_eviction_keys, pack_keys
from streams.stage.arrays import IntArray

_uid = attrgetter("pod.uid")


def _compute_keys(held: HeldPod) -> Sequence[int]:
    keys = compute_eviction_keys(held.pod, held.kind)
    return (*pack_keys(keys), -(held.pod.created_at_ms or 0))


class PackedPods:
    """Properties of one node's pods that do not depend on a metric."""

    def __init__(
        self,
        held_pods: Sequence[HeldPod],
        previous: "PackedPods | None" = None,
        *,
        by_uid: bool = False,
    ) -> None:
        """Pack pods in the given order, or `by_uid`; reuse keys of unchanged pods of `previous`."""
        self._held_pods = list(held_pods)
        self.held = sorted(held_pods, key=_uid) if by_uid else self._held_pods
        self.pods = [held.pod for held in self.held]
        self.names = [(pod.namespace, pod.name) for pod in self.pods]
        self.prod = [held.kind.prod for held in self.held]
        self.prod_count = sum(self.prod)
        self.bound = [pod.node is not None for pod in self.pods]
        """False if room is only reserved for the pod."""
        self.terminating = [
            index for index, pod in enumerate(self.pods) if pod.deleting_at_ms is not None
        ]
        self._keys: IntArray | None = None
        self._reused_keys = {} if previous is None else previous.get_keys(self.pods)
        """Rows of `keys` by the identity of the pod."""

    @property
    def keys(self) -> IntArray:
        """Sort keys, shape (pods, 4): three packed keys of `eviction_keys`, then youngest first."""
        if self._keys is None:
            rows = [
                self._reused_keys.get(id(held.pod)) or _compute_keys(held) for held in self.held
            ]
            self._keys = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
            self._reused_keys = {}
        return self._keys

    def get_keys(self, pods: Sequence[Pod]) -> dict[int, Sequence[int]]:
        """Return the rows of `keys` that are already computed, by the identity of the pod."""
        rows = self._reused_keys
        if self._keys is not None:
            rows = dict(zip(map(id, self.pods), self._keys.tolist(), strict=True))
        return {id(pod): rows[id(pod)] for pod in pods if id(pod) in rows} if rows else {}

    def update(self, held_pods: Sequence[HeldPod], *, by_uid: bool) -> "PackedPods":
        """Return the packed pods of a changed node, or self if the pods have not changed."""
        if len(held_pods) != len(self._held_pods):
            return PackedPods(held_pods, self, by_uid=by_uid)
        if not all(map(is_, held_pods, self._held_pods)):
            pairs = zip(held_pods, self._held_pods, strict=True)
            if not all(new.pod is old.pod for new, old in pairs):
                return PackedPods(held_pods, self, by_uid=by_uid)
            self._held_pods = list(held_pods)
            self.held = sorted(held_pods, key=_uid) if by_uid else self._held_pods
        return self
