"""How the measured nodes of a pool stand in a round: usage against the high thresholds in force."""

from collections.abc import Sequence

import numpy as np

from streams.inventory.arrays import IntArray
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns
from streams.rebalance.outcome import NodeStanding, Thresholds
from streams.rebalance.pools import UNLIMITED, Limits, PoolNodes


class PoolReadings:
    """Readings of a pool's nodes; positions are those of `PoolNodes`.

    A round's record asks for them after the round, so they know nothing of the turn that they come
    from, which holds the outcome.
    """

    def __init__(
        self,
        columns: Columns,
        nodes: PoolNodes,
        thresholds: Thresholds,
        limits: Limits,
    ) -> None:
        self._columns, self._nodes = columns, nodes
        self._thresholds, self._limits = thresholds, limits

    def used(self, phase: Phase) -> IntArray:
        """What a phase is about, shape (resources, nodes)."""
        return self._nodes.usage if phase == "node" else self._nodes.prod_usage

    def high(self, phase: Phase) -> IntArray:
        """The most that may be used in a phase."""
        if phase == "node" or self._limits.prod_high is None:
            return self._limits.high
        return self._limits.prod_high

    def percents(
        self, limits: Sequence[int], capacity: Sequence[int], phase: Phase
    ) -> Sequence[float]:
        """The thresholds in force of a node; by deviation the percentages that they come to."""
        if self._thresholds.deviation:
            return [
                100 * limit / total if total else 0.0
                for limit, total in zip(limits, capacity, strict=True)
            ]
        given = self._thresholds.high if phase == "node" else self._thresholds.prod_high
        return [given.get(name, 0.0) for name in self._nodes.resources]

    def position(self, name: str) -> int | None:
        """Position of a node among the measured ones of the pool."""
        row = self._columns.row(name)
        rows = self._nodes.rows
        place = rows.size if row is None else int(np.searchsorted(rows, row))
        return place if place < rows.size and int(rows[place]) == row else None

    def named(self, name: str, phase: Phase) -> NodeStanding | None:
        """How a node stands; None: it is not of the pool or was not measured."""
        position = self.position(name)
        if position is None:
            return None
        if phase == "prod" and self._limits.prod_high is None:
            return NodeStanding({}, {}, {})
        return self.of(
            self.used(phase)[:, position].tolist(),
            self.high(phase)[:, position].tolist(),
            self._nodes.capacity[:, position].tolist(),
        )

    def of(
        self, used: Sequence[int], limits: Sequence[int], capacity: Sequence[int]
    ) -> NodeStanding:
        """How a node of these figures stands."""
        which = [index for index, limit in enumerate(limits) if limit < UNLIMITED]
        names = self._nodes.resources
        return NodeStanding(
            used={names[index]: used[index] for index in which},
            limit={names[index]: limits[index] for index in which},
            capacity={names[index]: capacity[index] for index in which},
        )
