from typing import Any

import pytest

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import OwnerReference, Pod
from streams.inventory.node import Node
from streams.placement.filters.load_aware import LoadAwareFilter
from streams.placement.scores.load_aware import LoadAwareScore
from streams.usage.estimate import Estimator
from tests.streams.cluster.builders import (
    RAW_ALLOCATABLE,
    THRESHOLDS,
    aggregated,
    as_json,
    container,
    load_args,
    metric,
    node,
    pod,
)
from tests.streams.placement.builders import loaded_node
from tests.streams.placement.harness import reason, scores

CPU = "node(s) cpu usage exceed threshold"
MEMORY = "node(s) memory usage exceed threshold"
AGGREGATED = "node(s) cpu aggregated usage exceed threshold"
EXPIRED = "node(s) nodeMetric expired"

#: Estimated to use nothing, so that a node's own usage decides.
NOTHING = pod(
    containers=(container({"cpu": "1", "memory": "1"}),),
    annotations={
        "scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu":0,"memory":0}'
    },
)


def world(
    state: NodeState | None = None, said: NodeMetric | None = None, *held: Pod, **args: Any
) -> tuple[Estimator, Node]:
    """One node under these arguments."""
    estimator = Estimator(load_args(allowCustomizeEstimation=True, **args))
    described = node(cpu="10") if state is None else state
    return estimator, loaded_node("node-1", described, estimator, held, said)


def refused(in_world: tuple[Estimator, Node], of: Pod = NOTHING, seconds: float = 0) -> str | None:
    """Why the node refuses a pod."""
    estimator, here = in_world
    return reason(LoadAwareFilter(estimator), of, here, seconds)


def scored(in_world: tuple[Estimator, Node], of: Pod = NOTHING, seconds: float = 0) -> float:
    """What the node scores."""
    estimator, here = in_world
    return scores(LoadAwareScore(estimator), of, here, seconds=seconds)[0]


# --- filter -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "reason"), [(6549, None), (6550, CPU), (0, None), (10_000, CPU), (2**63 - 1, CPU)]
)
def test_a_node_is_refused_when_the_rounded_percentage_exceeds_the_threshold(
    cpu: int, reason: str | None
) -> None:
    assert refused(world(said=metric(cpu=cpu))) == reason


def test_the_pod_counts_with_its_estimate() -> None:
    # 850 millicores on top of these; memory is as free as can be.
    assert refused(world(said=metric(cpu=5699)), pod(cpu="1")) is None
    assert refused(world(said=metric(cpu=5700)), pod(cpu="1")) == CPU


def test_pods_placed_since_the_metric_count_with_their_estimates() -> None:
    assert refused(world(None, metric(cpu=5699), pod("other", cpu="1"))) is None
    assert refused(world(None, metric(cpu=5700), pod("other", cpu="1"))) == CPU


def test_the_first_resource_by_name_is_the_reason() -> None:
    said = metric(cpu=9000, memory=2**40)
    assert refused(world(said=said)) == CPU
    assert refused(world(said=said, usageThresholds={"cpu": 0, "memory": 95})) == MEMORY
    assert refused(world(said=said, usageThresholds={"memory": 95})) == MEMORY


def test_a_daemon_goes_everywhere() -> None:
    daemon = pod(owners=(OwnerReference(kind="ReplicaSet"), OwnerReference(kind="DaemonSet")))
    full = world(said=metric(cpu=10_000, memory=2**40))
    assert refused(full, daemon) is None
    assert refused(full, daemon, seconds=9999) is None
    assert scored(full, daemon) == 0


def test_a_node_without_a_metric_is_open_and_scores_nothing() -> None:
    assert refused(world()) is None
    assert scored(world()) == 0


def test_a_metric_that_knows_nothing_of_the_node_opens_it() -> None:
    assert refused(world(said=metric(usage=None))) is None
    assert scored(world(said=metric(usage=None))) == 0


@pytest.mark.parametrize(
    ("filter_expired", "enable", "cpu", "reason"),
    [
        (True, False, 0, EXPIRED),
        (True, False, 9999, EXPIRED),
        (True, True, 0, None),
        (True, True, 9999, None),  # not looked at any more
        (False, False, 0, None),
        (False, False, 9999, CPU),  # the stale figures decide
        (False, True, 9999, CPU),
    ],
)
def test_what_an_expired_metric_means_is_said_by_two_switches(
    filter_expired: bool, enable: bool, cpu: int, reason: str | None
) -> None:
    stale = world(
        said=metric(cpu=cpu),
        filterExpiredNodeMetrics=filter_expired,
        enableScheduleWhenNodeMetricsExpired=enable,
    )
    assert refused(stale, seconds=180) == reason
    assert scored(stale, seconds=180) == 0


def test_a_metric_without_a_time_has_expired() -> None:
    assert refused(world(said=metric(updated_at_ms=None))) == EXPIRED


def test_where_nothing_is_checked_nothing_expires() -> None:
    unchecked = world(said=metric(), usageThresholds={"cpu": 0})
    assert refused(unchecked, seconds=9999) is None


def test_prod_pods_are_judged_by_prod_thresholds_alone() -> None:
    args: dict[str, Any] = {"prodUsageThresholds": {"cpu": 50}}
    busy = world(None, metric(cpu=9999, memory=2**40), **args)
    assert refused(busy, pod(cpu="1")) is None
    assert refused(busy, pod(cpu="1", labels={"koordinator.sh/qosClass": "BE"})) == CPU
    full = world(None, metric(cpu=0), pod("other", cpu="6"), **args)
    assert refused(full, pod(cpu="1")) == CPU


def test_prod_pods_may_have_to_pass_the_thresholds_of_the_whole_node_too() -> None:
    args: dict[str, Any] = {"prodUsageThresholds": {"cpu": 50, "memory": 50}, "checkBoth": True}
    busy = world(None, metric(cpu=9999), **args)
    assert refused(busy, pod(cpu="1")) == CPU
    full = world(None, metric(cpu=0), pod("other", cpu="6"), **args)
    assert refused(full, pod(cpu="1")) == CPU
    assert refused(world(None, metric(cpu=0), **args), pod(cpu="1")) is None
    by = {"usageThresholds": {"cpu": 70}, "usageAggregationType": "p95"}
    statistic = metric(cpu=0, aggregated=(aggregated(300, p95={"cpu": 7050}),))
    assert refused(world(said=statistic, aggregated=by, **args), pod()) == AGGREGATED
    assert refused(busy, pod(cpu="1"), seconds=9999) == "node(s) nodeMetric expired"
    assert (
        refused(world(said=metric(cpu=9999), prodUsageThresholds={"cpu": 0}, checkBoth=True), pod())
        == CPU
    )


def test_prod_thresholds_that_are_all_zero_leave_prod_pods_to_the_others() -> None:
    assert refused(world(said=metric(cpu=9999), prodUsageThresholds={"cpu": 0}), pod()) == CPU


def test_aggregated_thresholds_take_the_place_of_the_plain_ones() -> None:
    by = {"usageThresholds": {"cpu": 70}, "usageAggregationType": "p95"}
    entries = (aggregated(300, p95={"cpu": 7050}), aggregated(600, p95={"cpu": 1}))
    said = metric(cpu=10_000, memory=2**40, aggregated=entries)
    longest = world(said=said, aggregated=by)
    five_minutes = world(said=said, aggregated={**by, "usageAggregatedDuration": "5m"})
    assert refused(longest) is None
    assert refused(five_minutes) == AGGREGATED


def test_a_node_may_have_its_own_thresholds() -> None:
    def own(written: Any) -> NodeState:
        return node(cpu="10", annotations={THRESHOLDS: as_json(written)})

    said = metric(cpu=7000)
    assert refused(world(own({"usageThresholds": {"cpu": 70}}), said)) is None
    assert refused(world(own({"usageThresholds": {"cpu": 69}}), said)) == CPU
    assert refused(world(own({"usageThresholds": {"cpu": -1}}), metric(cpu=0))) == CPU
    assert (
        refused(world(own({"usageThresholds": {"cpu": 2**63 - 1}}), metric(cpu=2**63 - 1))) is None
    )
    assert refused(world(own("broken"), said)) == CPU


def test_a_node_may_have_more_than_kubernetes_may_use() -> None:
    raw = node(cpu="10", annotations={RAW_ALLOCATABLE: as_json({"cpu": "20"})})
    assert refused(world(raw, metric(cpu=13_000))) is None
    assert refused(world(raw, metric(cpu=13_100))) == CPU
    assert scored(world(raw, metric(cpu=10_000))) == (50 + 100) // 2


@pytest.mark.parametrize("limit", ["9223372036854775807", "8Ei", "5E"])
def test_a_limit_beyond_every_node_is_refused_only_where_usage_is_checked(limit: str) -> None:
    unlimited = pod(containers=(container({"memory": "1Gi"}, {"memory": limit}),))
    assert refused(world(), unlimited) is None
    assert refused(world(said=metric(cpu=5), usageThresholds={"cpu": 65}), unlimited) is None
    assert refused(world(said=metric(cpu=5)), unlimited) == MEMORY


# --- score --------------------------------------------------------------------------------------


EQUAL = {"resourceWeights": {"cpu": 1, "memory": 1}}


@pytest.mark.parametrize(
    ("args", "score"),
    [
        ({}, 67),  # (55 + 80) // 2
        ({"dominantResourceWeight": 1, **EQUAL}, 63),  # (55 + 80 + 55) // 3
        # With a dominant weight alone, no other is made up.
        ({"dominantResourceWeight": 1}, 55),
        ({"resourceWeights": {"cpu": 1}}, 55),
        ({"resourceWeights": {"cpu": 1, "memory": 3}}, 73),  # (55 + 240) // 4
        ({"resourceWeights": {"memory": 100}}, 80),
        # A resource that the node does not have has nothing left.
        ({"dominantResourceWeight": 1, **EQUAL, "supportedResources": ["example.com/x"]}, 45),
    ],
)
def test_the_score_is_the_weighted_mean_of_what_is_left(args: dict[str, Any], score: int) -> None:
    said = metric(cpu=4500, memory=20)
    assert scored(world(node(cpu="10", memory="100"), said, **args)) == score


@pytest.mark.parametrize(
    ("cpu", "memory", "score"),
    [
        (0, 0, 100),
        (10_000, 100, 0),
        (10_001, 0, 50),
        (5_050, 51, (49 + 49) // 2),
        (2**63 - 1, 2**63 - 1, 0),
    ],
)
def test_what_is_left_is_cut_off_and_never_below_nothing(cpu: int, memory: int, score: int) -> None:
    assert scored(world(node(cpu="10", memory="100"), metric(cpu=cpu, memory=memory))) == score


def test_a_node_without_capacity_scores_nothing() -> None:
    assert scored(world(node(cpu="0", memory="0"), metric())) == 0
    negative = node(annotations={RAW_ALLOCATABLE: as_json({"cpu": "-1", "memory": "-1"})})
    assert scored(world(negative, metric())) == 0


def test_a_pod_expected_to_use_less_than_nothing_scores_no_more_than_100() -> None:
    lifting = pod(
        annotations={"scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu":-9000}'}
    )
    assert scored(world(said=metric()), lifting) == 100
    # One that is there already takes nothing away from what is measured.
    held = world(None, metric(cpu=5000), lifting, resourceWeights={"cpu": 1})
    assert scored(held) == 50


def test_the_score_goes_by_its_own_statistic() -> None:
    entries = (aggregated(300, p95={"cpu": 5000}, p50={"cpu": 1000}),)
    said = metric(cpu=0, aggregated=entries)

    def by(statistic: str, duration: str, *held: Pod) -> float:
        args = {"scoreAggregationType": statistic, "scoreAggregatedDuration": duration}
        return scored(world(None, said, *held, aggregated=args, resourceWeights={"cpu": 1}))

    assert by("p95", "5m") == 50
    assert by("p50", "5m") == 90
    # Not measured: the next shorter window.
    assert by("p95", "10m", pod("other", cpu="2")) == 33


def test_prod_pods_may_be_scored_by_what_prod_pods_use() -> None:
    args: dict[str, Any] = {"scoreAccordingProdUsage": True, "resourceWeights": {"cpu": 1}}
    busy = world(None, metric(cpu=9000), pod("other", cpu="2"), **args)
    prod = pod(cpu="1", memory="0")
    assert scored(busy, prod) == (10_000 - 1700 - 850) * 100 // 10_000
    assert scored(busy, pod(cpu="1", labels={"koordinator.sh/qosClass": "BE"})) == 0
