import pytest

from schemas.messages.metrics import AggregatedUsage
from schemas.messages.nodes import Taint
from streams.cluster.statistics import compute_figures
from streams.placement.explain import REASONS_MAX
from streams.stage.cause import Cause, build_as_of
from tests.streams.cluster.builders import (
    aggregated,
    container,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, only


def cause(cluster: str = "c", topic: str = "t", partition: int = 0, offset: int = 0) -> Cause:
    return Cause(cluster, topic, partition, offset, now_ms=0, as_of=build_as_of(partition, {}))


def test_of_many_reasons_the_most_frequent_are_reported() -> None:
    kinds = REASONS_MAX + 5
    run = Run()
    run.say(tick(), node("full", cpu="0"), node("full-too", cpu="0"))
    run.say(*(node(f"n-{number:02}", taints=_taint(number)) for number in range(kinds)))
    made = only(run.say(request()))
    assert len(made.reasons) == REASONS_MAX
    assert made.reasons[0].nodes == 2
    assert made.refused_by == {"TaintToleration": kinds, "NodeResourcesFit": 2}
    assert made.message.startswith("2 nodes: Insufficient cpu; 1 node: had untolerated taint")
    assert made.message.endswith("; 6 nodes: other reasons")


def _taint(number: int) -> tuple[Taint, ...]:
    return (Taint(key=f"key-{number:02}", effect="NoSchedule"),)


def test_a_node_counts_for_the_first_filter_that_refuses_it() -> None:
    run = Run()
    run.say(tick(), node("a", unschedulable=True, cpu="0"), node("b", cpu="0"))
    made = only(run.say(request()))
    assert made.refused_by == {"NodeUnschedulable": 1, "NodeResourcesFit": 1}


def test_the_same_inputs_are_explained_in_the_same_bytes() -> None:
    runs = [Run(), Run()]
    for run in runs:
        limits = container({"cpu": "1"}, {"memory": "1Gi"})
        run.say(tick(), node("b"), node("a"), request(pod(containers=(limits,))), request("p2"))
    assert runs[0].outputs == runs[1].outputs


_BY_P95 = """
compat: koordinator
loadAware:
  aggregated: {usageThresholds: {cpu: 50}, usageAggregationType: p95, usageAggregatedDuration: 15m}
"""


def test_a_statistic_that_is_not_recorded_is_told_in_the_decision_and_counted() -> None:
    run = Run()
    short = aggregated(300, p95={"cpu": 100})
    long = aggregated(900, p95={"cpu": 100})
    run.say(tick(), policy_record(_BY_P95), node("a"), node("b"), node("c"))
    run.say(metric("a", aggregated=(short,)), metric("b", aggregated=(short, long)))
    made = only(run.say(request()))
    assert made.judged_by_estimates == {"p95 over 15m": 1}
    assert made.message == "p95 over 15m is not recorded on 1 node, judged by estimates"
    assert compute_figures(run.state).nodes_by_estimates == 1
    run.restart()
    assert compute_figures(run.state).nodes_by_estimates == 1
    huge = pod("huge", cpu="9999")
    assert only(run.say(request(huge))).message.endswith(
        " (p95 over 15m is not recorded on 1 node, judged by estimates)"
    )
    run.restart()
    assert only(run.say(request(pod("c")))).judged_by_estimates == {"p95 over 15m": 1}
    run.say(metric("a", aggregated=(long,)))
    made = only(run.say(request(pod("d"))))
    assert (made.judged_by_estimates, made.message) == (None, "")
    run.say(metric("a", aggregated=(short,)), tick(600))
    assert compute_figures(run.state).nodes_by_estimates == 0


def test_a_statistic_that_an_expired_metric_lacks_is_told_where_the_filter_goes_by_it() -> None:
    for filtered, told in ((False, {"p95 over 15m": 1}), (True, None)):
        run = Run()
        said = f"{_BY_P95}  filterExpiredNodeMetrics: {str(filtered).lower()}\n"
        run.say(tick(), policy_record(said), node("a"), metric("a"), tick(600))
        assert compute_figures(run.state).nodes_by_estimates == (not filtered)
        assert only(run.say(request(pod("huge", cpu="9999")))).judged_by_estimates == told
        run.restart()
        assert only(run.say(request(pod("other", cpu="9998")))).judged_by_estimates == told


@pytest.mark.parametrize(
    ("entries", "instead"),
    [
        (
            (aggregated(300, p95={"cpu": 7_000}), aggregated(600, p95={"cpu": 9_000})),
            "p95 over 10m",
        ),
        ((aggregated(300, p95={"cpu": 9_000}), aggregated(1800, p95={"cpu": 1})), "p95 over 5m"),
        ((aggregated(600, p50={"cpu": 1}),), "mean"),
    ],
)
def test_a_window_that_is_not_filled_is_replaced_by_the_next_shorter_one_or_by_the_mean(
    entries: tuple[AggregatedUsage, ...], instead: str
) -> None:
    run = Run()
    run.say(
        tick(),
        policy_record(_BY_P95.replace("compat: koordinator", "whenOverloaded: wait")),
        node("a", cpu="10"),
    )
    run.say(metric("a", cpu=9_000, aggregated=entries))
    made = only(run.say(request(pod("p", cpu="1m"))))
    assert made.outcome == "waiting"
    assert made.judged_by_other_statistics == {f"p95 over 15m: {instead}": 1}
    assert made.judged_by_estimates is None
    assert made.message.endswith(f" (p95 over 15m is not recorded on 1 node, judged by {instead})")


@pytest.mark.parametrize("score", ["LoadAwareScheduling", "OverutilizationRisk"])
def test_a_resource_that_a_metric_lacks_is_unknown_and_named(score: str) -> None:
    run = Run()
    gpus = {"cpu": "10", "memory": "32Gi", "pods": "100", "nvidia.com/gpu": "8"}
    document = f"""
loadAware: {{usageThresholds: {{cpu: 80}}, resourceWeights: {{nvidia.com/gpu: 1}}, estimatedScalingFactors: {{nvidia.com/gpu: 100}}}}
overutilizationRisk: {{resources: [{{name: nvidia.com/gpu}}]}}
plugins: {{score: [{score}]}}
"""
    run.say(tick(), policy_record(document))
    run.say(*(node(name, allocatable=gpus) for name in ("blind", "seen")))
    asks = {"cpu": "1m", "nvidia.com/gpu": "1"}
    of_both = [
        pod(f"{name}-{number}", node=name, containers=(container(asks, asks),))
        for name in ("blind", "seen")
        for number in range(6 if name == "blind" else 3)
    ]
    run.say(*(lifecycle("seen", each) for each in of_both))
    used = {"cpu": 10, "memory": 1}
    run.say(
        tick(300),
        metric("blind", usage=used, seconds=300),
        metric("seen", usage={**used, "nvidia.com/gpu": 3}, seconds=300),
    )
    made = only(run.say(request(pod("p", containers=(container(asks, asks),)))))
    assert (made.outcome, made.node) == ("placed", "seen")
    assert made.unknown_usage == {"nvidia.com/gpu": 1}
    assert made.message == "nvidia.com/gpu usage is unknown on 1 node"
