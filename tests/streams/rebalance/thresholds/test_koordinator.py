"""What Koordinator does and no golden case decides: maps that pools share, pods that are not measured."""

import pytest

from schemas.policy import read_policy
from streams.rebalance.differences import KOORDINATOR
from streams.rebalance.thresholds.pools import Pools
from tests.streams.world import RoundWorld, acting_rounds, counted_world

_SHARED = """
compat: koordinator
rebalance:
  lowThresholds: {cpu: 40}
  highThresholds: {cpu: 70}
  nodePools:
    - {name: inherits, useDeviationThresholds: true}
    - {name: own, lowThresholds: {cpu: 10}, highThresholds: {cpu: 20, gpu: 5}, useDeviationThresholds: true}
"""


def test_defaults_filled_into_a_map_appear_in_inheriting_pools() -> None:
    """docs/reference/upstream.md B1."""
    filled = Pools(read_policy(_SHARED), KOORDINATOR)
    default, inherits, separate = (filled.fill_in(pool) for pool in filled.pools)
    assert default.low == inherits.low == {"cpu": 40, "memory": 100}
    assert inherits.high == {"cpu": 70, "memory": 100}
    # Its own maps are its own, and a high threshold without a low one is overwritten.
    assert separate.low == {"cpu": 10, "gpu": 0, "memory": 0}
    assert separate.high == {"cpu": 20, "gpu": 0, "memory": 0}


def test_defaults_of_a_later_pool_reach_an_earlier_one_in_the_next_round() -> None:
    """docs/reference/upstream.md B5."""
    document = """
compat: koordinator
rebalance:
  lowThresholds: {cpu: 40}
  highThresholds: {cpu: 70}
  nodePools:
    - {name: later, prodLowThresholds: {gpu: 10}, prodHighThresholds: {gpu: 20}}
"""
    filled = Pools(read_policy(document), KOORDINATOR)
    first, _ = (filled.fill_in(pool) for pool in filled.pools)
    assert first.high == {"cpu": 70, "memory": 100}
    second = filled.fill_in(filled.pools[0])
    assert second.high == {"cpu": 70, "memory": 100, "gpu": 100}


def test_a_missing_map_is_created_again_while_its_counterpart_keeps_defaults() -> None:
    """B5: from the second round on memory has a low threshold for prod pods and no high one."""
    document = """
compat: koordinator
rebalance:
  lowThresholds: {cpu: 40}
  highThresholds: {cpu: 70}
  prodLowThresholds: {cpu: 20}
"""
    filled = Pools(read_policy(document), KOORDINATOR)
    (pool,) = filled.pools
    assert filled.fill_in(pool).prod_high == {"memory": 100}
    second = filled.fill_in(pool)
    assert (second.prod_low, second.prod_high) == ({"cpu": 20, "memory": 100}, {})


def _filled_world() -> RoundWorld:
    world = RoundWorld(
        """
compat: koordinator
rebalance:
  lowThresholds: {cpu: 40}
  highThresholds: {cpu: 70}
  prodLowThresholds: {cpu: 20}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    )
    world.node("n", system=10)
    world.pod("prod", "n", 35, priority=9_500)
    return world


def test_filled_defaults_survive_a_restart() -> None:
    classes = []
    for restarts in (False, True):
        world = _filled_world()
        world.round()
        if restarts:
            world.restart()
        world.round()
        classes.append(world.pool.classes)
    assert classes[0] == classes[1] == {"n": "prodHigh"}


class _Twice(RoundWorld):
    """Metrics name every pod two times."""

    def measure(self) -> None:
        super().measure()
        for node in self.inventory.nodes.values():
            metric = node.usage.metric
            assert metric is not None
            twice = metric.model_copy(update={"pods": (*metric.pods, *metric.pods)})
            self.inventory.apply_metric(twice)


def test_a_pod_that_a_metric_names_twice_counts_twice_for_its_node_and_among_prod_pods() -> None:
    """docs/reference/upstream.md B2."""
    document = """
compat: koordinator
rebalance:
  highThresholds: {cpu: HIGH}
  lowThresholds: {cpu: 5}
  prodHighThresholds: {cpu: 30}
  prodLowThresholds: {cpu: 5}
"""
    for high, expected in (("35", "high"), ("90", "prodHigh")):
        world = _Twice(document.replace("HIGH", high))
        world.node("n")
        world.pod("prod", "n", 20, priority=9_500)
        world.round()
        assert world.pool.classes == {"n": expected}


def test_the_number_of_pods_counts_where_it_has_a_weight() -> None:
    """docs/reference/upstream.md B5: also without a threshold for it."""
    document = """
compat: koordinator
rebalance:
  highThresholds: {cpu: 50}
  lowThresholds: {cpu: 40}
  resourceWeights: {cpu: 10, memory: 1, pods: WEIGHT}
  nodeFit: false
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""
    for weight, first in (("1", "a"), ("100", "b")):
        world = RoundWorld(document.replace("WEIGHT", weight))
        allocatable = {"cpu": "10", "memory": "32Gi", "pods": "10"}
        for name, cpu, pods in (("a", 90, 1), ("b", 60, 5)):
            world.node(name, allocatable=allocatable)
            for number in range(pods):
                world.pod(f"{name}{number}", name, cpu // pods)
        world.node("calm", allocatable=allocatable)
        world.round()
        assert world.outcome.moves[0].node == first


def test_node_fit_takes_room_for_pods_that_never_leave() -> None:
    """X19: three pods fit one after the other, so the next node finds the target full."""
    for compat, moves in (("koordinator", 1), ("loadstream", 2)):
        world = RoundWorld(
            f"""
compat: {compat}
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  anomalyCondition: {{consecutiveAbnormalities: 1, consecutiveNormalities: 1}}
"""
        )
        for name in ("hot-a", "hot-b"):
            world.node(name, system=30)
            for number in range(3):
                world.pod(f"{name}-{number}", name, 16)
        world.node("calm", system=10)
        assert len(world.round()) == moves


@pytest.mark.parametrize(("cache", "late_ms"), [("5m", 0), ("10m", 5_000), ("0s", 0)])
def test_a_count_outlasts_the_interval_between_rounds(cache: str, late_ms: int) -> None:
    """docs/reference/upstream.md B1."""
    world = counted_world(
        f"""
compat: koordinator
descheduling: {{deschedulingInterval: 10m}}
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  nodeMetricExpirationSeconds: 3600
  detectorCacheTimeout: {cache}
  anomalyCondition: {{consecutiveAbnormalities: 2, consecutiveNormalities: 1}}
"""
    )
    assert acting_rounds(world, [True] * 3, interval_ms=600_000 + late_ms) == [3]


_ONE_NAME = """
compat: koordinator
rebalance:
  nodeFit: false
  nodePools:
    - name: same
      nodeSelector: {matchLabels: {zone: a}}
      highThresholds: {cpu: 70}
      lowThresholds: {cpu: 40}
      anomalyCondition: {consecutiveAbnormalities: 3, consecutiveNormalities: 1}
    - name: same
      nodeSelector: {matchLabels: {zone: b}}
      anomalyCondition: {consecutiveAbnormalities: 2, consecutiveNormalities: 1}
"""


def _one_name() -> RoundWorld:
    world = RoundWorld(_ONE_NAME)
    world.node("hot", system=60, labels={"zone": "a"})
    world.node("calm", labels={"zone": "a"})
    world.pod("p", "hot", 30)
    return world


@pytest.mark.parametrize("restarts", [False, True])
def test_pools_with_the_same_name_keep_their_own_condition(
    restarts: bool,
) -> None:
    """docs/reference/upstream.md B5: a detector goes by the pool that made it."""
    world = _one_name()
    acted = []
    for _ in range(4):
        acted.append(bool(world.round()))
        if restarts:
            world.restart()
    assert acted == [False, False, False, True]
