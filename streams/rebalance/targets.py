"""Which targets can run a pod, and their room while moves are planned.

`Fit` is nodeFit, computed once per group of equal pods: required node affinity, node selector and taints
by placement's filters, and requests against free room, including moves that the round has planned.

`Targets` has room by usage. By loadstream's rules, the room of a target is its high limit minus its usage,
minus the usage that recently placed pods and reservations are expected to add. Each planned move uses room,
so moves do not bring a target above a high threshold, neither that of the node nor that of its prod pods.
The target with the most room is chosen: its scarcest resource has the largest share of capacity left.

By Koordinator's rules, the first target that fits is chosen, nodes below both low thresholds come last,
and a phase uses only its own room (docs/reference/upstream.md B4.4, B5.5).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from streams.placement.filters.node_affinity import parse_required_affinity
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import Filter
from streams.pods.held import HeldPod
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns
from streams.rebalance.differences import Differences
from streams.stage.arrays import BoolArray, FloatArray, IntArray


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
        affinity, tolerations = parse_required_affinity(held.pod), Tolerations(held.pod.tolerations)
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


class Targets:
    """Room on the targets of one pool; positions are those of the arrays."""

    def __init__(
        self,
        differences: Differences,
        room: IntArray,
        prod_room: IntArray | None,
        capacity: IntArray,
        watched: Sequence[bool],
    ) -> None:
        """Start with the room before the round; planned moves change the arrays.

        Args:
            differences: rules.
            room: room of the targets, may be negative; shape (resources, targets).
            prod_room: room for prod pods; None without thresholds for prod pods.
            capacity: capacity of the targets, same shape.
            watched: whether each resource has a high threshold for the whole node.
        """
        self._planned = differences.planned_targets
        self._room, self._prod_room = room, prod_room
        self._watched = [index for index, is_watched in enumerate(watched) if is_watched]
        self._capacity = capacity
        share = np.full(room.shape, np.inf)
        np.divide(room, capacity, out=share, where=capacity > 0)
        self._shares: FloatArray = share[self._watched].min(axis=0, initial=np.inf)
        """Share of capacity left of the scarcest resource, shape (targets,)."""

    def find_target(
        self,
        amounts: Sequence[int],
        group: TargetGroup,
        phase: Phase,
        *,
        prod: bool,
        avoided: Collection[int] = (),
    ) -> int | None:
        """Return the position of the target for a pod, without `avoided` positions; None if there is none."""
        rooms = self._rooms(phase, prod)
        if self._planned and not avoided and group.mask.size:
            # Most pods fit on the target with the most room, so try it first.
            best = int(np.where(group.mask, self._shares, -np.inf).argmax())
            if self._fits(best, amounts, rooms) and group.fits(best):
                return best
        able: BoolArray = group.fitting()
        for room in rooms:
            for free, amount in zip(room, amounts, strict=True):
                able &= free >= amount
        if avoided:
            able[list(avoided)] = False
        if not able.any():
            return None
        return int(
            np.where(able, self._shares, -np.inf).argmax() if self._planned else able.argmax()
        )

    def take(
        self, position: int, amounts: Sequence[int], group: TargetGroup, phase: Phase, *, prod: bool
    ) -> None:
        """Use the room of a target for a pod."""
        for room in self._rooms(phase, prod):
            for free, amount in zip(room, amounts, strict=True):
                free[position] -= amount
        if self._planned:
            shares = [
                self._room.item(index, position) / self._capacity.item(index, position)
                for index in self._watched
                if self._capacity.item(index, position) > 0
            ]
            self._shares[position] = min(shares, default=np.inf)
            group.take(position)

    def _rooms(self, phase: Phase, prod: bool) -> list[IntArray]:
        of_prod = [] if self._prod_room is None else [self._prod_room]
        if self._planned:
            return [self._room, *of_prod] if prod else [self._room]
        return [self._room] if phase == "node" else of_prod

    @staticmethod
    def _fits(position: int, amounts: Sequence[int], rooms: list[IntArray]) -> bool:
        return all(
            free.item(position) >= amount
            for room in rooms
            for free, amount in zip(room, amounts, strict=True)
        )
