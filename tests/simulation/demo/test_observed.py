"""What the answers say: nodes, heat and decisions."""

from typing import Any

import pytest

from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.metrics import AggregatedUsage, NodeMetric
from schemas.messages.pods import PodRef
from schemas.policy import read_policy
from simulation.cluster.machines import Machine
from simulation.demo.observed import Observed

NOW_MS = 1_772_409_600_000
MACHINES = [Machine("n1", 10_000, 1000), Machine("n2", 10_000, 1000)]
BY_P95 = (
    "loadAware:\n  aggregated:\n    usageThresholds: {cpu: 70}\n    usageAggregationType: p95\n"
)


def metric(cpu: int = 3000, memory: int = 200, p95: dict[int, int] | None = None) -> NodeMetric:
    """A metric of n1; `p95` is cpu by minutes of the window."""
    return NodeMetric(
        cluster="c",
        node="n1",
        updated_at_ms=NOW_MS,
        usage={"cpu": cpu, "memory": memory},
        aggregated=tuple(
            AggregatedUsage(duration_ms=minutes * 60_000, usage={"p95": {"cpu": value}})
            for minutes, value in (p95 or {}).items()
        ),
    )


def decision(outcome: Any = "placed", uid: str = "a", **more: Any) -> PlacementDecision:
    """A decision on a pod."""
    values: dict[str, Any] = {
        "decision_id": "0123456789abcdef",
        "cluster": "c",
        "pod": PodRef(namespace="demo", name=uid, uid=uid),
        "outcome": outcome,
        "node": "n1" if outcome == "placed" else None,
        "decided_at_ms": NOW_MS,
        "as_of": AsOf(partition=0, offsets={}, policy_digest="default"),
    }
    return PlacementDecision(**{**values, **more})


def test_usage_is_reported_as_shares_of_the_machine() -> None:
    observed = Observed(MACHINES, read_policy(""))
    observed.metric(metric(p95={30: 5000, 5: 4000}))
    node = observed.nodes["n1"]
    assert (node.cpu, node.memory, node.cpu_p95) == (0.3, 0.2, 0.5)
    assert "memory" not in node.p95
    assert observed.unknown_nodes == ["n2"]


@pytest.mark.parametrize(
    ("policy", "reported", "full"),
    [
        (BY_P95, metric(cpu=1000, p95={30: 7049}), False),
        (BY_P95, metric(cpu=1000, p95={30: 7050}), True),
        (BY_P95, metric(cpu=9000, p95={30: 5000}), False),
        (BY_P95, metric(cpu=9000), True),
        ("", metric(cpu=7500), False),
        ("", metric(cpu=7600), True),
        ("", metric(memory=960), True),
        ("loadAware: {usageThresholds: {cpu: 0, memory: 95}}", metric(cpu=10_000), False),
    ],
)
def test_a_node_is_full_where_the_policy_would_put_no_pod(
    policy: str, reported: NodeMetric, full: bool
) -> None:
    observed = Observed(MACHINES, read_policy(policy))
    observed.metric(reported)
    assert observed.nodes["n1"].full is full
    assert observed.full_nodes == ["n1"] * full


def test_a_metric_without_figures_or_of_a_stranger_changes_nothing() -> None:
    observed = Observed(MACHINES, read_policy(""))
    observed.metric(metric().model_copy(update={"node": "n9"}))
    observed.metric(metric().model_copy(update={"usage": None}))
    assert observed.unknown_nodes == ["n1", "n2"]
    assert observed.metrics == 2


def test_the_newest_decision_on_a_pod_is_its_outcome() -> None:
    observed = Observed(MACHINES, read_policy(""))
    observed.decision(decision("waiting"))
    observed.decision(decision("waiting", uid="b"))
    observed.decision(decision("placed"))
    assert [d.pod.uid for d in observed.of_outcome("placed")] == ["a"]
    assert [d.pod.uid for d in observed.waiting()] == ["b"]
    assert observed.decisions == {"waiting": 2, "placed": 1}
