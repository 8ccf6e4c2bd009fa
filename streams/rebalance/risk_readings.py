"""How nodes stand in a round by risk: what was measured, against the shares from which they are hot."""

from collections.abc import Sequence

from schemas.policy.overutilization import RiskResource
from streams.inventory.arrays import IntArray
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns
from streams.rebalance.outcome import NodeStanding


class RiskReadings:
    """Readings of the nodes that one round looks at; positions are those of their rows."""

    def __init__(self, columns: Columns, rows: IntArray, resources: Sequence[RiskResource]) -> None:
        """`rows` are those of nodes whose metric says something of all resources."""
        self.names: list[str] = columns.names[rows].tolist()
        self.place = {name: place for place, name in enumerate(self.names)}
        """Position by name."""
        self._resources = resources
        which = [columns.universe.index[each.name] for each in resources]
        self._used = columns.usage[which][:, rows]
        self._capacity = columns.capacity[which][:, rows]

    def of(self, place: int) -> NodeStanding:
        """How a node stands."""
        used, limit, capacity = {}, {}, {}
        for index, each in enumerate(self._resources):
            used[each.name] = int(self._used[index, place])
            whole = capacity[each.name] = int(self._capacity[index, place])
            limit[each.name] = each.percent * whole // 100
        return NodeStanding(used, limit, capacity)

    def named(self, name: str, phase: Phase) -> NodeStanding | None:
        """How a node stands; none: it was not measured, or its prod pods alone are meant."""
        place = self.place.get(name)
        return None if place is None or phase != "node" else self.of(place)
