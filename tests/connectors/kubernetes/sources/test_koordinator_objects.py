"""NodeMetric objects, as Koordinator's own types marshal them, as messages."""

from typing import Any

import orjson
import pytest

from connectors.kubernetes.sources.koordinator_objects import (
    CollectIntervals,
    PolicyUnreadable,
    convert_node_metric,
    read_config_map,
)
from schemas.topics.codec import decode, encode
from tests.connectors.kubernetes.sources.builders import document

GIB = 2**30


def _document(**status: Any) -> dict[str, Any]:
    found: dict[str, Any] = document("koordinator_node_metric")
    found["status"] |= status
    return found


def test_koordinators_object_is_a_message() -> None:
    message = convert_node_metric("c", _document(), 60_000)
    assert (message.cluster, message.node, message.removed) == ("c", "node-1", False)
    assert message.updated_at_ms == 1_772_366_400_000
    assert message.report_interval_ms == 60_000
    assert message.usage == {"cpu": 1_200, "memory": 4 * GIB}
    assert message.system_usage == {"cpu": 200, "memory": GIB}
    (aggregated,) = message.aggregated
    assert aggregated.duration_ms == 300_000
    assert aggregated.usage == {
        "avg": {"cpu": 1_000, "memory": 4 * GIB},
        "p95": {"cpu": 1_500, "memory": 5 * GIB},
    }
    assert message.aggregated_system == message.aggregated
    (pod,) = message.pods
    assert (pod.namespace, pod.name, pod.priority_class) == ("shop", "web-0", "koord-prod")
    assert pod.usage == {"cpu": 900, "memory": 2 * GIB}
    (application,) = message.host_applications
    assert (application.name, application.priority_class) == ("nginx", "koord-batch")
    assert decode("node-metrics", encode(message)) == message


def test_an_object_without_a_report_gives_no_metric() -> None:
    message = convert_node_metric("c", {"metadata": {"name": "n"}, "status": {}}, None)
    assert message.usage is None
    assert message.updated_at_ms is None
    assert message.report_interval_ms is None


def test_a_quantity_may_be_a_number() -> None:
    metric = {"nodeUsage": {"resources": {"cpu": 2}}}
    assert convert_node_metric("c", _document(nodeMetric=metric), None).usage == {"cpu": 2_000}


@pytest.mark.parametrize(
    "status",
    [
        {"nodeMetric": {"nodeUsage": {"resources": {"cpu": "many"}}}},
        {"nodeMetric": {"aggregatedNodeUsages": [{"duration": "long", "usage": {}}]}},
        {"nodeMetric": []},
        {"podsMetric": [{"name": "a"}]},
        {"podsMetric": [{"name": "a", "namespace": "b", "podUsage": {"resources": {"cpu": "-1"}}}]},
    ],
)
def test_what_cannot_be_read_is_an_error(status: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        convert_node_metric("c", _document(**status), None)


def _config(**config: object) -> CollectIntervals:
    return read_config_map({"data": {"colocation-config": orjson.dumps(config).decode()}})


def _spec(seconds: object) -> dict[str, object]:
    return {"metricCollectPolicy": {"reportIntervalSeconds": seconds}}


def test_settings_of_the_object_take_precedence() -> None:
    intervals = _config(metricReportIntervalSeconds=30)
    assert intervals.report_ms(_spec(90), {}) == 90_000
    assert intervals.report_ms({}, {}) == 30_000
    assert intervals.report_ms(_spec(0), {}) == 30_000
    assert CollectIntervals().report_ms({}, {}) is None


def test_the_first_policy_that_selects_a_node_applies_and_inherits() -> None:
    intervals = _config(
        metricReportIntervalSeconds=30,
        nodeConfigs=[
            {"nodeSelector": {"matchLabels": {"pool": "a"}}, "metricReportIntervalSeconds": 10},
            {"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}},
            {"metricReportIntervalSeconds": 5},
        ],
    )
    assert intervals.report_ms({}, {"pool": "a"}) == 10_000
    assert intervals.report_ms({}, {"pool": "b"}) == 30_000
    assert intervals.report_ms({}, {}) == 30_000


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ({"key": "pool", "operator": "In", "values": ["a"]}, True),
        ({"key": "pool", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "other", "operator": "DoesNotExist"}, True),
        ({"key": "pool", "operator": "Greater", "values": ["a"]}, False),
    ],
)
def test_expressions_select(expression: dict[str, object], selected: bool) -> None:
    intervals = _config(
        nodeConfigs=[
            {"nodeSelector": {"matchExpressions": [expression]}, "metricReportIntervalSeconds": 7}
        ]
    )
    assert intervals.report_ms({}, {"pool": "a"}) == (7_000 if selected else None)


@pytest.mark.parametrize("text", ["{", "[]", '{"nodeConfigs": [3]}'])
def test_a_config_map_that_cannot_be_read_says_which_one(text: str) -> None:
    with pytest.raises(PolicyUnreadable, match="koordinator-system/slo-controller-config"):
        read_config_map({"data": {"colocation-config": text}})


@pytest.mark.parametrize(
    "selector",
    [
        "pool=a",
        {"matchLabels": ["a"]},
        {"matchExpressions": {"key": "pool"}},
        {"matchExpressions": ["pool"]},
        {"matchExpressions": [{"key": "pool", "operator": "In", "values": 5}]},
        {"matchExpressions": [{"key": ["pool"], "operator": "Exists"}]},
    ],
)
def test_a_selector_of_another_shape_is_refused_whole(selector: object) -> None:
    with pytest.raises(PolicyUnreadable, match="slo-controller-config, colocation-config: "):
        _config(nodeConfigs=[{"nodeSelector": selector, "metricReportIntervalSeconds": 7}])
