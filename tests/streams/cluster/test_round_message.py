"""Records of rounds stay within their limits for every policy and outcome."""

import pytest

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.pods import Pod
from schemas.messages.rounds import HOT_NODES_MAX, PERCENT_MAX, PODS_PER_NODE_MAX, RebalanceRound
from schemas.policy import PolicyError, read_policy
from schemas.topics.codec import encode_fields
from streams.cluster.round_message import build_round
from streams.rebalance.outcome import HotNodeOutcome, RoundOutcome, Verdict
from streams.stage.cause import Cause, build_as_of
from tests.streams.builders import CLUSTER
from tests.streams.world import RoundWorld, read_message

THRESHOLDS = """
compat: {compat}
rebalance:
  useDeviationThresholds: {deviation}
  highThresholds: {{cpu: {high}}}
  lowThresholds: {{cpu: 40}}
  anomalyCondition: {{consecutiveAbnormalities: 1, consecutiveNormalities: 1}}
"""


def recorded(outcome: RoundOutcome) -> RebalanceRound:
    cause = Cause(CLUSTER, "clock", 0, 0, 1_795_000_000_000, build_as_of(0, {}))
    record = build_round(cause, outcome, {}, dry_run=True)
    assert len(encode_fields(record.fields)) <= VALUE_BYTES_MAX
    message = read_message(record)
    assert isinstance(message, RebalanceRound)
    return message


def judged(document: str) -> RoundWorld:
    """A cluster with a node that uses much, after a round."""
    world = RoundWorld(document)
    world.node("hot", system=80)
    world.pod("a", "hot", 15)
    world.node("calm", system=10)
    world.round()
    return world


@pytest.mark.parametrize("deviation", ["false", "true"])
@pytest.mark.parametrize("high", ["10000.5", "1e300"])
def test_a_threshold_that_nothing_exceeds_makes_nothing_hot_and_is_recorded(
    deviation: str, high: str
) -> None:
    world = judged(THRESHOLDS.format(compat="koordinator", deviation=deviation, high=high))
    (pool,) = recorded(world.outcome).pools
    assert pool.hot == ()
    if deviation == "false":
        assert pool.thresholds.high["cpu"] == PERCENT_MAX
        assert pool.thresholds.source.startswith("thresholds above 10000 % are shown as 10000 %; ")
    else:
        assert pool.thresholds.high["cpu"] == 100


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_more_resources_than_a_record_can_name_are_refused(compat: str) -> None:
    def maps(letter: str, count: int) -> str:
        return "{" + ", ".join(f"example.com/{letter}{number}: 50" for number in range(count)) + "}"

    def document(count: int) -> str:
        return (
            f"compat: {compat}\nrebalance:\n  highThresholds: {maps('a', 40)}\n"
            f"  lowThresholds: {maps('a', 40)}\n  prodHighThresholds: {maps('b', count)}\n"
            f"  prodLowThresholds: {maps('b', count)}\n"
        )

    most = 24 if compat == "loadstream" else 23
    assert recorded(judged(document(most)).outcome).pools
    with pytest.raises(PolicyError, match=r"rebalance: found thresholds of 65 resources"):
        read_policy(document(most + 1))


def test_verdicts_that_a_record_has_no_room_for_are_counted() -> None:
    usage = {f"{'r' * 300}{number}": 2**60 for number in range(64)}
    pod = Pod(namespace="n" * 63, name="p" * 253, uid="u" * 128)
    verdict = Verdict(pod, "gate", "é" * 500, "t" * 253, usage)
    world = judged(THRESHOLDS.format(compat="loadstream", deviation="false", high=70))
    (pool,) = world.outcome.pools
    (hot,) = pool.hot
    pool.hot = [
        HotNodeOutcome(
            name=f"n{number}",
            phase="node",
            rounds=1,
            abnormal=True,
            readings=hot.readings,
            checked=30,
            pods=[verdict] * 30,
        )
        for number in range(HOT_NODES_MAX + 1)
    ]
    (pool_record,) = recorded(world.outcome).pools
    assert len(pool_record.hot) == HOT_NODES_MAX
    assert len(pool_record.hot[0].pods) == PODS_PER_NODE_MAX
    assert {len(node.pods) + node.pods_left_out for node in pool_record.hot} == {30}
    assert pool_record.hot[-1].pods == ()
