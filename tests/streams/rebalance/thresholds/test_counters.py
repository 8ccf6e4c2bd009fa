"""Counters of consecutive hot rounds, with the rules of loadstream and of Koordinator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import read_policy
from schemas.policy.selectors import LabelSelector
from streams.rebalance.differences import LOADSTREAM
from streams.rebalance.thresholds.counters import Counters
from streams.rebalance.thresholds.pools import Pools
from tests.streams.builders import anomaly_condition
from tests.streams.rebalance.rounds import (
    acting_rounds,
    by_thresholds,
    change_policy,
    counted_world,
    counter_rows,
)

_INTERVAL_MS = 60_000


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


def test_koordinator_acts_after_n_plus_one_rounds_and_stops_after_its_timeout() -> None:
    """docs/reference/upstream.md G5, X11 and X13; what leaves stays, so the node is not relieved."""
    made = counted_world(counting_policy(5, 3, "koordinator"))
    made.pod("b", "hot", None)
    acted = [
        number for number in range(1, 31) if acting_rounds(made, [True]) and made.hot("hot").acting
    ]
    assert acted == [*range(6, 13), *range(18, 25), 30]


def test_an_unmeasured_round_keeps_the_count_of_a_node() -> None:
    made = counted_world(counting_policy(2, interval="1m"))
    made.round()
    made.stale.add("hot")
    made.now_ms += 150_000
    assert made.round() == []
    made.stale.clear()
    assert made.round() != []


def test_counts_of_unmeasured_nodes_expire() -> None:
    made = counted_world(counting_policy(2, interval="1m"))
    made.round()
    made.stale.add("hot")
    made.now_ms += 400_000
    made.round()
    assert made.rows == {}
    made.stale.clear()
    assert made.round() == []
    assert made.round() != []


def test_only_nodes_that_are_or_were_hot_have_a_row() -> None:
    made = counted_world(counting_policy(2, 2))
    acting_rounds(made, [True, True])
    assert made.names("hotspot_counters") == ["hot"]
    acting_rounds(made, [False])
    assert made.names("hotspot_counters") == ["hot"]
    acting_rounds(made, [False])
    assert made.rows == {}


SAME_COUNTS = [
    ("rebalance", {"node_fit": False, "number_of_nodes": 0}),
    ("rebalance", {"resource_weights": {"cpu": 2, "memory": 1}}),
    ("rebalance", {"detector_cache_timeout_ms": 600_000}),
    ("rebalance", {"anomaly_condition": anomaly_condition(1, 4)}),
]
OTHER_COUNTS = [
    ("rebalance", {"high_thresholds": {"cpu": 69.0}}),
    ("rebalance", {"use_deviation_thresholds": True}),
    (
        "rebalance",
        {
            "high_thresholds": {"cpu": 70.0, "memory": 90.0},
            "low_thresholds": {"cpu": 40.0, "memory": 50.0},
        },
    ),
    ("descheduling", {"descheduling_interval_ms": 20_000}),
    ("descheduling", {"node_selector": LabelSelector(match_labels={"pool": "web"})}),
]


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
@pytest.mark.parametrize(("section", "fields"), SAME_COUNTS)
def test_counts_continue_when_a_policy_changes_nothing_relevant(
    compat: str, section: str, fields: dict[str, object]
) -> None:
    made = counted_world(counting_policy(2, compat=compat))
    acting_rounds(made, [True])
    before = counter_rows(made)
    assert before
    change_policy(made, section, **fields)
    assert counter_rows(made) == before
    made.restart()
    needed = 1 if compat == "loadstream" or "anomaly_condition" in fields else 2
    assert acting_rounds(made, [True] * 2)[0] == needed


def test_changed_low_thresholds_keep_the_counts_of_hot_nodes() -> None:
    made = counted_world(counting_policy(2))
    acting_rounds(made, [True])
    change_policy(made, low_thresholds={"cpu": 45.0})
    assert acting_rounds(made, [True]) == [1]


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
@pytest.mark.parametrize(("section", "fields"), OTHER_COUNTS)
def test_counts_restart_when_a_relevant_setting_changes(
    compat: str, section: str, fields: dict[str, object]
) -> None:
    made = counted_world(counting_policy(2, compat=compat))
    acting_rounds(made, [True])
    change_policy(made, section, **fields)
    assert counter_rows(made) == {}


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_no_node_counts_as_hot_after_rounds_by_thresholds_are_disabled(compat: str) -> None:
    made = counted_world(counting_policy(2, compat=compat))
    acting_rounds(made, [True])
    assert made.balancer.hot_nodes == 1
    change_policy(made, "plugins", balance=())
    assert made.balancer.hot_nodes == 0
    assert made.rows == {}


def test_changed_thresholds_of_a_pool_keep_the_counts_of_other_pools() -> None:
    pools = """
  nodePools:
    - {name: web, nodeSelector: {matchLabels: {pool: web}}, highThresholds: {cpu: %s}, lowThresholds: {cpu: 40}}
"""
    text = counting_policy(2)
    before, after = (
        text.replace("\ndescheduling", pools % most + "descheduling") for most in (70, 60)
    )
    made = counted_world(before)
    made.node("web", system=75, labels={"pool": "web"})
    made.pod("w", "web", 10)
    acting_rounds(made, [True])
    assert made.names("hotspot_counters") == ["hot", "web"]
    change_policy(made, node_pools=read_policy(by_thresholds(after)).rebalance.node_pools)
    assert made.names("hotspot_counters") == ["hot"]


def test_a_raised_number_of_rounds_applies_to_abnormal_nodes() -> None:
    made = counted_world(counting_policy(1, 3))
    assert acting_rounds(made, [True]) == [1]
    change_policy(made, anomaly_condition=anomaly_condition(3, 3))
    assert acting_rounds(made, [True, True]) == [2]


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
