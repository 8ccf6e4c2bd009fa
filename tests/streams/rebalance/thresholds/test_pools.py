"""What counts in a round: nodes, usage, thresholds, pools; beside it what Koordinator makes of the same."""

import pytest

from tests.streams.builders import BY_THRESHOLDS
from tests.streams.world import RoundWorld, add_targets, hot_world

KOORDINATOR = "compat: koordinator\n" + BY_THRESHOLDS


def test_nothing_happens_while_paused_and_nothing_is_counted() -> None:
    world = hot_world(BY_THRESHOLDS + "  paused: true")
    assert world.round() == []
    assert (world.outcome.end_reason, world.outcome.pools, world.rows) == (
        "rebalancing is paused",
        [],
        {},
    )


def test_a_policy_without_the_plugin_moves_nothing_and_the_round_reports_it() -> None:
    world = hot_world(BY_THRESHOLDS + "plugins: {balance: []}")
    assert world.round() == []
    assert world.outcome.pools == []
    assert world.outcome.end_reason == "plugins.balance does not enable LowNodeLoad"


def test_number_of_nodes_asks_for_more_targets() -> None:
    world = hot_world(BY_THRESHOLDS + "  numberOfNodes: 1")
    assert world.round() == []
    assert world.pool.end_reason == (
        "1 node is below the low thresholds; numberOfNodes requires more than 1"
    )
    world.node("another")
    assert world.round() != []


def test_nodes_outside_the_node_selector_are_ignored() -> None:
    world = hot_world(BY_THRESHOLDS + "descheduling: {nodeSelector: {matchLabels: {in: 'yes'}}}")
    assert world.round() == []
    assert world.pool.names == []
    world.node("hot", 60, labels={"in": "yes"})
    world.node("calm", 10, labels={"in": "yes"})
    assert world.round() == ["a hot->calm"]


def test_a_node_without_a_fresh_metric_is_skipped() -> None:
    world = hot_world()
    world.round()
    world.stale.add("hot")
    outcomes = [bool(world.round()) for _ in range(3)]
    assert outcomes == [True, True, False]
    assert world.pool.classes["hot"] == "skipped"


@pytest.mark.parametrize(
    ("compat", "leaves"), [(BY_THRESHOLDS, []), (KOORDINATOR, ["a hot->None"])]
)
def test_usage_of_pods_that_are_gone_does_not_count(compat: str, leaves: list[str]) -> None:
    """docs/reference/upstream.md X17."""
    world = RoundWorld(compat)
    world.node("hot", system=50)
    world.pod("a", "hot", 15)
    world.pod("gone", "hot", 15)
    world.gone("gone", reported=True)
    add_targets(world, ["calm"])
    assert world.round() == leaves


@pytest.mark.parametrize(
    ("compat", "leaves"), [(BY_THRESHOLDS, ["a hot->calm"]), (KOORDINATOR, [])]
)
def test_usage_of_host_applications_counts(compat: str, leaves: list[str]) -> None:
    """docs/reference/upstream.md X17."""
    world = RoundWorld(compat)
    world.node("hot", system=40)
    world.hosts["hot"] = {"nginx": 20}
    world.pod("a", "hot", 15)
    add_targets(world, ["calm"])
    assert world.round() == leaves


@pytest.mark.parametrize(("compat", "hot"), [("", ["hot"]), ("compat: koordinator\n", [])])
def test_a_deviation_of_zero_is_a_threshold(compat: str, hot: list[str]) -> None:
    """docs/reference/upstream.md X15: below the mean is low, ten points above it is hot."""
    world = RoundWorld(
        compat
        + """
rebalance:
  useDeviationThresholds: true
  highThresholds: {cpu: 10}
  lowThresholds: {cpu: 0}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    )
    world.node("hot", system=30)
    world.pod("a", "hot", 20)
    add_targets(world, ["calm-a", "calm-b"], system=20)
    world.round()
    assert [node.name for node in world.pool.hot] == hot
    if hot:
        (move,) = world.outcome.moves
        assert move.reason.endswith("node cpu usage(50.00%)>threshold(40.00%)")
        assert move.target == "calm-a"


_POOLS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
  nodePools:
    - name: web
      nodeSelector: {matchLabels: {pool: web}}
      highThresholds: {cpu: 90}
      lowThresholds: {cpu: 50}
"""


@pytest.mark.parametrize(
    ("compat", "pools"),
    [
        ("", {"web": ["web"], "__default_node_pool__": ["calm"]}),
        ("compat: koordinator\n", {"__default_node_pool__": ["calm", "web"], "web": []}),
    ],
)
def test_a_node_belongs_to_the_first_pool_that_selects_it(
    compat: str, pools: dict[str, list[str]]
) -> None:
    """X18: 80 % is not hot for the pool, and nobody else judges its nodes."""
    world = RoundWorld(compat + _POOLS)
    world.node("web", system=60, labels={"pool": "web"})
    world.pod("a", "web", 20)
    add_targets(world, ["calm"])
    moves = world.round()
    assert {pool.name: pool.names for pool in world.outcome.pools} == pools
    assert bool(moves) == bool(compat)


def test_pods_stay_within_their_pool() -> None:
    world = RoundWorld(_POOLS)
    world.node("web", system=80, labels={"pool": "web"})
    world.pod("a", "web", 20)
    add_targets(world, ["calm"])
    assert world.round() == []
    world.node("web-calm", 45, labels={"pool": "web"})
    assert world.round() == ["a web->web-calm"]


def test_a_pool_without_thresholds_is_reported() -> None:
    world = RoundWorld("mode: observe")
    world.node("n", system=99)
    assert world.round() == []
    assert world.pool.end_reason == "the pool has no thresholds"


def test_metrics_without_a_resource_of_the_pool_are_not_called_too_old() -> None:
    of_gpus = "rebalance: {lowThresholds: {cpu: 40, nvidia.com/gpu: 40}, highThresholds: {cpu: 50, nvidia.com/gpu: 50}}"
    risk = "overutilizationRisk: {resources: [{name: nvidia.com/gpu}]}"
    world = RoundWorld(
        f"{of_gpus}\n{risk}\nplugins: {{balance: [LowNodeLoad, OverutilizationRisk]}}"
    )
    world.node("n", system=99, allocatable={"nvidia.com/gpu": "2"})
    assert world.round() == []
    assert (
        world.outcome.pools[0].end_reason
        == "no node of the pool has a fresh metric with cpu or nvidia.com/gpu"
    )
    assert world.outcome.pools[1].end_reason == "no node has a fresh metric with nvidia.com/gpu"


@pytest.mark.parametrize(("gpus", "uses"), [("2", {}), ("0", {"nvidia.com/gpu": 2})])
def test_a_resource_that_is_unknown_makes_a_node_neither_hot_nor_a_target(
    gpus: str, uses: dict[str, int]
) -> None:
    of_gpus = """
rebalance:
  lowThresholds: {cpu: 40, nvidia.com/gpu: 40}
  highThresholds: {cpu: 50, nvidia.com/gpu: 50}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    world = RoundWorld(of_gpus)
    world.node("hot", allocatable={"cpu": "10", "nvidia.com/gpu": gpus})
    world.node("calm", allocatable={"cpu": "10", "nvidia.com/gpu": gpus})
    world.pod("a", "hot", usage={"cpu": 4_500, **uses})
    world.pod("b", "hot", usage={"cpu": 4_500, **uses})
    world.pod("c", "calm", usage={"cpu": 100, **uses})
    assert world.round() == []
    assert world.pool.classes == {"hot": "high", "calm": "normal"}
    hot = world.hot("hot")
    assert hot.readings.used == {"cpu": 9_000}


@pytest.mark.parametrize(("expires_s", "hot"), [(200, True), (100, False)])
def test_the_policy_limits_the_age_of_a_metric(expires_s: int, hot: bool) -> None:
    world = hot_world(
        BY_THRESHOLDS.replace(
            "rebalance:", f"rebalance:\n  nodeMetricExpirationSeconds: {expires_s}", 1
        )
    )
    world.round()
    world.stale.add("hot")
    world.now_ms += 59_000
    world.round()
    assert bool(world.pool.hot) is hot
