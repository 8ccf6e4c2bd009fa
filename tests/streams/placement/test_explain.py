import pytest

from schemas.messages.nodes import Taint
from streams.cluster.stage import compute_figures
from streams.placement.explain import REASONS_MAX
from streams.stage.cause import Cause, build_as_of
from tests.streams.builders import (
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
from tests.streams.world import World, only


def cause(cluster: str = "c", topic: str = "t", partition: int = 0, offset: int = 0) -> Cause:
    return Cause(cluster, topic, partition, offset, now_ms=0, as_of=build_as_of(partition, {}))


def test_the_most_frequent_of_many_reasons_are_reported() -> None:
    kinds = REASONS_MAX + 5
    world = World(tick(), node("full", cpu="0"), node("full-too", cpu="0"))
    world.send(*(node(f"n-{number:02}", taints=_taint(number)) for number in range(kinds)))
    decision = only(world.send(request()))
    assert len(decision.reasons) == REASONS_MAX
    assert decision.reasons[0].nodes == 2
    assert decision.refused_by == {"TaintToleration": kinds, "NodeResourcesFit": 2}
    assert decision.message.startswith("2 nodes: Insufficient cpu; 1 node: had untolerated taint")
    assert decision.message.endswith("; 6 nodes: other reasons")


def _taint(number: int) -> tuple[Taint, ...]:
    return (Taint(key=f"key-{number:02}", effect="NoSchedule"),)


_BY_P95 = """
compat: koordinator
loadAware:
  aggregated: {usageThresholds: {cpu: 50}, usageAggregationType: p95, usageAggregatedDuration: 15m}
"""


def test_a_decision_names_a_statistic_that_is_not_recorded() -> None:
    world = World()
    short = aggregated(300, p95={"cpu": 100})
    long = aggregated(900, p95={"cpu": 100})
    world.send(tick(), policy_record(_BY_P95), node("a"), node("b"), node("c"))
    world.send(metric("a", aggregated=(short,)), metric("b", aggregated=(short, long)))
    decision = only(world.send(request()))
    assert decision.judged_by_estimates == {"p95 over 15m": 1}
    assert decision.message == "p95 over 15m is not recorded on 1 node, judged by estimates"
    assert compute_figures(world.state).nodes_by_estimates == 1
    world.restart()
    assert compute_figures(world.state).nodes_by_estimates == 1
    huge = pod("huge", cpu="9999")
    assert only(world.send(request(huge))).message.endswith(
        " (p95 over 15m is not recorded on 1 node, judged by estimates)"
    )
    world.restart()
    assert only(world.send(request(pod("c")))).judged_by_estimates == {"p95 over 15m": 1}
    world.send(metric("a", aggregated=(long,)))
    decision = only(world.send(request(pod("d"))))
    assert (decision.judged_by_estimates, decision.message) == (None, "")
    world.send(metric("a", aggregated=(short,)), tick(600))
    assert compute_figures(world.state).nodes_by_estimates == 0


def test_a_missing_statistic_of_an_expired_metric_is_named_where_the_filter_uses_it() -> None:
    for filtered, expected in ((False, {"p95 over 15m": 1}), (True, None)):
        world = World()
        document = f"{_BY_P95}  filterExpiredNodeMetrics: {str(filtered).lower()}\n"
        world.send(tick(), policy_record(document), node("a"), metric("a"), tick(600))
        assert compute_figures(world.state).nodes_by_estimates == (not filtered)
        assert only(world.send(request(pod("huge", cpu="9999")))).judged_by_estimates == expected
        world.restart()
        assert only(world.send(request(pod("other", cpu="9998")))).judged_by_estimates == expected


def test_a_decision_names_the_statistic_that_replaces_one_that_is_not_recorded() -> None:
    instead = "p95 over 10m"
    entries = (aggregated(300, p95={"cpu": 7_000}), aggregated(600, p95={"cpu": 9_000}))
    world = World(
        tick(),
        policy_record(_BY_P95.replace("compat: koordinator", "whenOverloaded: wait")),
        node("a", cpu="10"),
    )
    world.send(metric("a", cpu=9_000, aggregated=entries))
    answer = only(world.send(request(pod("p", cpu="1m"))))
    assert answer.outcome == "waiting"
    assert answer.judged_by_other_statistics == {f"p95 over 15m: {instead}": 1}
    assert answer.judged_by_estimates is None
    message = f" (p95 over 15m is not recorded on 1 node, judged by {instead})"
    assert answer.message.endswith(message)


@pytest.mark.parametrize("score", ["LoadAwareScheduling", "OverutilizationRisk"])
def test_a_resource_that_a_metric_lacks_is_unknown_and_named(score: str) -> None:
    world = World()
    gpus = {"cpu": "10", "memory": "32Gi", "pods": "100", "nvidia.com/gpu": "8"}
    document = f"""
loadAware: {{usageThresholds: {{cpu: 80}}, resourceWeights: {{nvidia.com/gpu: 1}}, estimatedScalingFactors: {{nvidia.com/gpu: 100}}}}
overutilizationRisk: {{resources: [{{name: nvidia.com/gpu}}]}}
plugins: {{score: [{score}]}}
"""
    world.send(tick(), policy_record(document))
    world.send(*(node(name, allocatable=gpus) for name in ("blind", "seen")))
    asks = {"cpu": "1m", "nvidia.com/gpu": "1"}
    of_both = [
        pod(f"{name}-{number}", node=name, containers=(container(asks, asks),))
        for name in ("blind", "seen")
        for number in range(6 if name == "blind" else 3)
    ]
    world.send(*(lifecycle("seen", member) for member in of_both))
    used = {"cpu": 10, "memory": 1}
    world.send(
        tick(300),
        metric("blind", usage=used, seconds=300),
        metric("seen", usage={**used, "nvidia.com/gpu": 3}, seconds=300),
    )
    decision = only(world.send(request(pod("p", containers=(container(asks, asks),)))))
    assert (decision.outcome, decision.node) == ("placed", "seen")
    assert decision.unknown_usage == {"nvidia.com/gpu": 1}
    assert decision.message == "nvidia.com/gpu usage is unknown on 1 node"
