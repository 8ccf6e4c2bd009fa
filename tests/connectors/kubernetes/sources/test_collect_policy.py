"""How often koordlet reports, by Koordinator's ConfigMap."""

import orjson
import pytest

from connectors.kubernetes.sources.collect_policy import (
    CollectIntervals,
    PolicyUnreadable,
    read_config_map,
)


def _config(**config: object) -> CollectIntervals:
    return read_config_map({"data": {"colocation-config": orjson.dumps(config).decode()}})


def _spec(seconds: object) -> dict[str, object]:
    return {"metricCollectPolicy": {"reportIntervalSeconds": seconds}}


def test_what_the_object_says_counts() -> None:
    intervals = _config(metricReportIntervalSeconds=30)
    assert intervals.report_ms(_spec(90), {}) == 90_000
    assert intervals.report_ms({}, {}) == 30_000
    assert intervals.report_ms(_spec(0), {}) == 30_000
    assert CollectIntervals().report_ms({}, {}) is None


def test_the_first_policy_that_selects_a_node_holds_and_inherits() -> None:
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
