"""Rounds by thresholds: which pods leave, and which gates stop them."""

from typing import Any

import pytest

from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.rebalance.candidates import Gate
from tests.streams.builders import BY_THRESHOLDS, pod
from tests.streams.world import PERCENT, RoundWorld, add_targets, hot_world


def test_a_pod_moves_from_a_hot_node_to_a_calm_one_with_a_reason() -> None:
    world = hot_world()
    assert world.round() == ["a hot->calm"]
    (move,) = world.outcome.moves
    assert move.reason == "node is overutilized, node cpu usage(75.00%)>threshold(70.00%)"
    assert move.usage == {"cpu": 1_500, "memory": 0, "pods": 1}
    assert world.pool.class_counts | {"high": 1, "low": 1} == world.pool.class_counts
    assert world.hot("hot").end_reason == ""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"priority": 5_500}, {"priority": 9_500}),
        ({"priority": 9_100}, {"priority": 9_500}),
        ({"qos_class": "Burstable"}, {"qos_class": "Guaranteed"}),
        (
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}},
            {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "0"}},
        ),
        ({}, {"annotations": {"scheduling.koordinator.sh/eviction-cost": "7"}}),
        ({"created_at_ms": 1_750_000_000_001}, {"created_at_ms": 1_750_000_000_000}),
        ({}, {}),
    ],
)
def test_pods_leave_in_the_order_of_their_keys(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    world = RoundWorld()
    world.node("hot", system=45)
    # The other one comes first and is measured first, and uses as much.
    world.pod("b", "hot", 15, **second)
    world.pod("a", "hot", 15, **first)
    add_targets(world, ["calm"])
    assert world.round() == ["a hot->calm"]


def test_pods_that_cannot_help_or_are_unmeasured_stay() -> None:
    world = hot_world()
    world.pod("idle", "hot", usage={"cpu": 0, "memory": 5}, priority=5_500)
    world.pod("unmeasured", "hot", None, priority=5_500)
    world.pod("partly", "hot", usage={"memory": 5}, priority=5_500)
    world.pod("terminating", "hot", 0, priority=5_500, deleting_at_ms=world.now_ms + 600_000)
    assert world.round() == ["a hot->calm"]
    assert world.gates("hot") == {
        "idle": "uninvolved",
        "unmeasured": "unmeasured",
        "partly": "unmeasured",
        "terminating": "leaving",
        "a": "",
    }


def test_a_pod_that_leaves_already_counts_as_gone() -> None:
    world = RoundWorld()
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    world.pod("b", "hot", 15)
    add_targets(world, ["calm"])
    assert world.round(leaving=["b"]) == ["a hot->calm"]
    world.pod("c", "hot", 0)
    world.system["hot"] = {"cpu": 50 * PERCENT, "memory": 0}
    assert world.round(leaving=["b"]) == []
    assert (
        world.hot("hot").end_reason
        == "pods that are already leaving bring the node below its thresholds"
    )


def test_reservations_are_not_counted_as_prod_pods() -> None:
    world = RoundWorld(
        BY_THRESHOLDS + "  prodHighThresholds: {pods: 4}\n  prodLowThresholds: {pods: 3}"
    )
    world.node("few", system=5)
    world.pod("a", "few", 1)
    for number in range(5):
        reserved = pod(f"r{number}")
        held = HeldPod(reserved, kind_of(reserved), 0, "d" * 8, 9)
        world.inventory.hold("few", held, first_seen=True)
    world.round()
    assert world.pool.class_counts["bothLow"] == 1
    assert world.pool.readings is not None
    readings = world.pool.readings.find_readings("few", "prod")
    assert readings is not None
    assert readings.used == {"pods": 1}


def test_reservations_are_no_candidates() -> None:
    world = hot_world()
    world.gone("a")
    world.system["hot"] = {"cpu": 80 * PERCENT, "memory": 0}
    reserved = pod("r")
    world.inventory.hold(
        "hot", HeldPod(reserved, kind_of(reserved), 0, "d" * 8, 9), first_seen=True
    )
    assert world.round() == []
    assert world.hot("hot").checked == 0


@pytest.mark.parametrize(
    ("more", "gate"),
    [
        ("  evictableNamespaces: {include: [other]}", "namespaces"),
        ("  evictableNamespaces: {exclude: [default]}", "namespaces"),
        ("  podSelectors: [{name: x, selector: {matchLabels: {app: web}}}]", "selectors"),
    ],
)
def test_pods_excluded_by_the_policy_stay(more: str, gate: str) -> None:
    world = hot_world(BY_THRESHOLDS + more)
    assert world.round() == []
    assert world.gates("hot") == {"a": gate}
    assert world.hot("hot").end_reason == "no other pod may leave"


def test_the_first_gate_that_stops_a_pod_is_reported() -> None:
    world = hot_world()
    assert world.round(explain_protection=lambda held: f"{held.pod.name} is a bare pod") == []
    (verdict,) = world.hot("hot").pods
    assert (verdict.gate, verdict.message) == ("filter", "a is a bare pod")
    assert world.round(gate=lambda candidate: f"not to {candidate.target}") == []
    (verdict,) = world.hot("hot").pods
    assert (verdict.gate, verdict.message) == ("gate", "not to calm")
    # Gates that do not depend on the target are checked before the target search.
    assert world.round(check_pod=lambda held, node: Gate("Any", f"not from {node}")) == []
    (verdict,) = world.hot("hot").pods
    assert (verdict.gate, verdict.message, verdict.target) == ("gate", "not from hot", None)


def test_a_pod_moves_to_the_best_target_that_its_owner_does_not_avoid() -> None:
    world = hot_world()
    world.node("second", system=10)
    assert world.round() == ["a hot->calm"]
    world.avoid(["calm"])
    assert world.round() == ["a hot->second"]
    world.avoid(["second"])
    assert world.round() == []
    assert world.gates("hot") == {"a": "room"}


def test_a_gate_may_end_the_node_or_the_round() -> None:
    world = RoundWorld()
    for name in ("a", "b"):
        world.node(name, system=50)
        for number in range(3):
            world.pod(f"{name}{number}", name, 15)
    add_targets(world, ["calm"], system=0)
    assert world.round(gate=lambda candidate: Gate("Any", "enough of it", "node")) == []
    assert [(hot.checked, hot.end_reason) for hot in world.pool.hot] == [(1, "enough of it")] * 2
    assert world.round(gate=lambda candidate: Gate("Any", "end", "round")) == []
    assert [(hot.checked, hot.end_reason) for hot in world.pool.hot] == [(1, "end"), (0, "end")]


def test_pods_that_prefer_no_eviction_leave_last() -> None:
    reluctant = {"annotations": {"descheduler.alpha.kubernetes.io/prefer-no-eviction": "true"}}
    for policy, first in (("Preferred", "b"), ("Mandatory", "a")):
        world = RoundWorld(f"{BY_THRESHOLDS}\nevictor: {{noEvictionPolicy: {policy}}}\n")
        world.node("hot", system=45)
        world.pod("a", "hot", 15, priority=5_500, **reluctant)
        world.pod("b", "hot", 15, priority=9_500)
        add_targets(world, ["calm"])
        assert world.round() == [f"{first} hot->calm"]
