"""Targets of moves by thresholds: room and node fit."""

from typing import Any

import pytest

from schemas.messages.nodes import Taint
from streams.placement.filters.fit import NodeResourcesFit
from streams.stage.arrays import IntArray
from tests.streams.builders import BY_THRESHOLDS, GI, container
from tests.streams.world import PERCENT, RoundWorld, add_targets, hot_world


def test_moves_of_one_round_do_not_pile_up_on_a_target() -> None:
    world = RoundWorld()
    for number in range(4):
        world.node(f"hot-{number}", system=50)
        world.pod(f"p{number}", f"hot-{number}", 25)
    add_targets(world, ["calm-a", "calm-b"], system=20)
    assert world.round() == [
        "p0 hot-0->calm-a", "p1 hot-1->calm-b", "p2 hot-2->calm-a", "p3 hot-3->calm-b",
    ]  # fmt: skip
    world.node("calm-a", system=40)
    world.node("calm-b", system=40)
    assert world.round() == ["p0 hot-0->calm-a", "p1 hot-1->calm-b"]
    assert world.gates("hot-3") == {"p3": "room"}


def test_pods_that_were_placed_lately_take_room_before_they_are_measured() -> None:
    world = hot_world()
    world.node("calm", system=35)
    requests = container({"cpu": "3"}, {"cpu": "3"})
    world.pod("new", "calm", None, containers=(requests,), scheduled_at_ms=world.now_ms + 60_000)
    assert world.round() == []
    assert world.gates("hot") == {"a": "room"}


@pytest.mark.parametrize(
    ("fields", "calm"),
    [
        ({"node_selector": {"zone": "a"}}, {"labels": {"zone": "b"}}),
        ({}, {"taints": (Taint(key="k", effect="NoSchedule"),)}),
        ({"containers": (container({"cpu": "11"}),)}, {}),
        ({"containers": (container({"example.com/gpu": "1"}),)}, {}),
        ({}, {"allocatable": {"cpu": "10", "memory": "32Gi", "pods": "0"}}),
    ],
)
def test_with_node_fit_a_pod_goes_only_where_it_could_run(
    fields: dict[str, Any], calm: dict[str, Any]
) -> None:
    for node_fit in (True, False):
        world = RoundWorld(BY_THRESHOLDS + f"  nodeFit: {str(node_fit).lower()}")
        world.node("hot", system=60)
        world.pod("a", "hot", 15, **fields)
        world.node("calm", **calm)
        assert world.round() == ([] if node_fit else ["a hot->calm"])


@pytest.mark.parametrize(
    ("usage", "memory", "moved"),
    [
        ({"cpu": 1_500}, "16Gi", False),
        ({"cpu": 1_500}, "1Gi", True),
        ({"cpu": 1_500, "memory": 0}, "16Gi", True),
    ],
)
def test_unknown_usage_of_a_pod_counts_on_the_target_by_its_estimate(
    usage: dict[str, int], memory: str, *, moved: bool
) -> None:
    world = RoundWorld(
        "rebalance: {highThresholds: {cpu: 70, memory: 50}, lowThresholds: {cpu: 30, memory: 50}, "
        "anomalyCondition: {consecutiveAbnormalities: 1}}"
    )
    world.node("hot", system=60)
    world.pod("a", "hot", usage=usage, containers=(container({"cpu": "1", "memory": memory}),))
    world.node("calm")
    world.system["calm"]["memory"] = 10 * GI
    assert world.round() == (["a hot->calm"] if moved else [])


def test_resources_that_no_node_has_cost_nothing_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []
    build = NodeResourcesFit._build

    def count(plugin: NodeResourcesFit, name: str) -> IntArray:
        built.append(name)
        return build(plugin, name)

    monkeypatch.setattr(NodeResourcesFit, "_build", count)
    rounds = RoundWorld("compat: koordinator\n" + BY_THRESHOLDS)
    rounds.node("hot", system=60)
    invented = container({"cpu": "100m", **{f"example.com/r{number}": "0" for number in range(50)}})
    rounds.pod("a", "hot", 15, containers=(invented,))
    add_targets(rounds, ["calm"])
    assert rounds.round() == ["a hot->None"]
    assert built == ["cpu"]


@pytest.mark.parametrize("short", ["node", "prod"])
def test_a_pod_that_no_target_could_take_leaves_once_a_target_has_room(
    short: str,
) -> None:
    world = RoundWorld(
        BY_THRESHOLDS + "  prodHighThresholds: {memory: 50}\n  prodLowThresholds: {memory: 40}"
    )
    world.node("hot", system=20)
    world.pod("a", "hot", usage={"cpu": 65 * PERCENT, "memory": 8 * GI})
    world.node("calm", system=20 if short == "node" else 0)
    world.pod("b", "calm", usage={"cpu": 0, "memory": (0 if short == "node" else 10) * GI})
    assert world.round() == []
    assert world.gates("hot") == {"a": "room"}
    assert (
        "none of 1 targets that can run the pod has room for it" in world.hot("hot").pods[0].message
    )
    world.system["calm"] = {"cpu": 0, "memory": 0}
    world.used["calm"]["b"]["memory"] = 0
    assert world.round() == ["a hot->calm"]


@pytest.mark.parametrize(
    ("of_class", "hot", "other", "other_is", "whose"),
    [
        (
            "koord-free",
            (40, 40),
            (60, 5),
            "prodLow",
            "the whole node: the lowest is other at cpu 65.0 %",
        ),
        ("koord-prod", (5, 60), (10, 20), "low", "prod pods: the lowest is other at cpu 20.0 %"),
    ],
)
def test_a_pod_moves_only_to_targets_of_its_own_phase(
    of_class: str, hot: tuple[int, int], other: tuple[int, int], other_is: str, whose: str
) -> None:
    world = RoundWorld(
        BY_THRESHOLDS + "  prodHighThresholds: {cpu: 50}\n  prodLowThresholds: {cpu: 10}"
    )
    for name, (system, used) in (("hot", hot), ("other", other)):
        world.node(name, system=system)
        labels = {"koordinator.sh/priority-class": of_class}
        world.pod(f"of-{name}", name, used, labels=labels)
    assert world.round() == []
    assert world.pool.class_counts[other_is] == 1
    verdict = world.hot("hot").pods[0]
    assert (verdict.gate, verdict.message) == (
        "fit", f"no node is below all low thresholds of {whose}"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("unschedulable", "no node below all low thresholds accepts pods: calm is cordoned"),
        ("cordoned", "no node below all low thresholds accepts pods: calm is cordoned"),
        ("stale", "no node is below all low thresholds: the lowest is hot at cpu 75.0 %"),
        ("abnormal", "no node below all low thresholds accepts pods: calm was hot lately"),
    ],
)
def test_some_calm_nodes_take_no_pods(how: str, why: str) -> None:
    world = hot_world()
    if how == "unschedulable":
        world.node("calm", unschedulable=True)
    elif how == "cordoned":
        world.inventory.nodes["calm"].cordoned = True
        world.node("calm")
    elif how == "stale":
        world.stale.add("calm")
    else:
        world = hot_world(
            BY_THRESHOLDS.replace("consecutiveNormalities: 1", "consecutiveNormalities: 3")
        )
        world.system["calm"] = {"cpu": 80 * PERCENT, "memory": 0}
        world.round()
        world.system["calm"] = {"cpu": 10 * PERCENT, "memory": 0}
    assert world.round() == []
    assert world.pool.end_reason == why


def test_many_avoided_targets_do_not_hide_the_remaining_one() -> None:
    world = hot_world()
    world.gone("a")
    world.pod("a", "hot", 15)
    best = [f"better-{number:02}" for number in range(30)]
    add_targets(world, best, system=0)
    world.node("calm", system=30)
    assert world.round() == ["a hot->better-00"]
    world.avoid(best)
    assert world.round() == ["a hot->calm"]
