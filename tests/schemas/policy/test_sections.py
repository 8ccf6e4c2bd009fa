"""The sections of a policy besides the load-aware ones."""

from typing import Any

import pytest

from schemas.policy import (
    CollectPolicies,
    NodeResourceLimitsAwareArgs,
    OverutilizationRiskArgs,
)
from schemas.policy.parts import PolicyPart
from schemas.policy.sections.evictor import DefaultEvictorArgs
from schemas.policy.sections.migration import MigrationControllerArgs
from schemas.policy.sections.resources_fit import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from schemas.policy.validation import build_model
from tests.schemas.policy.harness import problems


def test_migration_has_the_defaults_of_koordinator() -> None:
    args = build_model(MigrationControllerArgs, {})
    assert args.default_job_mode == "ReservationFirst"
    assert args.default_job_ttl_ms == 300_000
    assert args.scheduler_names == ("loadstream", "koord-scheduler")
    assert (args.evict_qps, args.evict_burst, args.eviction_policy) == (10, 1, "Eviction")
    assert args.max_migrating_per_node == 2
    assert args.max_migrating_globally is None
    assert args.max_migrating_per_workload is None
    assert {name: limiter.duration_ms for name, limiter in args.object_limiters.items()} == {
        "workload": 300_000
    }
    assert args.arbitration_args.interval_ms == 500


def test_limits_per_workload_are_numbers_or_percentages() -> None:
    args = build_model(
        MigrationControllerArgs,
        {
            "maxMigratingPerWorkload": "10%",
            "maxUnavailablePerWorkload": 3,
            "objectLimiters": {"namespace": {"duration": "1m", "maxMigrating": 5, "burst": 2}},
            "evictQPS": "2.5",
        },
    )
    assert args.max_migrating_per_workload == "10%"
    assert args.max_unavailable_per_workload == 3
    assert list(args.object_limiters) == ["namespace"]
    assert args.evict_qps == 2.5


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"maxMigratingPerWorkload": "10"}, "maxMigratingPerWorkload"),
        ({"maxMigratingPerWorkload": "10%\n"}, "maxMigratingPerWorkload"),
        ({"maxMigratingPerWorkload": True}, "maxMigratingPerWorkload"),
        ({"maxMigratingPerWorkload": -1}, "maxMigratingPerWorkload"),
        ({"maxMigratingPerNode": -1}, "maxMigratingPerNode"),
        ({"evictQPS": 0}, "evictQPS"),
        ({"evictQPS": "fast"}, "evictQPS"),
        ({"evictBurst": 0}, "evictBurst"),
        ({"defaultJobMode": "Evict"}, "defaultJobMode"),
        ({"defaultJobTTL": "-10m"}, "defaultJobTTL"),
        ({"evictionPolicy": "Remove"}, "evictionPolicy"),
        ({"objectLimiters": {"node": {}}}, "objectLimiters.node"),
        ({"objectLimiters": {"workload": {"duration": 5}}}, "objectLimiters.workload.duration"),
        ({"namespaces": {"include": ["a"], "exclude": ["b"]}}, "namespaces.exclude"),
        (
            {"labelSelector": {"matchLabels": {"test/a/b": "1"}}},
            'labelSelector.matchLabels["test/a/b"]',
        ),
        ({"nodeSelector": "a in b"}, "nodeSelector"),
        ({"priorityThreshold": {"value": 1, "name": "high"}}, "priorityThreshold.name"),
        ({"arbitrationArgs": {"interval": "0s"}}, "arbitrationArgs.interval"),
        ({"skipEvictionGates": ["max-migrating"]}, "skipEvictionGates[0]"),
        ({"defaultDeleteOptions": {"gracePeriod": 3}}, "defaultDeleteOptions.gracePeriod"),
    ],
)
def test_migration_refuses_the_values_that_koordinator_refuses(
    raw: dict[str, Any], path: str
) -> None:
    assert list(problems(build_model, MigrationControllerArgs, raw)) == [path]


def test_protections_of_pods_come_from_old_flags_or_from_lists() -> None:
    default = ("DaemonSetPods", "FailedBarePods", "PodsWithLocalStorage", "SystemCriticalPods")
    assert build_model(DefaultEvictorArgs, {}).protections == default
    flags = {"evictLocalStoragePods": True, "ignorePvcPods": True}
    lists = {"defaultDisabled": ["PodsWithLocalStorage"], "extraEnabled": ["PodsWithPVC"]}
    expected = ("DaemonSetPods", "FailedBarePods", "PodsWithPVC", "SystemCriticalPods")
    assert build_model(DefaultEvictorArgs, flags).protections == expected
    assert build_model(DefaultEvictorArgs, {"podProtections": lists}).protections == expected
    assert list(problems(build_model, DefaultEvictorArgs, {**flags, "podProtections": lists})) == [
        "podProtections"
    ]


def test_protections_can_be_limited_to_storage_classes() -> None:
    config = {"PodsWithPVC": {"protectedStorageClasses": [{"name": "ssd"}]}}
    args = build_model(
        DefaultEvictorArgs, {"podProtections": {"config": config}, "minPodAge": "5m"}
    )
    assert args.min_pod_age_ms == 300_000
    assert args.pod_protections.config is not None


def test_resource_limits_weigh_cpu_and_memory_and_take_the_request_by_default() -> None:
    args = build_model(NodeResourceLimitsAwareArgs, {})
    assert args.weights == {"cpu": 1, "memory": 1}
    assert args.default_limit_of("cpu") == "request"


def test_default_limits_are_quantities_in_the_unit_of_their_resource() -> None:
    args = build_model(
        NodeResourceLimitsAwareArgs,
        {
            "resources": [{"name": "memory", "weight": 3}, {"name": "cpu"}],
            "defaultLimit": {"cpu": "500m", "memory": "1Gi"},
        },
    )
    assert list(args.weights.items()) == [("memory", 3), ("cpu", 1)]
    assert args.default_limit_of("cpu") == 500
    assert args.default_limit_of("memory") == 2**30


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"resources": [{"weight": 1}]}, "resources[0].name"),
        ({"resources": [{"name": "cpu", "weight": 101}]}, "resources[0].weight"),
        ({"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "resources[1].name"),
        ({"defaultLimit": {"cpu": 1}}, "defaultLimit.cpu"),
        ({"defaultLimit": {"cpu": "-1"}}, "defaultLimit.cpu"),
        ({"defaultLimit": {"cpu": "all"}}, "defaultLimit.cpu"),
        ({"defaultLimit": {"pods": "1"}}, "defaultLimit.pods"),
    ],
)
def test_resource_limits_refuse_invalid_values(raw: dict[str, Any], path: str) -> None:
    assert list(problems(build_model, NodeResourceLimitsAwareArgs, raw)) == [path]


def test_scores_by_requests_weigh_cpu_and_memory_by_default() -> None:
    assert build_model(NodeResourcesFitArgs, {}).scoring_strategy.weights == {"cpu": 1, "memory": 1}
    evened = build_model(NodeResourcesBalancedAllocationArgs, {"resources": []}).resources
    assert [(resource.name, resource.weight) for resource in evened] == [("cpu", 1), ("memory", 1)]


@pytest.mark.parametrize(
    ("model", "raw", "path"),
    [
        (NodeResourcesFitArgs, {"scoringStrategy": {"type": "Most"}}, "scoringStrategy.type"),
        (
            NodeResourcesFitArgs,
            {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "cpu"}]}},
            "scoringStrategy.resources[1].name",
        ),
        (
            NodeResourcesFitArgs,
            {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
            "scoringStrategy.resources[0].weight",
        ),
        (
            NodeResourcesBalancedAllocationArgs,
            {"resources": [{"name": "cpu"}, {"name": "memory", "weight": 2}]},
            "resources[1].weight",
        ),
        (
            NodeResourcesBalancedAllocationArgs,
            {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
            "resources[1].name",
        ),
    ],
)
def test_scores_by_requests_refuse_invalid_values(
    model: type[PolicyPart], raw: dict[str, Any], path: str
) -> None:
    assert list(problems(build_model, model, raw)) == [path]


def test_overutilization_considers_cpu_and_memory_by_default() -> None:
    args = build_model(OverutilizationRiskArgs, {})
    assert [(resource.name, resource.hot_share) for resource in args.resources] == [
        ("cpu", 0.75),
        ("memory", 0.8),
    ]
    args = build_model(OverutilizationRiskArgs, {"resources": [{"name": "gpu", "hotPercent": 50}]})
    assert args.resources[0].hot_share == 0.5


def test_overutilization_names_a_resource_once() -> None:
    twice = {"resources": [{"name": "cpu"}, {"name": "cpu", "hotPercent": 50}]}
    assert list(problems(build_model, OverutilizationRiskArgs, twice)) == ["resources[1].name"]


def test_a_pool_inherits_missing_fields_of_the_collect_policy() -> None:
    policies = build_model(
        CollectPolicies,
        {
            "metricAggregateDurationSeconds": 600,
            "pools": [
                {"name": "gpu", "metricReportIntervalSeconds": 30},
                {"name": "batch", "metricAggregatePolicy": {"durations": ["5m", "1h"]}},
            ],
        },
    )
    gpu, batch, other = (policies.of_pool(name) for name in ("gpu", "batch", "other"))
    assert gpu.metric_report_interval_seconds == 30
    assert gpu.metric_aggregate_duration_seconds == 600
    assert batch.metric_report_interval_seconds == 60
    assert batch.metric_aggregate_policy.durations_ms == (300_000, 3_600_000)
    assert other == policies.of_pool(None)
    assert other.metric_aggregate_policy.durations_ms == (300_000, 600_000, 1_800_000)
    assert other.metric_memory_collect_policy == "usageWithoutPageCache"


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"metricAggregateDurationSeconds": 59}, "metricAggregateDurationSeconds"),
        ({"metricReportIntervalSeconds": 29}, "metricReportIntervalSeconds"),
        ({"metricMemoryCollectPolicy": "rss"}, "metricMemoryCollectPolicy"),
        ({"metricAggregatePolicy": {"durations": ["0s"]}}, "metricAggregatePolicy.durations[0]"),
        ({"metricAggregatePolicy": {"durations": ["13h"]}}, "metricAggregatePolicy.durations[0]"),
        (
            {"metricAggregatePolicy": {"durations": ["5m", "300s"]}},
            "metricAggregatePolicy.durations[1]",
        ),
        ({"pools": [{"name": "a"}, {"name": "a"}]}, "pools[1].name"),
        ({"pools": [{}]}, "pools[0].name"),
    ],
)
def test_collect_policies_refuse_invalid_values(raw: dict[str, Any], path: str) -> None:
    assert list(problems(build_model, CollectPolicies, raw)) == [path]
