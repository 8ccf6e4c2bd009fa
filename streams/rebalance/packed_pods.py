"""The pods of one node in lists, one for each of their properties, in an order that does not depend
on when they came.

Made when a pod has come, gone or changed. What orders pods for eviction is worked out when a round
asks for it: only those on hot nodes are ever ranked.
"""

from collections.abc import Sequence
from operator import attrgetter, is_

import numpy as np

from schemas.messages.pods import Pod
from streams.pods.held import Held
from streams.pods.priority import priority_class
from streams.rebalance.costs import eviction_keys, packed
from streams.stage.arrays import IntArray

_uid = attrgetter("pod.uid")


def _rank(held: Held) -> Sequence[int]:
    """A row of keys."""
    keys = eviction_keys(held.pod, held.demand)
    return (*packed(keys), -(held.pod.created_at_ms or 0))


def _is_prod(held: Held) -> bool:
    return priority_class(held.pod, held.demand) == "prod"


class PackedPods:
    """Pods of one node; what of them does not depend on a metric."""

    __slots__ = (
        "_keys",
        "_known",
        "bound",
        "held",
        "names",
        "pods",
        "prod",
        "prods",
        "source",
        "terminating",
    )

    def __init__(
        self, source: Sequence[Held], before: "PackedPods | None" = None, *, by_uid: bool = False
    ) -> None:
        """Pack.

        Args:
            source: the pods as the node has them.
            before: the node's pods until now; those that stay as they were are not ranked again.
            by_uid: put them into ascending order of uids; what was reported first must not matter.
        """
        self.source = list(source)
        self.held = sorted(source, key=_uid) if by_uid else self.source
        self.pods = [each.pod for each in self.held]
        self.names = [(pod.namespace, pod.name) for pod in self.pods]
        known: dict[int, bool] = {}
        if before is not None:
            known = dict(zip(map(id, before.pods), before.prod, strict=True))
        self.prod: list[bool] = [
            known[id(each.pod)] if id(each.pod) in known else _is_prod(each) for each in self.held
        ]
        self.prods = sum(self.prod)
        self.bound = [pod.node is not None for pod in self.pods]
        """Not those for which room is only reserved."""
        self.terminating = [
            index for index, pod in enumerate(self.pods) if pod.deleting_at_ms is not None
        ]
        self._keys: IntArray | None = None
        self._known = {} if before is None else before.ranked(self.pods)
        """Rows of `keys` that are known before all are asked for, by the pod's identity."""

    @property
    def keys(self) -> IntArray:
        """Shape (pods, 4).

        The six keys of `costs` in three, then youngest first; lower is evicted first.
        """
        if self._keys is None:
            rows = [self._known.get(id(each.pod)) or _rank(each) for each in self.held]
            self._keys = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
            self._known = {}
        return self._keys

    def ranked(self, pods: Sequence[Pod]) -> dict[int, Sequence[int]]:
        """Rows of `keys` of those of the pods that are here too, as far as they are known."""
        if self._keys is None and not self._known:
            return {}
        known = self._known
        if self._keys is not None:
            known = dict(zip(map(id, self.pods), self._keys.tolist(), strict=True))
        return {id(pod): known[id(pod)] for pod in pods if id(pod) in known}

    def renewed(self, source: Sequence[Held], *, by_uid: bool) -> "PackedPods":
        """The node's pods as they are now; itself, if they are the same in the same state."""
        if len(source) != len(self.source):
            return PackedPods(source, self, by_uid=by_uid)
        if not all(map(is_, source, self.source)):
            if not all(new.pod is old.pod for new, old in zip(source, self.source, strict=True)):
                return PackedPods(source, self, by_uid=by_uid)
            self.source = list(source)
            self.held = sorted(source, key=_uid) if by_uid else self.source
        return self
