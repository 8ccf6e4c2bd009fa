"""The score where the load filter has given way: the node that is least beyond its threshold is best.

The scores of the policy say where a pod adds least risk, and to a node that is overloaded already a pod
adds little. It is no plugin of policies; the placer uses it with the figures of the filter.
"""

import numpy as np

from schemas.policy import LOAD_AWARE
from streams.inventory.node import Node
from streams.placement.filters.load_aware import LoadAwareFilter, Prepared
from streams.placement.plugin import ExactScore
from streams.pods.kind import Kind
from streams.stage.arrays import FloatArray


class LeastOverloaded(ExactScore):
    """Prefers nodes by what is left below the threshold of the filter, as a share of it."""

    name = LOAD_AWARE

    def __init__(self, load_filter: LoadAwareFilter) -> None:
        self._filter = load_filter

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """The filter has the figures."""

    def prepare(self, kind: Kind) -> Prepared:
        """What the filter needs to know of the kind."""
        return self._filter.prepare(kind)

    def merits(self, prepared: Prepared) -> FloatArray:
        """What is left on all nodes, float64."""
        rows = range(self._filter.size)
        return np.array([self._filter.spare(prepared, row) for row in rows], dtype=np.float64)

    def merit(self, prepared: Prepared, row: int) -> float:
        """The same of one node."""
        return self._filter.spare(prepared, row)

    def scores(self, prepared: Prepared) -> FloatArray:
        """Raw scores are the merits."""
        return self.merits(prepared)

    def score(self, prepared: Prepared, row: int) -> float:
        """The same of one node."""
        return self.merit(prepared, row)

    def raw_of(self, merit: float) -> float:
        """The same."""
        return merit
