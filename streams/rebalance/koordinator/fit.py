"""Koordinator's nodeFit: does a pod fit on any target, and is room taken for it if so.

The first target in the given order that would take the pod keeps its usage reserved for the rest of
the phase, whether the pod is evicted or not. Requests are compared with status.allocatable, each
one that the pod names, also "0"; the number of pods is not looked at. Source: docs/upstream.md
B4.4, B5.9, X19.
"""

from collections.abc import Sequence

from streams.inventory.node import Held
from streams.placement.plugins.node_affinity import labels_of, required_affinity
from streams.placement.plugins.taints import refusing, untolerated
from streams.rebalance.node_arrays import NodeFigures

#: Gate and reason that keep a pod that the metric does not name at all.
NOT_METERED = ("unmeasured", "no usage of it is known")


class Fit:
    """The targets of one phase."""

    def __init__(
        self,
        targets: Sequence[NodeFigures],
        used: Sequence[list[int]],
        limits: Sequence[list[int]],
    ) -> None:
        """Look at the targets of a phase.

        Args:
            targets: nodes in the order in which they are tried.
            used: their usage in this phase; it is raised by what is reserved.
            limits: their high limits.
        """
        nodes = [figures.node for figures in targets]
        self._targets = [
            (node, labels_of(node), refusing(node.state.taints), usage, limit)
            for node, usage, limit in zip(nodes, used, limits, strict=True)
            if node is not None and node.state is not None
        ]

    def stops(self, held: Held, used: list[int]) -> tuple[str, str] | None:
        """Gate and reason that keep a pod; None: it fits, and its room is taken.

        Args:
            held: the pod.
            used: its usage, `UNMEASURED` where its metric does not name the resource.
        """
        amounts = [max(amount, 0) for amount in used]
        affinity = required_affinity(held.pod)
        for node, labels, taints, usage, limits in self._targets:
            if affinity is not None and not affinity.matches(labels):
                continue
            if untolerated(taints, held.pod.tolerations) is not None:
                continue
            if any(
                amount > node.allocatable.get(name, 0) - node.requested.get(name, 0)
                for name, amount in held.demand.requests.items()
            ):
                continue
            after = [have + more for have, more in zip(usage, amounts, strict=True)]
            if any(amount > limit for amount, limit in zip(after, limits, strict=True)):
                continue
            usage[:] = after
            return None
        return "fit", f"none of {len(self._targets)} targets could take it"
