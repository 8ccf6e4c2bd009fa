"""Thresholds that follow the time of the week."""

import pytest

from schemas.policy import PolicyError, read_policy
from streams.rebalance.node_figures import TOTAL_MAX
from tests.streams.world import PERCENT, RoundWorld, add_targets

#: 2026-11-16 00:00 UTC, a Monday.
MONDAY_MS = 1_794_787_200_000
HOUR_MS = 3_600_000

_WINDOWS = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
movingThresholds:
  hotspots:
    - windows:
        - {days: [mon], from: "02:00", to: "06:00", highThresholds: {cpu: 90}}
        - {from: "20:00", to: "22:00", highThresholds: {cpu: 50}, lowThresholds: {cpu: 30}}
"""


@pytest.mark.parametrize(
    ("hour", "leaves", "high", "source"),
    [
        (1, True, 70, "policy"),
        (3, False, 90, "window mon 02:00 to 06:00 +00:00"),
        (7, True, 70, "policy"),
        (21, True, 50, "window every day 20:00 to 22:00 +00:00"),
        (27, True, 70, "policy"),
    ],
)
def test_the_open_window_applies_and_is_reported(
    hour: int, leaves: bool, high: int, source: str
) -> None:
    world = RoundWorld(_WINDOWS, now_ms=MONDAY_MS + hour * HOUR_MS)
    world.node("hot", system=60)
    world.pod("a", "hot", 15)
    add_targets(world, ["calm"])
    assert bool(world.round()) == leaves
    assert world.pool.thresholds.high == {"cpu": high}
    assert world.pool.thresholds.source == source


def test_usage_of_many_pods_is_limited_to_64_bits() -> None:
    world = RoundWorld()
    world.node("a")
    for number in range(9):
        world.pod(f"pod-{number}", "a", usage={"cpu": 2**60, "memory": 2**62})
    world.round()
    columns = world.balancer.columns
    assert columns.usage.min() >= 0
    assert columns.prod_usage.max() == columns.usage.max() == TOTAL_MAX


def test_a_round_by_deviation_reports_its_percentages() -> None:
    for compat in ("loadstream", "koordinator"):
        world = RoundWorld(
            f"""
compat: {compat}
rebalance:
  useDeviationThresholds: true
  highThresholds: {{cpu: 15}}
  lowThresholds: {{cpu: 10}}
"""
        )
        world.node("a", system=60)
        world.node("b", system=20)
        world.round()
        thresholds = world.pool.thresholds
        assert (thresholds.low["cpu"], thresholds.high["cpu"]) == (30, 55)
        assert "mean of the pool's nodes: cpu 40.0% -10 +15" in thresholds.source
        world.stale |= {"a", "b"}
        world.now_ms += HOUR_MS
        world.round()
        assert "no node of the pool is measured: cpu -10 +15" in world.pool.thresholds.source


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}}\n"
            "movingThresholds: {hotspots: [{windows: [{highThresholds: {cpu: 30}}]}]}",
            "lowThresholds of 'cpu' would be 40, more than highThresholds (30)",
        ),
        (
            "movingThresholds: {hotspots: [{windows: [{highThresholds: {cpu: 30}}]}]}",
            "'cpu' has no configured threshold to replace",
        ),
        ("movingThresholds: {hotspots: [{pool: web}]}", "found 'web'; the pools are"),
        ("movingThresholds: {hotspots: [{}, {}]}", "pool '' has an entry already"),
        (
            "compat: koordinator\nmovingThresholds: {hotspots: [{}]}",
            "not allowed with compat: koordinator",
        ),
        (
            "movingThresholds: {filter: {windows: [{prodUsageThresholds: {cpu: 9}}]}}",
            "'cpu' has no configured threshold",
        ),
    ],
)
def test_contradicting_settings_are_refused(document: str, message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_policy(document)
    assert message in str(refused.value)


_PEAK = """
rebalance:
  highThresholds: {cpu: 70}
  lowThresholds: {cpu: 20}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
movingThresholds:
  hotspots:
    - windows: [{from: "20:00", to: "22:00", highThresholds: {cpu: 60}, evictWithoutTarget: true}]
"""


def _peak(hour: int, document: str = _PEAK) -> RoundWorld:
    """A node at 90 % by a pod of each class; no other node is a target."""
    world = RoundWorld(document, now_ms=MONDAY_MS + hour * HOUR_MS)
    world.node("hot", system=30)
    for uid, priority in (("free", 3_500), ("batch", 5_500), ("mid", 7_500), ("prod", 9_500)):
        world.pod(uid, "hot", 15, priority=priority)
    add_targets(world, ["busy"], system=40)
    return world


def test_at_the_peak_batch_and_free_pods_leave_without_a_target_until_the_node_is_below() -> None:
    world = _peak(21)
    assert world.round() == ["free hot->None", "batch hot->None"]
    assert {move.mode for move in world.outcome.moves} == {"EvictDirectly"}
    assert world.outcome.moves[0].reason.endswith(
        "; no target accepts this free pod, and the open window has evictWithoutTarget"
    )
    assert world.hot("hot").end_reason == ""


@pytest.mark.parametrize(("hour", "document"), [(12, _PEAK), (21, _PEAK.replace("true", "false"))])
def test_without_such_a_window_no_pod_leaves_without_a_target(hour: int, document: str) -> None:
    world = _peak(hour, document)
    assert world.round() == []
    lowest = "the lowest is busy at cpu 40.0 %"
    assert world.pool.end_reason == f"no node is below all low thresholds: {lowest}"


def test_prod_and_mid_pods_stay_at_the_peak() -> None:
    world = _peak(21)
    world.gone("free")
    world.gone("batch")
    world.system["hot"] = {"cpu": 60 * PERCENT, "memory": 0}
    assert world.round() == []
    assert world.gates("hot") == {"mid": "fit", "prod": "fit"}
    world.system["hot"] = {"cpu": 30 * PERCENT, "memory": 0}
    assert world.round() == []
    assert world.pool.end_reason == "no node is above a high threshold"


def test_at_the_peak_targets_are_preferred_and_gates_apply() -> None:
    world = _peak(21)
    add_targets(world, ["calm"], system=0)
    assert world.round() == ["free hot->calm", "batch hot->calm"]
    assert {move.mode for move in world.outcome.moves} == {None}
    world = _peak(21)
    assert world.round(gate=lambda candidate: "a window is closed") == []
    assert world.gates("hot")["free"] == "gate"


def test_a_window_moves_thresholds_of_prod_pods_by_themselves() -> None:
    world = RoundWorld(
        """
rebalance:
  highThresholds: {cpu: 90}
  lowThresholds: {cpu: 40}
  prodHighThresholds: {cpu: 80}
  prodLowThresholds: {cpu: 30}
  anomalyCondition: {consecutiveAbnormalities: 1}
movingThresholds:
  hotspots:
    - windows: [{from: "20:00", to: "22:00", prodHighThresholds: {cpu: 50}, prodLowThresholds: {cpu: 20}}]
""",
        now_ms=MONDAY_MS + 21 * HOUR_MS,
    )
    world.node("hot", system=10)
    for uid in ("a", "b"):
        world.pod(uid, "hot", 30, priority=9_500)
    add_targets(world, ["calm"], system=0)
    assert world.round() == ["a hot->calm"]
    assert world.pool.thresholds.prod_high == {"cpu": 50}
    assert world.pool.thresholds.prod_low == {"cpu": 20}
