from typing import Any

from schemas.policy import read_policy
from streams.inventory.inventory import Inventory
from streams.placement.reservations import Reservations
from streams.pods.demand import compute_demand
from streams.pods.held import HeldPod
from tests.streams.builders import node, pod


class World:
    """An inventory of one node, and its reservations."""

    def __init__(self) -> None:
        self.inventory = Inventory(read_policy(""))
        self.inventory.apply_node(node())
        self.reservations = Reservations(self.inventory)

    def reserve(self, uid: str, until_ms: int | None, decision: str | None = "decision-1") -> None:
        of = pod(uid)
        held = HeldPod(of, compute_demand(of), 0, decision_id=decision, expires_at_ms=until_ms)
        self.inventory.release(uid)
        self.inventory.hold("node-1", held, first_seen=True)
        self.reservations.add(held)

    def over(self, now_ms: int) -> list[Any]:
        return [held.pod.uid for _, held in self.reservations.pop_expired(now_ms)]


def test_reservations_end_in_the_order_of_their_time_and_once() -> None:
    world = World()
    for uid, until_ms in (("c", 30), ("b", 20), ("a", 20)):
        world.reserve(uid, until_ms)
    assert world.over(19) == []
    assert world.over(20) == ["a", "b"]
    assert world.over(20) == []
    assert world.over(99) == ["c"]


def test_a_reservation_that_was_given_up_or_confirmed_does_not_end() -> None:
    world = World()
    for uid in "abc":
        world.reserve(uid, 20)
    world.inventory.release("a")
    world.inventory.set_expiry("b", None)
    assert world.over(20) == ["c"]


def test_an_end_belongs_to_one_decision() -> None:
    world = World()
    world.reserve("a", 20, "decision-1")
    world.reserve("a", 40, "decision-2")
    assert world.over(20) == []
    assert world.over(40) == ["a"]


def test_a_pod_without_a_decision_or_an_end_has_no_reservation() -> None:
    world = World()
    world.reserve("a", None)
    world.reserve("b", 20, None)
    assert world.over(99) == []
