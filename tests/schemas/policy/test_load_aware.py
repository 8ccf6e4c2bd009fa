"""LoadAwareSchedulingArgs get the defaults that Koordinator gives them, and its checks."""

from typing import Any

import pytest

from schemas.policy import effective_yaml, read_policy
from tests.plugin_arguments import load_aware_args
from tests.schemas.policy.harness import problems


def test_defaults_equal_those_of_koordinator() -> None:
    args = load_aware_args({})
    assert args.filter_expired_node_metrics is True
    assert args.node_metric_expiration_seconds == 180
    assert args.enable_schedule_when_node_metrics_expired is False
    assert args.resource_weights == {"cpu": 1, "memory": 1}
    assert args.dominant_resource_weight == 0
    assert args.usage_thresholds == {"cpu": 65, "memory": 95}
    assert args.prod_usage_thresholds == {}
    assert args.estimated_scaling_factors == {"cpu": 85, "memory": 70}
    assert args.estimated_seconds_after_pod_scheduled is None
    assert args.estimated_seconds_after_initialized is None
    assert args.aggregated is None
    assert args.resources == ("cpu", "memory")


@pytest.mark.parametrize(
    ("configured", "thresholds"),
    [
        ({}, {"cpu": 65, "memory": 95}),
        (None, {"cpu": 65, "memory": 95}),
        ({"cpu": 70}, {"cpu": 70}),
        ({"cpu": 0, "memory": 0}, {"cpu": 0, "memory": 0}),
    ],
)
def test_a_threshold_map_replaces_the_whole_default(
    configured: dict[str, int] | None, thresholds: dict[str, int]
) -> None:
    assert load_aware_args({"usageThresholds": configured}).usage_thresholds == thresholds


_UPSTREAMS, _OURS = {"cpu": 65, "memory": 95}, {"cpu": 75, "memory": 95}


@pytest.mark.parametrize(
    "text",
    [
        "mode: enforce",
        "loadAware: {usageThresholds: {}}",
        "loadAware: {usageThresholds: null, filterExpiredNodeMetrics: true}",
        "plugins: {score: [OverutilizationRisk]}",
        "plugins: {balance: [LowNodeLoad]}",
    ],
)
def test_the_default_filter_threshold_follows_the_hot_percentage(text: str) -> None:
    policy = read_policy(text)
    assert policy.load_aware.usage_thresholds == _OURS
    hot = {resource.name: resource.percent for resource in policy.overutilization_risk.resources}
    assert policy.load_aware.usage_thresholds["cpu"] == hot["cpu"]
    again = read_policy(effective_yaml(policy))
    assert (again, again.load_aware.usage_thresholds) == (policy, _OURS)


@pytest.mark.parametrize(
    "text",
    [
        "compat: koordinator",
        "{compat: koordinator, plugins: {score: [NodeResourcesFit]}}",
        "plugins: {score: [LoadAwareScheduling]}",
        "plugins: {score: [OverutilizationRisk, LoadAwareScheduling]}",
        "plugins: {score: [NodeResourcesFit]}",
        "plugins: {filter: [NodeResourcesFit, LoadAwareScheduling]}",
    ],
)
def test_a_named_filter_has_the_thresholds_of_koordinator(
    text: str,
) -> None:
    policy = read_policy(text)
    assert policy.plugins.filters("LoadAwareScheduling")
    assert policy.load_aware.usage_thresholds == _UPSTREAMS
    assert read_policy(effective_yaml(policy)) == policy


def test_a_missing_threshold_follows_the_hot_percentage() -> None:
    hot = read_policy("overutilizationRisk: {resources: [{name: cpu, hotPercent: 60}]}")
    assert hot.load_aware.usage_thresholds == {"cpu": 60, "memory": 95}
    assert read_policy(effective_yaml(hot)) == hot
    not_judged = read_policy("overutilizationRisk: {resources: [{name: memory}]}")
    assert not_judged.load_aware.usage_thresholds == _UPSTREAMS


def test_given_thresholds_always_apply() -> None:
    for thresholds in ({"cpu": 65, "memory": 95}, {"memory": 80}, {"cpu": 0}):
        text = f"loadAware: {{usageThresholds: {thresholds}}}".replace("'", "")
        assert read_policy(text).load_aware.usage_thresholds == thresholds


@pytest.mark.parametrize(
    ("raw", "weights"),
    [
        ({}, {"cpu": 1, "memory": 1}),
        ({"resourceWeights": {}}, {"cpu": 1, "memory": 1}),
        ({"dominantResourceWeight": 0}, {"cpu": 1, "memory": 1}),
        ({"dominantResourceWeight": 1}, {}),
        ({"dominantResourceWeight": 1, "resourceWeights": {"cpu": 2}}, {"cpu": 2}),
    ],
)
def test_weights_have_defaults_only_without_a_dominant_weight(
    raw: dict[str, Any], weights: dict[str, int]
) -> None:
    assert load_aware_args(raw).resource_weights == weights


def test_missing_scaling_factors_get_defaults() -> None:
    args = load_aware_args({"estimatedScalingFactors": {"cpu": 50, "example.com/gpu": 100}})
    assert args.estimated_scaling_factors == {"cpu": 50, "memory": 70, "example.com/gpu": 100}


def test_aggregated_filters_only_with_thresholds_and_a_type() -> None:
    whole = {"usageThresholds": {"cpu": 60}, "usageAggregationType": "p95"}
    for fields in (whole, *({name: whole[name]} for name in whole)):
        read = load_aware_args({"aggregated": fields}).aggregated
        assert read is not None
        assert read.filters == (fields is whole)


def test_thresholds_of_prod_pods_are_not_checked() -> None:
    args = load_aware_args({"prodUsageThresholds": {"cpu": 150}})
    assert args.prod_usage_thresholds == {"cpu": 150}


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        ({"usageThreshold": {}}, "usageThreshold", 'did you mean "usageThresholds"?'),
        ({"usage_thresholds": {}}, "usage_thresholds", 'did you mean "usageThresholds"?'),
        ({"xyz": None}, "xyz", "unknown field; allowed: filterExpiredNodeMetrics,"),
        ({"aggregated": {"usageType": "p95"}}, "aggregated.usageType", "unknown field"),
        ({"kind": "LoadAwareSchedulingArgs"}, "kind", "unknown field"),
        ([], "", "found an empty list; allowed is a map"),
    ],
)
def test_fields_unknown_to_koordinator_are_refused(raw: Any, path: str, message: str) -> None:
    messages = problems(load_aware_args, raw)
    assert list(messages) == [path]
    assert message in messages[path]
