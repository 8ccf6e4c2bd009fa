"""nodeFit: which targets can run a pod, computed once per group of equal pods.

Checks required node affinity, node selector and taints with placement's filters, and requests against
free room, including moves that the round has planned.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from streams.placement.filters.node_affinity import required_affinity
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import Filter
from streams.pods.held import HeldPod
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns
from streams.stage.arrays import BoolArray, IntArray


class TargetGroup:
    """Pods with the same requests that the same targets accept."""

    def __init__(self, mask: BoolArray, requests: Sequence[tuple[int, IntArray]]) -> None:
        """`requests` are amounts, and the free amounts of the targets, which planned moves change."""
        self.mask, self._requests = mask, requests

    def fitting(self) -> BoolArray:
        """Return the targets that can run one more of the pods, shape (targets,)."""
        able = self.mask.copy()
        for amount, free in self._requests:
            able &= free >= amount
        return able

    def fits(self, position: int) -> bool:
        return bool(self.mask[position]) and all(
            free.item(position) >= amount for amount, free in self._requests
        )

    def take(self, position: int) -> None:
        """Use the room of a target for one of the pods."""
        for amount, free in self._requests:
            free[position] -= amount


class Fit:
    """Groups of equal pods, and the targets that can run them."""

    def __init__(
        self,
        columns: Columns,
        rows: IntArray,
        allowed: Mapping[Phase, BoolArray],
        *,
        node_fit: bool = True,
        as_koordinator: bool = False,
    ) -> None:
        """Start without groups, for targets with these rows; `allowed` has those of each phase, shape (targets,).

        `as_koordinator` compares requests of 0 too, and not the number of pods.
        """
        self._columns, self._rows = columns, rows
        self._allowed, self._node_fit, self._as_koordinator = allowed, node_fit, as_koordinator
        self._free: dict[str, IntArray] = {}
        """Free amounts of the targets by resource, less planned moves; shape (targets,)."""
        self._groups: dict[tuple[Phase, int, int, int, int], TargetGroup] = {}
        self._units = 0
        self._kept_alive: list[HeldPod] = []
        """Keeps the objects alive whose ids are in the keys of `_groups`."""

    def group(self, held: HeldPod, phase: Phase) -> TargetGroup:
        """Return the group of a pod; pods of one kind share the objects that the key identifies."""
        pod = held.pod
        key = (phase, 0, 0, 0, 0)
        if self._node_fit:
            key = (
                phase,
                id(held.kind.demand),
                id(pod.node_selector) if pod.node_selector else 0,
                id(pod.required_node_affinity),
                id(pod.tolerations) if pod.tolerations else 0,
            )
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._make(held, phase)
            self._kept_alive.append(held)
        return group

    def take_units(self) -> int:
        """Return the units of 0.2 ms that expensive groups have cost since the last call."""
        units, self._units = self._units, 0
        return units

    def _make(self, held: HeldPod, phase: Phase) -> TargetGroup:
        if not self._node_fit:
            return TargetGroup(self._allowed[phase], ())
        mask = self._allowed[phase].copy()
        affinity, tolerations = required_affinity(held.pod), Tolerations(held.pod.tolerations)
        filters: tuple[tuple[Filter, Any], ...] = (
            (self._columns.affinity, affinity),
            (self._columns.taints, tolerations),
        )
        for plugin, prepared in filters:
            self._units += plugin.count_units(prepared)
            matching = plugin.mask(prepared)
            if matching is not None:
                mask &= matching[self._rows]
        requests = dict(held.kind.demand.requests)
        if not self._as_koordinator:
            requests = {name: amount for name, amount in requests.items() if amount > 0}
            requests["pods"] = 1
        needed: list[tuple[int, IntArray]] = []
        for name, amount in requests.items():
            if name not in self._free:
                column = self._columns.free.get_column(name)
                if column is None:
                    mask &= amount <= 0
                    continue
                self._free[name] = column[self._rows]
            needed.append((amount, self._free[name]))
        return TargetGroup(mask, needed)
