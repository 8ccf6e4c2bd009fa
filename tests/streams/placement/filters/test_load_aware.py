from typing import Any

import pytest

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import OwnerReference, Pod
from streams.inventory.node import Node
from streams.placement.filters.load_aware import LoadAwareFilter
from streams.placement.scores.load_aware import LoadAwareScore
from streams.usage.estimate import Estimator
from tests.streams.builders import (
    aggregated,
    at,
    container,
    inventory_node,
    load_args,
    metric,
    node,
    pod,
)
from tests.streams.cluster.oracle import reason, scores

CPU = "node(s) cpu usage exceed threshold"
MEMORY = "node(s) memory usage exceed threshold"
AGGREGATED = "node(s) cpu aggregated usage exceed threshold"

#: Estimated to use nothing, so that a node's own usage decides.
NOTHING = pod(
    containers=(container({"cpu": "1", "memory": "1"}),),
    annotations={
        "scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu":0,"memory":0}'
    },
)


def world(
    state: NodeState | None = None, usage: NodeMetric | None = None, *held: Pod, **args: Any
) -> tuple[Estimator, Node]:
    """One node under these arguments."""
    estimator = Estimator(load_args(allowCustomizeEstimation=True, **args))
    described = node(cpu="10") if state is None else state
    return estimator, inventory_node(
        described, *held, estimator=estimator, metric=usage, at_ms=at(0)
    )


def refused(in_world: tuple[Estimator, Node], of: Pod = NOTHING, seconds: float = 0) -> str | None:
    """Why the node refuses a pod."""
    estimator, here = in_world
    return reason(LoadAwareFilter(estimator), of, here, at(seconds))


def scored(in_world: tuple[Estimator, Node], of: Pod = NOTHING, seconds: float = 0) -> float:
    estimator, here = in_world
    return scores(LoadAwareScore(estimator), of, here, now_ms=at(seconds))[0]


# --- filter -------------------------------------------------------------------------------------


def test_a_daemon_goes_everywhere() -> None:
    daemon = pod(owners=(OwnerReference(kind="ReplicaSet"), OwnerReference(kind="DaemonSet")))
    full = world(usage=metric(cpu=10_000, memory=2**40))
    assert refused(full, daemon) is None
    assert refused(full, daemon, seconds=9999) is None
    assert scored(full, daemon) == 0


def test_prod_pods_may_have_to_pass_the_thresholds_of_the_whole_node_too() -> None:
    args: dict[str, Any] = {"prodUsageThresholds": {"cpu": 50, "memory": 50}, "checkBoth": True}
    busy = world(None, metric(cpu=9999), **args)
    assert refused(busy, pod(cpu="1")) == CPU
    full = world(None, metric(cpu=0), pod("other", cpu="6"), **args)
    assert refused(full, pod(cpu="1")) == CPU
    assert refused(world(None, metric(cpu=0), **args), pod(cpu="1")) is None
    by = {"usageThresholds": {"cpu": 70}, "usageAggregationType": "p95"}
    statistic = metric(cpu=0, aggregated=(aggregated(300, p95={"cpu": 7050}),))
    assert refused(world(usage=statistic, aggregated=by, **args), pod()) == AGGREGATED
    assert refused(busy, pod(cpu="1"), seconds=9999) == "node(s) nodeMetric expired"
    assert (
        refused(
            world(usage=metric(cpu=9999), prodUsageThresholds={"cpu": 0}, checkBoth=True), pod()
        )
        == CPU
    )


@pytest.mark.parametrize("limit", ["9223372036854775807", "8Ei", "5E"])
def test_a_limit_beyond_every_node_is_refused_only_where_usage_is_checked(limit: str) -> None:
    unlimited = pod(containers=(container({"memory": "1Gi"}, {"memory": limit}),))
    assert refused(world(), unlimited) is None
    assert refused(world(usage=metric(cpu=5), usageThresholds={"cpu": 65}), unlimited) is None
    assert refused(world(usage=metric(cpu=5)), unlimited) == MEMORY


# --- score --------------------------------------------------------------------------------------


def test_a_pod_expected_to_use_less_than_nothing_scores_no_more_than_100() -> None:
    lifting = pod(
        annotations={"scheduling.koordinator.sh/load-estimated-scaling-factors": '{"cpu":-9000}'}
    )
    assert scored(world(usage=metric()), lifting) == 100
    # A pod that already runs on the node does not lower its measured usage.
    held = world(None, metric(cpu=5000), lifting, resourceWeights={"cpu": 1})
    assert scored(held) == 50
