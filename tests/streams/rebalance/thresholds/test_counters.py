"""Counters of consecutive hot rounds, with the rules of loadstream and of Koordinator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import read_policy
from schemas.storage.tables import row_key
from streams.rebalance.differences import LOADSTREAM
from streams.rebalance.thresholds.counters import Counters
from streams.rebalance.thresholds.pools import Pools
from tests.streams.builders import CLUSTER
from tests.streams.world import RoundWorld, acting_rounds, counted_world

_INTERVAL_MS = 60_000
HOT_ROW = row_key(0, CLUSTER, "hotspot_counters", "hot")


def counting_policy(
    abnormalities: int, normalities: int = 1, compat: str = "loadstream", interval: str = "10s"
) -> str:
    """A policy whose hotspots are counted over rounds."""
    return f"""
compat: {compat}
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  detectorCacheTimeout: 5m
  anomalyCondition:
    {{timeout: 1m, consecutiveAbnormalities: {abnormalities}, consecutiveNormalities: {normalities}}}
descheduling: {{deschedulingInterval: {interval}}}
"""


def change_policy(world: RoundWorld, section: str = "rebalance", **fields: object) -> None:
    part = getattr(world.policy, section).model_copy(update=fields)
    world.policy = world.policy.model_copy(update={section: part})
    world.balancer.set_policy(world.policy)
    world.write()


def test_koordinator_acts_after_n_plus_one_rounds_and_stops_after_its_timeout() -> None:
    """docs/reference/upstream.md G5, X11 and X13; what leaves stays, so the node is not relieved."""
    world = counted_world(counting_policy(5, 3, "koordinator"))
    world.pod("b", "hot", None)
    acted = []
    for number in range(1, 31):
        if acting_rounds(world, [True]) and world.hot("hot").abnormal:
            acted.append(number)
    assert acted == [*range(6, 13), *range(18, 25), 30]


def test_an_unmeasured_round_keeps_the_count_of_a_node() -> None:
    world = counted_world(counting_policy(2, interval="1m"))
    world.round()
    world.stale.add("hot")
    world.now_ms += 150_000
    assert world.round() == []
    world.stale.clear()
    assert world.round() != []


def test_counts_of_unmeasured_nodes_expire() -> None:
    world = counted_world(counting_policy(2, interval="1m"))
    world.round()
    world.stale.add("hot")
    world.now_ms += 400_000
    world.round()
    assert world.rows == {}
    world.stale.clear()
    assert world.round() == []
    assert world.round() != []


def test_only_nodes_that_are_or_were_hot_have_a_row() -> None:
    world = counted_world(counting_policy(2, 2))
    acting_rounds(world, [True, True])
    assert list(world.rows) == [HOT_ROW]
    acting_rounds(world, [False])
    assert list(world.rows) == [HOT_ROW]
    acting_rounds(world, [False])
    assert world.rows == {}


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_a_policy_that_changes_rebalancing_starts_the_counts_again(compat: str) -> None:
    world = counted_world(counting_policy(2, compat=compat))
    acting_rounds(world, [True])
    before = world.rows[HOT_ROW]
    change_policy(world, "load_aware", score_according_prod_usage=True)
    assert world.rows[HOT_ROW] == before
    change_policy(world, high_thresholds={"cpu": 69.0})
    assert HOT_ROW not in world.rows


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_no_node_counts_as_hot_after_rounds_by_thresholds_are_disabled(compat: str) -> None:
    world = counted_world(counting_policy(2, compat=compat))
    acting_rounds(world, [True])
    assert world.balancer.hot_nodes == 1
    change_policy(world, "plugins", balance=())
    assert world.balancer.hot_nodes == 0
    assert world.rows == {}


@given(
    hot=st.lists(st.booleans(), max_size=40),
    abnormalities=st.integers(1, 4),
    normalities=st.integers(1, 4),
)
def test_counters_equal_those_of_counting_backwards(
    hot: list[bool], abnormalities: int, normalities: int
) -> None:
    """Abnormal: the newest run of N hot rounds is newer than the newest run of M calm ones."""
    policy = read_policy(counting_policy(abnormalities, normalities, interval="1m"))
    pools = Pools(policy, LOADSTREAM).pools
    (pool,) = pools
    counters = Counters("c", policy, pools)
    for number, over in enumerate(hot):
        now_ms = number * _INTERVAL_MS
        if over:
            counters.count_hot("n", pool, "node", now_ms)
        else:
            counters.count_calm(["n"], pool, "node", now_ms)
        assert (counters.list_abnormal(pool) == ["n"]) == _abnormal(
            hot[: number + 1], abnormalities, normalities
        )


def _abnormal(hot: list[bool], abnormalities: int, normalities: int) -> bool:
    for end in range(len(hot), 0, -1):
        if end >= abnormalities and all(hot[end - abnormalities : end]):
            return True
        if end >= normalities and not any(hot[end - normalities : end]):
            return False
    return False
