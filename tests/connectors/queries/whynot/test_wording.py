"""What an answer says of thresholds, from rounds as they are really made."""

import pytest

from connectors.queries.whynot.wording import readings_text, thresholds_text
from schemas.messages.rounds import RebalanceRound
from streams.cluster.rounds import build_round
from streams.stage.cause import Cause, build_as_of
from tests.streams.cluster.builders import CLUSTER
from tests.streams.outputs import read_message
from tests.streams.rebalance.harness import World

DEVIATION = """
rebalance:
  useDeviationThresholds: true
  highThresholds: {cpu: 15}
  lowThresholds: {cpu: 10}
  anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}
"""


def recorded(world: World) -> RebalanceRound:
    """The record of a round."""
    world.round()
    cause = Cause(CLUSTER, "clock", 0, 0, world.now_ms, build_as_of(0, {}))
    made = read_message(build_round(cause, world.outcome, {}, dry_run=True))
    assert isinstance(made, RebalanceRound)
    return made


def test_by_deviation_limits_are_percentages_and_distances_are_said_to_be_some() -> None:
    world = World(DEVIATION)
    world.node("a", system=60)
    world.node("b", system=20)
    (pool,) = recorded(world).pools
    assert thresholds_text(pool.thresholds) == (
        "lightly loaded below cpu 30 %, hot above cpu 55 % (mean of the pool's nodes: cpu 40.0% -10 +15)"
    )
    (hot,) = pool.hot
    assert readings_text(hot) == "it uses cpu 6 of 10 (60.0 %, at most 55.0 %)"


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_by_deviation_from_the_mean_of_nothing_there_is_no_limit(compat: str) -> None:
    world = World(f"compat: {compat}" + DEVIATION)
    world.node("a", system=60)
    world.stale.add("a")
    (pool,) = recorded(world).pools
    said = thresholds_text(pool.thresholds)
    assert said.startswith(
        "no thresholds (distances from the mean, but no node of the pool is measured: cpu -10 +15"
    )
