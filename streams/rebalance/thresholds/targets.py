"""Room on the nodes that can take a pool's pods, as the round's moves are planned.

The room of a target is its high limit less what it uses, and, by our rules, less what pods that
were placed there lately are expected to add, reservations of migrations under way included. Each
planned move takes its pod's usage away, so by the plan's own numbers no target passes a high
threshold, neither that of the whole node nor that of its prod pods. The target with the most room
is taken: the one whose scarcest resource has the largest share of its capacity left; equal ones by
name.

By Koordinator's rules the first target that fits is taken, those below both low thresholds last,
and a phase looks only at the room that it is about (docs/reference/upstream.md B4.4, B5.5).
"""

from collections.abc import Collection, Sequence

import numpy as np

from streams.rebalance.candidates import Phase
from streams.rebalance.differences import Differences
from streams.rebalance.fit import TargetGroup
from streams.stage.arrays import BoolArray, FloatArray, IntArray


class Targets:
    """Room on the targets of one pool; positions are those of the arrays given."""

    def __init__(
        self,
        differences: Differences,
        room: IntArray,
        prod_room: IntArray | None,
        capacity: IntArray,
        watched: Sequence[bool],
    ) -> None:
        """Start with all room there is; the arrays are changed by moves.

        Args:
            differences: rules.
            room: what may still be used, shape (resources, targets); negative where too much is.
            prod_room: the same for prod pods; None: they are not judged by themselves.
            capacity: what shares are of, same shape.
            watched: resources that have a high threshold of the whole node.
        """
        self._planned = differences.planned_targets
        self._room, self._prod_room = room, prod_room
        self._watched = [index for index, each in enumerate(watched) if each]
        self._capacity = capacity
        share = np.full(room.shape, np.inf)
        np.divide(room, capacity, out=share, where=capacity > 0)
        self._shares: FloatArray = share[self._watched].min(axis=0, initial=np.inf)
        """Share of its capacity that the scarcest resource has left, shape (targets,)."""

    def find(
        self,
        amounts: Sequence[int],
        group: TargetGroup,
        phase: Phase,
        *,
        prod: bool,
        avoided: Collection[int] = (),
    ) -> int | None:
        """The target that a pod would be planned onto; None: none can take it.

        Args:
            amounts: what the pod uses, per resource.
            group: pods that ask for the same.
            phase: whose pods are looked at.
            prod: it is a prod pod.
            avoided: targets that are not for this pod.
        """
        rooms = self._rooms(phase, prod)
        if self._planned and not avoided and group.mask.size:
            # Most pods fit onto the target with the most room: no other need be looked at.
            best = int(np.where(group.mask, self._shares, -np.inf).argmax())
            if self._fits(best, amounts, rooms) and group.fits(best):
                return best
        able: BoolArray = group.fitting()
        for room in rooms:
            for left, amount in zip(room, amounts, strict=True):
                able &= left >= amount
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
        """A pod takes room on a target."""
        for room in self._rooms(phase, prod):
            for left, amount in zip(room, amounts, strict=True):
                left[position] -= amount
        if self._planned:
            shares = [
                self._room.item(index, position) / self._capacity.item(index, position)
                for index in self._watched
                if self._capacity.item(index, position) > 0
            ]
            self._shares[position] = min(shares, default=np.inf)
            group.take(position)

    def _rooms(self, phase: Phase, prod: bool) -> list[IntArray]:
        """What a pod must fit into, and takes from."""
        of_prod = [] if self._prod_room is None else [self._prod_room]
        if self._planned:
            return [self._room, *of_prod] if prod else [self._room]
        return [self._room] if phase == "node" else of_prod

    @staticmethod
    def _fits(position: int, amounts: Sequence[int], rooms: list[IntArray]) -> bool:
        return all(
            left.item(position) >= amount
            for room in rooms
            for left, amount in zip(room, amounts, strict=True)
        )
