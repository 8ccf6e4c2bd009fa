"""Which targets can run a pod, and their room while moves are planned.

`Fit` checks nodeFit once per group of equal pods: placement's filters for required node affinity, node
selector and taints, and the pod's requests against the free amounts of the targets.

`Targets` checks room by usage. By loadstream's rules, the room of a target is its high limit minus its
usage, minus the usage that recently placed pods and reservations are expected to add. Planned moves use
room, so they do not bring a target above the high thresholds of the node or of its prod pods. A pod moves to
the target with the most room: its scarcest resource has the largest share of capacity left.

By Koordinator's rules, a pod moves to the first target that fits, nodes below both low thresholds come
last, and each phase has separate room (docs/reference/upstream.md B4, B5).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from streams.placement.filters.node_affinity import parse_required_affinity
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import Filter
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Phase
from streams.rebalance.columns import Columns
from streams.rebalance.differences import Differences
from streams.stage.arrays import BoolArray, FloatArray, IntArray


class PodGroup:
    """Pods with equal requests and the same eligible targets."""

    def __init__(self, mask: BoolArray, requests: Sequence[tuple[int, IntArray]]) -> None:
        """`requests` has the requested amount and the free amounts of the targets, per resource."""
        self.mask, self._requests = mask, requests

    def find_fitting(self) -> BoolArray:
        """Return the targets that can run one more of the pods, shape (targets,)."""
        mask = self.mask.copy()
        for amount, free in self._requests:
            mask &= free >= amount
        return mask

    def fits(self, position: int) -> bool:
        return bool(self.mask[position]) and all(
            free.item(position) >= amount for amount, free in self._requests
        )

    def use_room(self, position: int) -> None:
        """Subtract the requests of one pod from the free amounts of a target."""
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
        follows_koordinator: bool = False,
    ) -> None:
        """Start without groups.

        Args:
            columns: figures of all nodes.
            rows: rows of the targets in the columns.
            allowed: mask of the targets of each phase, shape (targets,).
            node_fit: whether filters and requests are checked.
            follows_koordinator: compare requests of 0 too, and not the number of pods.
        """
        self._columns, self._rows = columns, rows
        self._allowed, self._node_fit = allowed, node_fit
        self._follows_koordinator = follows_koordinator
        self._free: dict[str, IntArray] = {}
        """Free amounts of the targets by resource, minus planned moves; shape (targets,)."""
        self._groups: dict[tuple[Phase, int, int, int, int], PodGroup] = {}
        self._units = 0
        self._kept_alive: list[HeldPod] = []
        """Pods that are kept alive, because keys of `_groups` have ids of their objects."""

    def find_group(self, held: HeldPod, phase: Phase) -> PodGroup:
        """Return the group of a pod. The key has identities of objects that pods of one kind share."""
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
            group = self._groups[key] = self._make_group(held, phase)
            self._kept_alive.append(held)
        return group

    def take_units(self) -> int:
        """Return the cost of expensive groups since the last call, in units of 0.2 ms."""
        units, self._units = self._units, 0
        return units

    def _make_group(self, held: HeldPod, phase: Phase) -> PodGroup:
        if not self._node_fit:
            return PodGroup(self._allowed[phase], ())
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
        if not self._follows_koordinator:
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
        return PodGroup(mask, needed)


class Targets:
    """Room on the targets of one pool; positions are those of the arrays."""

    def __init__(
        self,
        differences: Differences,
        room: dict[Phase, IntArray],
        capacity: IntArray,
        limited: Sequence[bool],
    ) -> None:
        """Start with the room before the round; planned moves change the arrays.

        Args:
            differences: rules.
            room: room of the targets, which may be negative, shape (resources, targets). By loadstream's
                rules, "prod" has the room for prod pods, if they have thresholds.
            capacity: capacity of the targets, same shape.
            limited: whether each resource has a high threshold for the whole node.
        """
        self._plans_targets = differences.planned_targets
        self.room = room
        self._limited = [index for index, is_limited in enumerate(limited) if is_limited]
        self._capacity = capacity
        share = np.full(capacity.shape, np.inf)
        np.divide(room["node"], capacity, out=share, where=capacity > 0)
        self._shares: FloatArray = share[self._limited].min(axis=0, initial=np.inf)
        """Share of capacity left of the scarcest resource, shape (targets,)."""

    def find_target(
        self,
        amounts: Sequence[int],
        group: PodGroup,
        phase: Phase,
        *,
        prod: bool,
        avoided: Collection[int] = (),
    ) -> int | None:
        """Return the position of a target that is not `avoided` for a pod; None if there is none."""
        rooms = self._list_rooms(phase, prod)
        if self._plans_targets and not avoided and group.mask.size:
            # Most pods fit on the target with the most room, so try it first.
            best = int(np.where(group.mask, self._shares, -np.inf).argmax())
            if self._fits(best, amounts, rooms) and group.fits(best):
                return best
        mask: BoolArray = group.find_fitting()
        for room in rooms:
            for free, amount in zip(room, amounts, strict=True):
                mask &= free >= amount
        if avoided:
            mask[list(avoided)] = False
        if not mask.any():
            return None
        return int(
            np.where(mask, self._shares, -np.inf).argmax() if self._plans_targets else mask.argmax()
        )

    def use_room(
        self, position: int, amounts: Sequence[int], group: PodGroup, phase: Phase, *, prod: bool
    ) -> None:
        """Subtract the usage of a pod from the room of a target."""
        for room in self._list_rooms(phase, prod):
            for free, amount in zip(room, amounts, strict=True):
                free[position] -= amount
        if self._plans_targets:
            shares = [
                self.room["node"].item(index, position) / self._capacity.item(index, position)
                for index in self._limited
                if self._capacity.item(index, position) > 0
            ]
            self._shares[position] = min(shares, default=np.inf)
            group.use_room(position)

    def _list_rooms(self, phase: Phase, prod: bool) -> list[IntArray]:
        if not self._plans_targets:
            return [self.room[phase]]
        return [room for name, room in self.room.items() if prod or name == "node"]

    @staticmethod
    def _fits(position: int, amounts: Sequence[int], rooms: list[IntArray]) -> bool:
        return all(
            free.item(position) >= amount
            for room in rooms
            for free, amount in zip(room, amounts, strict=True)
        )
