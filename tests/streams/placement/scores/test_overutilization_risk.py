from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod, Toleration
from streams.placement.scores.overutilization_risk import OverutilizationRiskScore
from tests.streams.builders import RAW_ALLOCATABLE, at, metric, node, pod, pod_metric
from tests.streams.cluster.oracle import scores
from tests.streams.world import CoreWorld

_CPU = "overutilizationRisk: {resources: [{name: cpu}]}\n"
_ONLY = "plugins: {score: [OverutilizationRisk]}\n"


def risk_world(document: str = _CPU) -> CoreWorld:
    return CoreWorld(_ONLY + document)


def measure(world: CoreWorld, name: str, minute: int, **used: int | dict[str, int]) -> None:
    """Report the usage of pods by uid: cpu, or several resources."""
    pods = tuple(
        pod_metric(uid, "", **(amount if isinstance(amount, dict) else {"cpu": amount}))
        for uid, amount in used.items()
    )
    world.send(metric(name, cpu=1, seconds=60 * minute, pods=pods))


def raw_scores(world: CoreWorld, of: Pod) -> dict[str, float]:
    """Scores of a new plugin by node."""
    plugin = OverutilizationRiskScore(world.policy.overutilization_risk)
    raw = scores(plugin, of, *world.nodes, now_ms=world.inventory.now_ms)
    return dict(zip((node.name for node in world.nodes), raw, strict=True))


def best(world: CoreWorld, of: Pod) -> str:
    by_name = raw_scores(world, of)
    return max(sorted(by_name), key=lambda name: by_name[name])


def test_a_pod_goes_to_the_node_with_fewer_requests_while_nothing_is_measured() -> None:
    world = risk_world()
    world.send(node("full"), node("half"))
    world.hold("full", *(pod(f"a-{n}") for n in range(6)))
    world.hold("half", *(pod(f"b-{n}") for n in range(4)))
    assert best(world, pod("new")) == "half"


def test_the_first_pods_of_a_cluster_spread() -> None:
    world = risk_world()
    for number in range(4):
        world.send(node(f"node-{number}", cpu="64"))
    chosen = []
    for number in range(12):
        row = world.rank(pod(f"new-{number}")).find_best()
        assert row is not None
        chosen.append(row)
        world.hold(f"node-{row}", pod(f"new-{number}"))
    assert chosen == [0, 1, 2, 3] * 3


def test_a_node_that_is_used_less_is_better_where_neither_is_at_risk() -> None:
    world = risk_world()
    for name, used in (("a-used", 500), ("b-idle", 10)):
        world.send(node(name, cpu="64"))
        world.hold(name, *(pod(f"{name}-{n}") for n in range(3)))
        for minute in range(5, 60, 5):
            measure(world, name, minute, **{f"{name}-{n}": used for n in range(3)})
    assert best(world, pod("new")) == "b-idle"


def test_cached_scores_of_a_request_follow_the_nodes() -> None:
    world = risk_world()
    for number in range(80):
        world.send(node(f"node-{number:02}"))
    for name in ("first", "second"):  # increases are cached when they are needed again
        assert world.rank(pod(name, tolerations=(Toleration(key=name),))).find_best() == 0
    world.hold("node-00", pod("large", cpu="4"))
    # Another kind with the same requests, without a cached ranking.
    later = pod("later", tolerations=(Toleration(key="later"),))
    expected = list(raw_scores(world, later).values())
    assert world.rank(later).totals.tolist() == expected
    assert world.rank(later).find_best() == 1


def test_capacity_counts_and_not_the_amplified_allocatable() -> None:
    world = risk_world()
    world.send(node("whole", cpu="12"))
    world.send(node("overcommitted", cpu="16", annotations={RAW_ALLOCATABLE: '{"cpu": "8"}'}))
    for name in ("whole", "overcommitted"):
        world.hold(name, *(pod(f"{name}-{n}") for n in range(5)))
    assert best(world, pod("new")) == "whole"


@pytest.mark.parametrize("priority", [3_500, 5_500, 7_500])
def test_pods_in_the_bands_of_other_classes_spread_by_the_cpu_that_they_ask_for(
    priority: int,
) -> None:
    world = risk_world()
    for name in ("a", "b"):
        world.send(node(name))
    world.hold("a", pod("there", priority=priority))
    assert best(world, pod("new", priority=priority)) == "b"


def test_a_node_with_less_variance_scores_higher_at_the_same_mean() -> None:
    world = risk_world()
    for name in ("steady", "a-restless"):
        world.send(node(name))
        world.hold(name, *(pod(f"{name}-{n}") for n in range(6)))
        for minute in range(5, 300, 5):
            even = 500 if name == "steady" else 950 * (minute // 5 % 2)
            measure(world, name, minute, **{f"{name}-{n}": even for n in range(6)})
    assert best(world, pod("new")) == "steady"


def test_an_overloaded_node_scores_lower_than_a_hot_one() -> None:
    world = risk_world()
    for name, used in (("beyond", 1_500), ("hot", 900)):
        world.send(node(name))
        world.hold(name, *(pod(f"{name}-{n}") for n in range(8)))
        for minute in range(5, 300, 5):
            measure(world, name, minute, **{f"{name}-{n}": used for n in range(8)})
    raw = raw_scores(world, pod("new"))
    assert raw["hot"] > raw["beyond"] > 0


def test_the_policy_sets_the_share_above_which_a_node_is_hot() -> None:
    costs = []
    for hot in (75, 30):
        world = risk_world(
            f"overutilizationRisk: {{resources: [{{name: cpu, hotPercent: {hot}}}]}}\n"
        )
        world.send(node("a"))
        world.hold("a", *(pod(f"a-{n}") for n in range(3)))
        measure(world, "a", 5, **{f"a-{n}": 900 for n in range(3)})
        costs.append(raw_scores(world, pod("new"))["a"])
    assert costs[0] > 10 * costs[1]


def test_fleet_figures_are_renewed_every_five_minutes_and_all_nodes_follow() -> None:
    world = risk_world()
    for name in "abc":
        world.send(node(name, cpu="64"))
        world.hold(name, *(pod(f"{name}-{n}") for n in range(20)))
    world.inventory.update_fleet()
    world.rank(pod("new"))
    fleet = world.inventory.fleet
    assert fleet is not None
    assert fleet.figures[0].usage_ppm == 850_000
    for name in "abc":
        measure(world, name, 5, **{f"{name}-{n}": 100 for n in range(20)})
    for seconds, expected in ((299, 850_000), (300, (20 * 850_000 + 60 * 100_000) // 80)):
        world.inventory.advance(at(seconds))
        world.inventory.update_fleet()
        assert fleet.figures[0].usage_ppm == expected
    ranking = world.rank(pod("new"))
    fresh = raw_scores(world, pod("new"))
    # A cached ranking has the scores of a new one.
    assert ranking.totals.tolist() == list(fresh.values())


def test_a_late_policy_counts_the_existing_pods() -> None:
    world, late = risk_world(), CoreWorld()
    for target in (world, late):
        target.send(node("a"))
        target.hold("a", *(pod(f"a-{n}") for n in range(4)))
    late.send(world.policy)
    assert raw_scores(late, pod("new")) == raw_scores(world, pod("new"))


_AMOUNTS = st.integers(0, 2**50)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=3)), min_size=1, max_size=4),
    st.sampled_from(("1", "100m", "1000", "9e12")),
)  # fmt: skip
def test_scores_are_finite_and_the_same_for_one_node_and_for_all(
    nodes: list[tuple[int, list[Any]]], request: str
) -> None:
    world = risk_world("")
    for number, (cpu, pods) in enumerate(nodes):
        name = f"n-{number}"
        world.send(node(name, cpu=f"{cpu}m"))
        world.hold(name, *(pod(f"{name}-{n}", cpu=request) for n, _ in enumerate(pods)))
        for minute in (5, 10, 25):
            measure(
                world,
                name,
                minute,
                **{
                    f"{name}-{n}": {"cpu": cpu if minute < 10 else 0, "memory": memory}
                    for n, (cpu, memory) in enumerate(pods)
                },
            )
    by_node = raw_scores(world, pod("new", cpu=request))
    assert np.isfinite(list(by_node.values())).all()
    assert all(score > 0 for score in by_node.values())
