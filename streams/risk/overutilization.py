"""Cost of a node that may be overutilized.

A node's usage is assumed to be normally distributed. With C its capacity, h the share of it from
which it is hot, mu and var the mean and variance of its usage, and w the weight of excess:

    sd   = sqrt(var + (0.02 C)^2)
    z    = (mu - h C) / sd
    cost = Phi(z) + w (sd phi(z) + (mu - h C) Phi(z)) / C
         = Phi(z) + w (sd / C) G(z)           with G(z) = phi(z) + z Phi(z)

The first term is the probability of being hot. The second term is the expected usage above the hot share,
as a share of the node; without it, more pods would cost nothing on a node that is already hot. Figures are
shares of the node: `mean` is mu / C - h, and `variance` is var / C^2 + 0.02^2.

Callers scale mean and variance (`MEAN_SCALE`, `VARIANCE_SCALE`), so that z is in steps of the table and the
standard deviation includes the weight. This saves numpy operations over all nodes.

The cost of one node and the costs of all nodes are computed by the same operations in the same order,
so they are equal on every machine (see `normal_table`).
"""

from collections.abc import Callable
from functools import cache
from math import floor, sqrt
from typing import Any

import numpy as np

from streams.risk.normal_table import LAST, STEPS, ZERO, get_normal_table
from streams.stage.arrays import FloatArray

#: Standard deviation of a node in addition to that of its pods, as a share of the node.
NODE_DEVIATION = 0.02
#: Weight of the expected usage above the hot share, relative to the probability of being hot; a power of 2.
EXCESS_WEIGHT = 4.0
#: Cost per mean usage of a whole node; decides between nodes without risk.
TIE = 0.0001

_ZERO, _LAST = float(ZERO), float(LAST)
#: Over a step, G grows by half a step times the sum of Phi at both ends, so the unit of G is half a step.
_HALF_STEPS = 2.0 * STEPS
_DEVIATION_SCALE = EXCESS_WEIGHT / _HALF_STEPS
#: Factors by which mean and variance are multiplied before costs are computed. They are powers of 2, so
#: scaling is exact.
MEAN_SCALE, VARIANCE_SCALE = STEPS * _DEVIATION_SCALE, _DEVIATION_SCALE * _DEVIATION_SCALE


@cache
def _scale_excess() -> FloatArray:
    """Return G at the grid points, in half steps."""
    excess = get_normal_table().excess * _HALF_STEPS
    excess.flags.writeable = False
    return excess


@cache
def build_cost_function() -> Callable[[float, float], float]:
    """Return the cost of one node as a function of scaled mean and variance.

    All clusters share the function, because its lists take half a megabyte.
    """
    table = get_normal_table()
    distribution: list[float] = table.distribution.tolist()
    growth: list[float] = table.step.tolist()
    excess: list[float] = _scale_excess().tolist()

    def cost(mean: float, variance: float) -> float:
        deviation = sqrt(variance)
        position = mean / deviation + _ZERO
        index = LAST if position >= _LAST else floor(position)
        remainder = position - index
        if index < 0:
            index = 0
        at_point = distribution[index]
        hot = growth[index] * remainder + at_point
        return ((at_point + hot) * remainder + excess[index]) * deviation + hot

    return cost


class CostArrays:
    """Costs of many nodes at once. Working arrays are reused: allocating takes longer than computing."""

    def __init__(self) -> None:
        self._table, self._excess = get_normal_table(), _scale_excess()
        self._allocate((0,))

    def compute(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the costs of nodes, in an array that the next call overwrites.

        Args:
            mean: mu / C - h of each node, scaled; of any shape.
            variance: var / C^2 + 0.02^2 of each node, scaled, of the same shape; overwritten.
        """
        if self._index.shape != mean.shape:
            self._allocate(mean.shape)
        index = self._index
        remainder, point, hot = self._work
        deviation = np.sqrt(variance, out=variance)
        np.divide(mean, deviation, out=remainder)
        remainder += self._zero
        np.minimum(remainder, self._last, out=point)
        np.floor(point, out=point)
        index[...] = point
        remainder -= point
        self._table.step.take(index, None, hot, "clip")
        hot *= remainder
        self._table.distribution.take(index, None, self._distribution, "clip")
        hot += self._distribution
        np.add(self._distribution, hot, out=point)
        point *= remainder
        self._excess.take(index, None, remainder, "clip")
        point += remainder
        point *= deviation
        point += hot
        return point

    def _allocate(self, shape: tuple[int, ...]) -> None:
        self._work: tuple[FloatArray, ...] = tuple(np.empty((3, *shape)))
        # An array, because comparing with a number takes numpy twice as long.
        self._last: FloatArray = np.full(shape, _LAST)
        self._zero: FloatArray = np.array(_ZERO)
        self._index: Any = np.empty(shape, dtype=np.intp)
        self._distribution: FloatArray = np.empty(shape)
