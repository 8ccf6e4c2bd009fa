"""The pods of all hot nodes of a phase in flat lists, one node's after the other's."""

from collections.abc import Collection, Sequence

import numpy as np

from streams.inventory.arrays import IntArray
from streams.inventory.node import Held
from streams.rebalance.node_arrays import UNMEASURED, NodeFigures, Universe, amounts_of


class HotPods:
    """The pods of all nodes that act, one node's after the other's."""

    def __init__(
        self,
        figures: Sequence[NodeFigures],
        which: IntArray,
        universe: Universe,
        leaving: Collection[str],
    ) -> None:
        """Flatten. What a turn asks of every pod is kept in lists, so that it need not look at the
        pods.

        Args:
            figures: the nodes in the order of their turns.
            which: positions of the pool's resources.
            universe: all resources.
            leaving: uids of pods that are on their way already.
        """
        whole = np.concatenate([each.used for each in figures])
        self.used: IntArray = whole[:, which]
        """Shape (pods, resources of the pool); `UNMEASURED` where the metric lacks it."""
        self.amounts: list[list[int]] = amounts_of(whole, universe)[:, which].tolist()
        """What moving each takes away."""
        self.measured: list[bool] = (whole != UNMEASURED).any(axis=1).tolist()
        self.held: list[Held] = []
        self.prod: list[bool] = []
        self.bound: list[bool] = []
        """Not those for which room is only reserved."""
        self.leaving: dict[int, int] = {}
        """Pods on their way already, with the position of their node."""
        for place, each in enumerate(figures):
            pods, begin = each.pods, len(self.held)
            self.held += pods.held
            self.prod += pods.prod
            self.bound += pods.bound
            gone = pods.terminating
            if leaving:
                known = enumerate(pods.pods)
                gone = [
                    index
                    for index, pod in known
                    if pod.deleting_at_ms is not None or pod.uid in leaving
                ]
            self.leaving.update({begin + index: place for index in gone if pods.bound[index]})
        self._rows: list[list[int]] = whole.tolist()
        self._names = universe.resources

    def usage(self, index: int) -> dict[str, int]:
        """What was measured of a pod, by resource."""
        used = zip(self._names, self._rows[index], strict=True)
        usage = {name: amount for name, amount in used if amount != UNMEASURED}
        usage["pods"] = 1
        return usage
