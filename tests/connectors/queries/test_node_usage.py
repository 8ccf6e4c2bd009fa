"""Usage of nodes, and the definitions of its numbers."""

import json
from typing import Any

from connectors.queries.cluster_reading import ClusterRecords
from connectors.queries.node_usage import describe_columns, list_node_usage, usage_table
from schemas.base.capacity import RAW_ALLOCATABLE_ANNOTATION
from schemas.messages.metrics import AggregatedUsage, NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.policies import PolicyRecord

NOW_MS = 1_795_000_000_000
GIB = 2**30


def node(name: str, **more: Any) -> NodeState:
    values: dict[str, Any] = {"allocatable": {"cpu": "4", "memory": "8Gi"}} | more
    return NodeState(cluster="blue", node=name, event="added", **values)


def metric(name: str, usage: dict[str, int], **more: Any) -> NodeMetric:
    values: dict[str, Any] = {"updated_at_ms": NOW_MS - 20_000, "samples": 30} | more
    return NodeMetric(cluster="blue", node=name, usage=usage, **values)


def records(nodes: list[NodeState], metrics: list[NodeMetric], policy: str = "") -> ClusterRecords:
    cluster = ClusterRecords("blue", NOW_MS)
    cluster.nodes = {state.node: state for state in nodes}
    cluster.metrics = {usage.node: usage for usage in metrics}
    cluster.policy = PolicyRecord(cluster="blue", document=policy, applied_at_ms=NOW_MS)
    return cluster


def test_percentages_are_of_allocatable() -> None:
    (row,) = list_node_usage(records([node("n1")], [metric("n1", {"cpu": 3_000, "memory": GIB})]))
    assert row.percent == {"cpu": 75.0, "memory": 12.5}
    assert row.age_ms == 20_000


def test_percentages_of_an_overcommitted_node_are_of_its_real_capacity() -> None:
    overcommitted = node("n1", annotations={RAW_ALLOCATABLE_ANNOTATION: json.dumps({"cpu": "2"})})
    (row,) = list_node_usage(records([overcommitted], [metric("n1", {"cpu": 1_000})]))
    assert row.percent == {"cpu": 50.0}


def test_unmeasured_nodes_have_no_percentage() -> None:
    rows = list_node_usage(records([node("n1"), node("n2")], [metric("n1", {"cpu": 400})]))
    assert [(row.node, dict(row.percent), row.state) for row in rows] == [
        ("n1", {"cpu": 10.0}, ()),
        ("n2", {}, ("no metric",)),
    ]
    assert [cells[4] for cells in usage_table(rows)[1:]] == ["-", "-"]


def test_the_percentile_is_taken_from_the_shortest_window_that_has_it() -> None:
    windows = [
        (60_000, {}),
        (1_800_000, {"p95": {"cpu": 3_000}}),
        (300_000, {"p95": {"cpu": 2_000}}),
    ]
    aggregated = tuple(AggregatedUsage(duration_ms=ms, usage=usage) for ms, usage in windows)  # type: ignore[arg-type]
    cluster = records([node("n1")], [metric("n1", {"cpu": 1}, aggregated=aggregated)])
    (row,) = list_node_usage(cluster)
    assert (row.p95_duration_ms, row.p95_percent) == (300_000, {"cpu": 50.0})


def test_a_metric_is_stale_at_the_limit_of_the_rounds() -> None:
    cluster = records([node("n1")], [metric("n1", {"cpu": 1})])
    assert list_node_usage(cluster)[0].state == ()
    document = "rebalance:\n  nodeMetricExpirationSeconds: 20\n"
    assert list_node_usage(records([node("n1")], [metric("n1", {"cpu": 1})], document))[0].state == (
        "stale",
    )  # fmt: skip


def test_all_nodes_are_listed_and_the_busiest_is_first() -> None:
    metrics = [
        metric("cpu", {"cpu": 3_900, "memory": 2 * GIB}),
        metric("memory", {"cpu": 100, "memory": 7 * GIB}),
        metric("idle", {"cpu": 200, "memory": GIB}, updated_at_ms=NOW_MS - 90_000),
    ]
    nodes = [node(name) for name in ("memory", "idle", "unknown", "cpu")]
    order = [row.node for row in list_node_usage(records(nodes, metrics))]
    assert order == ["cpu", "memory", "idle", "unknown"]


def test_the_definitions_name_the_window_of_the_policy_and_what_memory_counts() -> None:
    document = "collect:\n  metricAggregateDurationSeconds: 600\n"
    cluster = records([node("n1")], [metric("n1", {"cpu": 1}, memory_is="anonymous")], document)
    text = "\n".join(describe_columns(cluster, list_node_usage(cluster)))
    assert "mean over 10m" in text
    assert "anonymous" in text
    assert "aggregates" not in text


def test_the_window_of_aggregates_of_another_program_is_unknown() -> None:
    cluster = records([node("n1")], [metric("n1", {"cpu": 1}, samples=0)])
    assert "the program that computed them" in "\n".join(
        describe_columns(cluster, list_node_usage(cluster))
    )
