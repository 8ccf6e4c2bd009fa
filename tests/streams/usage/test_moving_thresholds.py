"""Moving thresholds of the load-aware filter, and how decisions report them."""

from schemas.messages.decisions import PlacementDecision
from schemas.policy import read_policy
from streams.usage.thresholds import compute_filter_thresholds
from tests.streams.builders import START_MS, metric, node, pod, policy_record, request, tick
from tests.streams.world import World

#: START_MS is Thursday 2025-10-09 08:53:20 UTC: the window opens 400 seconds later.
_OPENS_S = 400
_WINDOW = """
whenOverloaded: wait
loadAware: {usageThresholds: {cpu: 65, memory: 95}, nodeMetricExpirationSeconds: 36000}
movingThresholds:
  filter:
    windows:
      - {days: [thu], from: "09:00", to: "10:00", usageThresholds: {cpu: 90}}
"""
_SOURCE = "window thu 09:00 to 10:00 +00:00"


def new_world() -> World:
    """A node that uses 70 % of its cpu."""
    return World(policy_record(_WINDOW), tick(), node("n"), metric("n", cpu=5_600))


def placed(world: World, uid: str) -> PlacementDecision:
    """The decision on a small pod."""
    (decision,) = world.send(request(pod(uid, cpu="100m")))
    return decision


def test_a_pod_is_placed_when_the_window_opens() -> None:
    world = new_world()
    waiting = placed(world, "a")
    assert waiting.outcome == "waiting"
    assert waiting.load_thresholds is not None
    assert waiting.load_thresholds.usage == {"cpu": 65, "memory": 95}
    assert waiting.load_thresholds.source == "configured"
    (decision,) = world.send(tick(_OPENS_S))
    assert (decision.outcome, decision.node) == ("placed", "n")
    assert decision.load_thresholds is not None
    assert decision.load_thresholds.usage == {"cpu": 90, "memory": 95}
    assert decision.load_thresholds.source == _SOURCE


def test_the_window_closes_at_a_tick_and_not_between_two() -> None:
    world = new_world()
    world.send(tick(_OPENS_S + 3_599))
    assert placed(world, "a").outcome == "placed"
    world.send(tick(_OPENS_S + 3_600))
    assert placed(world, "b").outcome == "waiting"


def test_rankings_are_kept_while_thresholds_are_unchanged() -> None:
    world = new_world()
    world.send(tick(_OPENS_S))
    index = world.state.inventory.update_index()
    version = index.version
    world.send(tick(_OPENS_S + 1))
    assert index.version == version
    world.send(tick(_OPENS_S + 3_600))
    assert index.version > version


def test_a_restart_while_a_window_is_open_changes_nothing() -> None:
    world = new_world()
    world.send(tick(_OPENS_S))
    world.restart()
    decision = placed(world, "a")
    assert decision.outcome == "placed"
    assert decision.load_thresholds is not None
    assert decision.load_thresholds.source == _SOURCE


def test_thresholds_of_a_node_override_the_window() -> None:
    world = new_world()
    annotation = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 65}}'}
    world.send(node("n", annotations=annotation))
    world.send(tick(_OPENS_S))
    assert placed(world, "a").outcome == "waiting"


_EVERY_PART = """
loadAware:
  usageThresholds: {cpu: 65}
  prodUsageThresholds: {cpu: 50}
  aggregated: {usageThresholds: {cpu: 70, memory: 80}, usageAggregationType: p95}
movingThresholds:
  filter:
    windows:
      - usageThresholds: {cpu: 66}
        prodUsageThresholds: {cpu: 55}
        aggregatedUsageThresholds: {cpu: 77}
"""


def test_a_window_moves_each_kind_of_threshold_by_itself() -> None:
    thresholds_now = compute_filter_thresholds(read_policy(_EVERY_PART), START_MS)
    thresholds = thresholds_now.thresholds
    assert (thresholds.plain, thresholds.prod) == ({"cpu": 66}, {"cpu": 55})
    assert thresholds.aggregated is not None
    assert thresholds.aggregated.thresholds == {"cpu": 77, "memory": 80}
    assert thresholds_now.reported is not None
    assert thresholds_now.reported["aggregated_usage"] == {"cpu": 77, "memory": 80}
