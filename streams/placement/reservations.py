"""Expiry of reservations: room that a decision reserved and that nobody has confirmed in time.

Only the end times are kept here. The node tells whether the reservation of a decision still exists.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.pods.held import HeldPod


class _End(NamedTuple):
    """End of a reservation; it counts only if the pod is still held by the same decision."""

    at_ms: int
    uid: str
    decision_id: str


class Reservations:
    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._ends: list[_End] = []

    def add(self, held: HeldPod) -> None:
        """Remember when a pod's reservation ends, unless it is confirmed."""
        if held.expires_at_ms is not None and held.decision_id is not None:
            heapq.heappush(self._ends, _End(held.expires_at_ms, held.pod.uid, held.decision_id))

    def pop_expired(self, now_ms: int) -> Iterator[tuple[Node, HeldPod]]:
        """Yield expired reservations once each, the earliest first."""
        while self._ends and self._ends[0].at_ms <= now_ms:
            end = heapq.heappop(self._ends)
            node_and_held = self._inventory.find_held(end.uid)
            if node_and_held is None:
                continue
            held = node_and_held[1]
            if held.decision_id == end.decision_id and held.expires_at_ms is not None:
                yield node_and_held
