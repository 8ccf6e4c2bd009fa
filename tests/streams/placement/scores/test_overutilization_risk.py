from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.pods import Pod
from schemas.policy import Policy, read_policy
from streams.inventory.inventory import Inventory
from streams.placement.placer import Placer
from streams.placement.scores.overutilization_risk import OverutilizationRiskScore
from streams.pods.held import HeldPod
from streams.pods.kind import kind_of
from tests.streams.builders import GI, RAW_ALLOCATABLE, at, metric, node, pod
from tests.streams.cluster.oracle import refresh_all

_CPU = "overutilizationRisk: {resources: [{name: cpu}]}\n"
_ONLY = "plugins: {score: [OverutilizationRisk]}\n"


class _World:
    """Nodes of an inventory, asked by the plugin alone."""

    def __init__(self, document: str = _CPU) -> None:
        self.policy: Policy = read_policy(_ONLY + document)
        self.inventory = Inventory(self.policy)
        self.inventory.advance(at(0))

    def node(self, name: str, cpu: str = "8", memory: str = "32Gi", **fields: Any) -> None:
        self.inventory.apply_node(node(name, cpu=cpu, memory=memory, **fields))

    def hold(self, name: str, *pods: Pod) -> None:
        for each in pods:
            held = HeldPod(each, kind_of(each), assigned_at_ms=self.inventory.now_ms)
            self.inventory.hold(name, held, first_seen=True)

    def measure(self, name: str, minute: int, **used: int | dict[str, int]) -> None:
        usages = {
            uid: each if isinstance(each, dict) else {"cpu": each} for uid, each in used.items()
        }
        pods = tuple(
            PodMetric(namespace="default", name=uid, usage=each) for uid, each in usages.items()
        )
        said: NodeMetric = metric(name, cpu=1, seconds=60 * minute, pods=pods)
        self.inventory.apply_metric(said)

    def raw(self, of: Pod) -> dict[str, float]:
        """Raw scores by node; both ways say the same."""
        plugin = OverutilizationRiskScore(self.policy.overutilization_risk)
        nodes = self.inventory.lay_out().nodes
        refresh_all(plugin, nodes, self.inventory.now_ms)
        prepared = plugin.prepare(kind_of(of))
        scores: list[float] = plugin.scores(prepared).tolist()
        assert scores == [plugin.score(prepared, row) for row in range(len(nodes))]
        return dict(zip((each.name for each in nodes), scores, strict=True))

    def best(self, of: Pod) -> str:
        raw = self.raw(of)
        return max(sorted(raw), key=lambda name: raw[name])


def test_a_pod_goes_where_fewer_requests_are_as_long_as_nothing_is_measured() -> None:
    world = _World()
    world.node("full")
    world.node("half")
    world.hold("full", *(pod(f"a-{n}") for n in range(6)))
    world.hold("half", *(pod(f"b-{n}") for n in range(4)))
    assert world.best(pod("new")) == "half"


def test_the_first_pods_of_a_cluster_spread() -> None:
    world = _World()
    for number in range(4):
        world.node(f"node-{number}", cpu="64")
    placer = Placer(world.inventory)
    chosen = []
    for number in range(12):
        row = placer.rank(kind_of(pod(f"new-{number}"))).best()
        assert row is not None
        chosen.append(row)
        world.hold(f"node-{row}", pod(f"new-{number}"))
    assert chosen == [0, 1, 2, 3] * 3


def test_a_node_that_is_used_less_is_better_where_neither_is_at_risk() -> None:
    world = _World()
    for name, used in (("a-used", 500), ("b-idle", 10)):
        world.node(name, cpu="64")
        world.hold(name, *(pod(f"{name}-{n}") for n in range(3)))
        for minute in range(5, 60, 5):
            world.measure(name, minute, **{f"{name}-{n}": used for n in range(3)})
    assert world.best(pod("new")) == "b-idle"


def test_cached_scores_of_a_request_follow_the_nodes() -> None:
    world = _World()
    for number in range(80):
        world.node(f"node-{number:02}")
    placer = Placer(world.inventory)
    assert placer.rank(kind_of(pod("first"))).best() == 0
    world.hold("node-00", pod("large", cpu="4"))
    # Another kind that requests the same, and was never asked about before.
    later = kind_of(pod("later", labels={"app": "other"}))
    anew = OverutilizationRiskScore(world.policy.overutilization_risk)
    refresh_all(anew, world.inventory.lay_out().nodes, world.inventory.now_ms)
    (plugin,) = (score for score, _ in placer.scores)
    placer.refresh()
    prepared = plugin.prepare(later)
    assert plugin.scores(prepared).tolist() == anew.scores(prepared).tolist()
    assert placer.rank(later).best() == 1


def test_capacity_counts_and_not_the_amplified_allocatable() -> None:
    world = _World()
    world.node("whole", cpu="12")
    world.node("overcommitted", cpu="16", annotations={RAW_ALLOCATABLE: '{"cpu": "8"}'})
    for name in ("whole", "overcommitted"):
        world.hold(name, *(pod(f"{name}-{n}") for n in range(5)))
    assert world.best(pod("new")) == "whole"


@pytest.mark.parametrize("priority", [3_500, 5_500, 7_500])
def test_pods_in_the_bands_of_other_classes_spread_by_the_cpu_that_they_ask_for(
    priority: int,
) -> None:
    world = _World()
    for name in ("a", "b"):
        world.node(name)
    world.hold("a", pod("there", priority=priority))
    assert world.best(pod("new", priority=priority)) == "b"


def test_a_node_with_less_variance_scores_higher_at_the_same_mean() -> None:
    world = _World()
    for name in ("steady", "a-restless"):
        world.node(name)
        world.hold(name, *(pod(f"{name}-{n}") for n in range(6)))
        for minute in range(5, 300, 5):
            even = 500 if name == "steady" else 950 * (minute // 5 % 2)
            world.measure(name, minute, **{f"{name}-{n}": even for n in range(6)})
    assert world.best(pod("new")) == "steady"


def test_an_overloaded_node_scores_lower_than_a_hot_one() -> None:
    world = _World()
    for name, used in (("beyond", 1_500), ("hot", 900)):
        world.node(name)
        world.hold(name, *(pod(f"{name}-{n}") for n in range(8)))
        for minute in range(5, 300, 5):
            world.measure(name, minute, **{f"{name}-{n}": used for n in range(8)})
    raw = world.raw(pod("new"))
    assert raw["hot"] > raw["beyond"] > 0


@pytest.mark.parametrize(("weights", "best"), [((1, 1), "memory-left"), ((100, 1), "cpu-left")])
def test_resources_are_weighed(weights: tuple[int, int], best: str) -> None:
    cpu, memory = weights
    world = _World(
        f"overutilizationRisk: {{resources: [{{name: cpu, weight: {cpu}}}, "
        f"{{name: memory, weight: {memory}}}]}}\n"
    )
    for name, each in (("cpu-left", (500, 3.5)), ("memory-left", (600, 1.0))):
        world.node(name, memory="32Gi")
        pods = [pod(f"{name}-{n}", memory="4Gi") for n in range(7)]
        world.hold(name, *pods)
        for minute in range(5, 100, 5):
            used = {"cpu": each[0], "memory": int(each[1] * GI)}
            world.measure(name, minute, **{made.uid: used for made in pods})
    assert world.best(pod("new")) == best


def test_the_policy_says_from_which_share_on_a_node_is_hot() -> None:
    scores = []
    for hot in (75, 30):
        world = _World(f"overutilizationRisk: {{resources: [{{name: cpu, hotPercent: {hot}}}]}}\n")
        world.node("a")
        world.hold("a", *(pod(f"a-{n}") for n in range(3)))
        world.measure("a", 5, **{f"a-{n}": 900 for n in range(3)})
        scores.append(world.raw(pod("new"))["a"])
    assert scores[0] > 10 * scores[1]


def test_fleet_figures_are_renewed_every_five_minutes_and_all_nodes_follow() -> None:
    world = _World()
    placer = Placer(world.inventory)
    for name in "abc":
        world.node(name, cpu="64")
        world.hold(name, *(pod(f"{name}-{n}") for n in range(20)))
    kind = kind_of(pod("new"))
    world.inventory.renew_fleet()
    placer.rank(kind)
    fleet = world.inventory.fleet
    assert fleet is not None
    assert fleet.figures[0].usage_ppm == 850_000
    for name in "abc":
        world.measure(name, 5, **{f"{name}-{n}": 100 for n in range(20)})
    for seconds, expected in ((299, 850_000), (300, (20 * 850_000 + 60 * 100_000) // 80)):
        world.inventory.advance(at(seconds))
        world.inventory.renew_fleet()
        assert fleet.figures[0].usage_ppm == expected
    ranking = placer.rank(kind)
    fresh = world.raw(pod("new"))
    # Scores of a ranking that was kept are those of one made from nothing.
    assert ranking.totals.tolist() == list(fresh.values())


def test_a_policy_that_comes_late_finds_the_pods_that_are_there() -> None:
    world, late = _World(), _World()
    late.policy = read_policy("")
    late.inventory.set_policy(late.policy)
    for each in (world, late):
        each.node("a")
        each.hold("a", *(pod(f"a-{n}") for n in range(4)))
    late.inventory.set_policy(world.policy)
    late.policy = world.policy
    assert late.raw(pod("new")) == world.raw(pod("new"))


_AMOUNTS = st.integers(0, 2**50)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.lists(st.tuples(_AMOUNTS, _AMOUNTS), max_size=3)), min_size=1, max_size=4),
    st.sampled_from(("1", "100m", "1000", "9e12")),
)  # fmt: skip
def test_scores_are_finite_and_the_same_for_one_node_and_for_all(
    nodes: list[tuple[int, list[Any]]], request: str
) -> None:
    world = _World("")
    for number, (cpu, pods) in enumerate(nodes):
        name = f"n-{number}"
        world.node(name, cpu=f"{cpu}m")
        world.hold(name, *(pod(f"{name}-{n}", cpu=request) for n, _ in enumerate(pods)))
        for minute in (5, 10, 25):
            world.measure(
                name,
                minute,
                **{
                    f"{name}-{n}": {"cpu": cpu if minute < 10 else 0, "memory": memory}
                    for n, (cpu, memory) in enumerate(pods)
                },
            )
    scores = world.raw(pod("new", cpu=request))
    assert np.isfinite(list(scores.values())).all()
    assert all(score > 0 for score in scores.values())
