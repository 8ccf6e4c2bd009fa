"""The score when the load filter refuses every node: prefers the node least above its thresholds.

The scores of the policy prefer the node where a pod adds least risk, and a pod adds little risk to a
node that is already overloaded. Policies cannot name this score: the placer uses it with the figures
of the load filter.
"""

import numpy as np

from schemas.policy import LOAD_AWARE
from streams.inventory.node import Node
from streams.placement.filters.load_aware import LoadAwareFilter, Prepared
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.stage.arrays import FloatArray


class LeastOverloaded(Score):
    """Prefers nodes by the share of the filter's threshold that is left."""

    name = LOAD_AWARE
    normalised = True

    def __init__(self, load_filter: LoadAwareFilter) -> None:
        self._filter = load_filter

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """The filter has the figures."""

    def prepare(self, kind: Kind) -> Prepared:
        return self._filter.prepare(kind)

    def scores(self, prepared: Prepared) -> FloatArray:
        rows = range(self._filter.size)
        return np.array([self._filter.spare(prepared, row) for row in rows], dtype=np.float64)

    def score(self, prepared: Prepared, row: int) -> float:
        return self._filter.spare(prepared, row)
