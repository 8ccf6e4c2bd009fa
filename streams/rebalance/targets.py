"""Who can take a pod, and how much room is left there as the round's moves are planned.

A target's room is its high limit less what it uses and less what pods that were placed there lately
are expected to add, reservations of migrations under way included; each planned move takes its
pod's usage away. By the plan's own numbers no target ever passes its high threshold: neither the
whole node's, nor, where prod pods are judged by themselves, that of its prod pods.

The target with the most room is taken: the one whose scarcest resource has the largest share of its
capacity left; equal ones by name. Room only shrinks, so a heap of old shares is enough: what comes
up is looked at again and sinks if it has shrunk. Pods that ask for the same share a group (`fit`).
"""

import heapq
from collections.abc import Collection, Sequence

import numpy as np

from streams.inventory.arrays import FloatArray, IntArray
from streams.rebalance.fit import Group

#: Targets that are looked at one by one, best first, before all are looked at at once.
_TRIES = 16
_ALL = float("inf")
#: Sets of amounts that are remembered as too large for every target.
_FAILURES_MAX = 64


class Targets:
    """Room on the targets of one pool; positions are those of the arrays given."""

    def __init__(
        self,
        room: IntArray,
        prod_room: IntArray | None,
        capacity: IntArray,
        watched: Sequence[bool],
    ) -> None:
        """Start with all room there is.

        Args:
            room: what may still be used, shape (resources, targets); negative where too much is.
            prod_room: the same for prod pods; none: they are not judged by themselves.
            capacity: what shares are of, same shape.
            watched: resources that have a high threshold of the whole node.
        """
        self.first_room = room
        self.first_prod_room = prod_room
        self._room = room.copy()
        self._prod_room = None if prod_room is None else prod_room.copy()
        self._changed: list[int] = []
        """Targets whose column of the arrays is behind."""
        self._room_by_target: list[list[int]] = room.T.tolist()
        self._prod_room_by_target: list[list[int]] | None = (
            None if prod_room is None else prod_room.T.tolist()
        )
        share = np.full(room.shape, np.inf)
        np.divide(room, capacity, out=share, where=capacity > 0)
        share[[not each for each in watched]] = np.inf
        keys: FloatArray = share.min(axis=0) if share.size else np.zeros(room.shape[1])
        self._keys: list[float] = keys.tolist()
        self._capacities: list[list[int]] = capacity.T.tolist()
        self._watched = [index for index, each in enumerate(watched) if each]
        self._heaps: dict[bytes, list[tuple[float, int]]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def find(
        self,
        amounts: list[int],
        group: Group,
        *,
        prod: bool,
        avoided: Collection[int] = (),
    ) -> int | None:
        """The target with the most room among those that can take a pod.

        Args:
            amounts: what the pod uses, per resource.
            group: pods that ask for the same.
            prod: its usage counts as that of prod pods.
            avoided: targets that are not for this pod.
        """
        failures = group.failures[prod]
        for failed in failures:
            if all(map(int.__ge__, amounts, failed)):
                return None
        heap = self._heap(group) if group.heap is None else group.heap
        keys, room_by_target = self._keys, self._room_by_target
        aside: list[tuple[float, int]] = []
        found = None
        while heap and len(aside) < _TRIES:
            negative, position = heap[0]
            now = -keys[position]
            if now != negative:
                heapq.heapreplace(heap, (now, position))
            elif (
                all(map(int.__ge__, room_by_target[position], amounts))
                and position not in avoided
                and group.fits(position)
                and (not prod or self._takes_prod(position, amounts))
            ):
                found = position
                break
            else:
                aside.append(heapq.heappop(heap))
        exhausted = not heap
        for entry in aside:
            heapq.heappush(heap, entry)
        if found is None and not exhausted:
            found = self._scan(amounts, group, prod=prod, avoided=avoided)
        if found is None and not avoided and len(failures) < _FAILURES_MAX:
            failures.append(amounts)
        return found

    def take(self, position: int, amounts: list[int], group: Group, *, prod: bool) -> None:
        """A pod moves to a target."""
        self._changed.append(position)
        room = self._room_by_target[position]
        for index, amount in enumerate(amounts):
            room[index] -= amount
        if prod and self._prod_room_by_target is not None:
            prod_room = self._prod_room_by_target[position]
            for index, amount in enumerate(amounts):
                prod_room[index] -= amount
        capacity = self._capacities[position]
        shares = [room[index] / capacity[index] for index in self._watched if capacity[index]]
        self._keys[position] = min(shares, default=_ALL)
        group.take(position)

    def ever(self, amounts: list[int], group: Group, *, prod: bool) -> bool:
        """Whether some target could have taken the pod before the round's first move."""
        able = group.fitting_first() & _covers(self.first_room, amounts)
        if prod and self.first_prod_room is not None:
            able &= _covers(self.first_prod_room, amounts)
        return bool(able.any())

    def most_room(self, group: Group, *, prod: bool) -> list[int]:
        """The most room that any one target of a group had before the first move, per resource; for
        prod pods as far as prod pods have it, too."""
        room = self.first_room[:, group.mask]
        if prod and self.first_prod_room is not None:
            room = np.minimum(room, self.first_prod_room[:, group.mask])
        return np.maximum(room.max(axis=1, initial=0), 0).tolist() if room.size else []

    def _takes_prod(self, position: int, amounts: list[int]) -> bool:
        room_by_target = self._prod_room_by_target
        return room_by_target is None or all(map(int.__ge__, room_by_target[position], amounts))

    def _scan(
        self, amounts: list[int], group: Group, *, prod: bool, avoided: Collection[int]
    ) -> int | None:
        for position in self._changed:
            self._room[:, position] = self._room_by_target[position]
            if self._prod_room_by_target is not None and self._prod_room is not None:
                self._prod_room[:, position] = self._prod_room_by_target[position]
        self._changed.clear()
        able = group.fitting() & _covers(self._room, amounts)
        if prod and self._prod_room is not None:
            able &= _covers(self._prod_room, amounts)
        able[list(avoided)] = False
        positions = np.flatnonzero(able).tolist()
        return min(positions, key=lambda position: (-self._keys[position], position), default=None)

    def _heap(self, group: Group) -> list[tuple[float, int]]:
        heap = self._heaps.get(group.places)
        if heap is None:
            keys = self._keys
            heap = [(-keys[position], position) for position in np.flatnonzero(group.mask).tolist()]
            heapq.heapify(heap)
            self._heaps[group.places] = heap
        group.heap = heap
        return heap


def _covers(room: IntArray, amounts: list[int]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    able = room[0] >= amounts[0] if len(amounts) else np.ones(room.shape[1], dtype=np.bool_)
    for index in range(1, len(amounts)):
        able &= room[index] >= amounts[index]
    return able
