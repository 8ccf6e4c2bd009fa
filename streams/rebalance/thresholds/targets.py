"""Room on the target nodes of a pool while moves are planned.

By loadstream's rules, the room of a target is its high limit minus its usage, minus the usage that
recently placed pods and reservations are expected to add. Each planned move uses room, so moves do not
bring a target above a high threshold, neither that of the node nor that of its prod pods. The target
with the most room is chosen: its scarcest resource has the largest share of capacity left.

By Koordinator's rules, the first target that fits is chosen, nodes below both low thresholds come last,
and a phase uses only its own room (docs/reference/upstream.md B4.4, B5.5).
"""

from collections.abc import Collection, Sequence

import numpy as np

from streams.rebalance.candidates import Phase
from streams.rebalance.differences import Differences
from streams.rebalance.fit import TargetGroup
from streams.stage.arrays import BoolArray, FloatArray, IntArray


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
