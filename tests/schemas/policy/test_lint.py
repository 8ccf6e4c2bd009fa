"""Errors and warnings about values of a policy that contradict each other."""

import pytest

from schemas.policy import PolicyError, read_policy

_AGGREGATED = """
loadAware:
  aggregated:
    usageThresholds: {cpu: 70}
    usageAggregationType: p95
    usageAggregatedDuration: 15m
    scoreAggregationType: p90
    scoreAggregatedDuration: 10m
plugins: {score: [LoadAwareScheduling]}
"""
_SLOW = "collect: {metricReportIntervalSeconds: 180}\n"


def _warnings(text: str) -> list[str]:
    return [warning.path for warning in read_policy(text).warnings]


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("compat: koordinator\nplugins: {balance: [OverutilizationRisk]}", "plugins.balance",
         'allowed is "LowNodeLoad"'),
        ("\nrebalance: {nodePools: [{name: OverutilizationRisk}]}", "rebalance.nodePools[0].name",
         "allowed is another name"),
        ("\nmigration: {objectLimiters: {namespace: {duration: 5m, maxMigrating: 5%}}}",
         "migration.objectLimiters.namespace.maxMigrating", "allowed is an integer from 0"),
        ("plugins: {score: [NodeResourcesFit]}\n"
         "resourcesFit: {scoringStrategy: {type: MostAllocated}}", "resourcesFit.scoringStrategy.type",
         'allowed is "LeastAllocated"'),
    ],
)  # fmt: skip
def test_an_error_names_line_path_and_what_is_allowed(text: str, path: str, allowed: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policy(text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (path, 2)
    assert allowed in problem.message


@pytest.mark.parametrize(
    ("section", "plugins"),
    [
        ("loadAware: {checkBoth: true}", "filter: [], score: []"),
        ("resourceLimits: {defaultLimit: {cpu: '1'}}", "score: []"),
        ("resourcesFit: {scoringStrategy: {resources: [{name: cpu}]}}", "score: []"),
        ("balancedAllocation: {resources: [{name: cpu}]}", "score: []"),
        ("overutilizationRisk: {recentMinutes: 1}", "score: [], balance: []"),
        ("riskMoves: {minSavedMinutes: 1}", "balance: []"),
        ("rebalance: {numberOfNodes: 1}", "balance: []"),
    ],
)
def test_the_section_of_a_disabled_plugin_has_a_warning(section: str, plugins: str) -> None:
    warnings = read_policy(f"plugins: {{{plugins}}}\n{section}\n").warnings
    assert (section.partition(":")[0], 2) in [(warning.path, warning.line) for warning in warnings]
    enabled = "plugins: {score: [LoadAwareScheduling, NodeResourceLimitsAware, NodeResourcesFit, NodeResourcesBalancedAllocation]}\n"
    assert _warnings(f"{enabled}{section}\n") == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("loadAware: {aggregated: {usageThresholds: {cpu: 60}}}", "loadAware.aggregated.usageThresholds"),
        ("loadAware: {aggregated: {usageAggregationType: p95}}",
         "loadAware.aggregated.usageAggregationType"),
        ("loadAware: {scoreAccordingProdUsage: true}", "loadAware.scoreAccordingProdUsage"),
        ("loadAware: {dominantResourceWeight: 1}", "loadAware.dominantResourceWeight"),
        ("plugins: {filter: [NodeResourcesFit, LoadAwareScheduling]}", "plugins.filter"),
    ],
)  # fmt: skip
def test_a_value_without_effect_and_a_list_without_a_filter_have_a_warning(
    text: str, path: str
) -> None:
    assert _warnings(text) == [path]


def test_a_warning_about_an_unrecorded_window_lists_recorded_ones() -> None:
    (warning,) = read_policy(_AGGREGATED).warnings
    assert (warning.path, warning.line) == ("loadAware.aggregated.usageAggregatedDuration", 6)
    assert warning.message == (
        "found 15m, which collect.metricAggregatePolicy.durations does not record; "
        "recorded: 5m, 10m, 30m"
    )


def test_every_pool_must_record_a_window() -> None:
    collect = """
collect:
  metricAggregatePolicy: {durations: [10m, 15m]}
  pools:
    - name: web
      metricAggregatePolicy: {durations: [15m]}
    - name: batch
      metricReportIntervalSeconds: 30
"""
    (warning,) = read_policy(_AGGREGATED + collect).warnings
    assert warning.path == "loadAware.aggregated.scoreAggregatedDuration"
    assert "collect.pools[web].metricAggregatePolicy" in warning.message


def test_a_warning_names_metrics_that_expire_too_early() -> None:
    by_thresholds = "plugins: {balance: [LowNodeLoad]}\n"
    assert _warnings(_SLOW + by_thresholds) == ["loadAware.nodeMetricExpirationSeconds"]
    both = ["loadAware.nodeMetricExpirationSeconds", "rebalance.nodeMetricExpirationSeconds"]
    hot = "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}}\n"
    assert sorted(_warnings(_SLOW + hot + by_thresholds)) == both
    assert _warnings(_SLOW) == both
    older = "".join(
        f"{section}: {{nodeMetricExpirationSeconds: 181}}\n"
        for section in ("loadAware", "rebalance")
    )
    assert _warnings(_SLOW + older) == []


@pytest.mark.parametrize(
    ("maintenance", "path"),
    [
        ("windows: [{from: '22:00', to: '06:00'}], "
         "namespaces: [{name: shop, windows: [{from: '08:00', to: '22:00'}]}]",
         ["maintenance.namespaces[0]"]),
        ("windows: [{days: [sun]}], namespaces: [{name: shop, windows: [{days: [sat]}]}]",
         ["maintenance.namespaces[0]"]),
        ("namespaces: [{name: shop, windows: [{days: [mon]}]}]", []),
        ("windows: [{days: [sun]}], namespaces: [{name: shop, windows: []}]", []),
        ("windows: [{days: [sun]}, {days: [mon]}], namespaces: [{name: shop, windows: [{days: [mon]}]}]",
         []),
    ],
)  # fmt: skip
def test_a_maintenance_window_that_never_opens_has_a_warning(
    maintenance: str, path: list[str]
) -> None:
    assert _warnings(f"maintenance: {{{maintenance}}}") == path


HOT_AT_60 = "rebalance: {lowThresholds: {cpu: 30}, highThresholds: {cpu: 60}}\n"


def _problems(document: str) -> dict[str, str]:
    with pytest.raises(PolicyError) as refused:
        read_policy(document)
    return {problem.path: problem.message for problem in refused.value.problems}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ("loadAware: {usageThresholds: {memroy: 80}}", "loadAware.usageThresholds.memroy"),
        (
            "rebalance: {lowThresholds: {cpu: 9}, highThresholds: {cpu: 60}, resourceWeights: {memroy: 1}}",
            "rebalance.resourceWeights.memroy",
        ),
        ("overutilizationRisk: {resources: [{name: memroy}]}", "overutilizationRisk.resources[0].name"),
    ],
)  # fmt: skip
def test_a_resource_without_a_slash_that_kubernetes_does_not_know_is_refused(
    document: str, path: str
) -> None:
    assert 'did you mean "memory"?' in _problems(document)[path]
    if "overutilization" not in path:
        assert path in _warnings("compat: koordinator\n" + document)


def test_resources_of_kubernetes_and_of_devices_are_known() -> None:
    names = ("cpu", "memory", "pods", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")
    for name in names:
        read_policy(f"loadAware: {{usageThresholds: {{{name}: 80}}}}")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ("loadAware: {prodUsageThresholds: {cpu: 101}}", "loadAware.prodUsageThresholds.cpu"),
        (HOT_AT_60.replace("60", "150"), "rebalance.highThresholds.cpu"),
    ],
)
def test_a_threshold_above_100_percent_is_refused_unless_upstream_accepts_it(
    document: str, path: str
) -> None:
    assert "at most 100" in _problems(document)[path]
    read_policy("compat: koordinator\n" + document)


@pytest.mark.parametrize(
    ("low", "high", "more", "warned"),
    [
        (60, 60, "", ["rebalance.lowThresholds.cpu"]),
        (100, 100, "", []),
        (59, 60, "", []),
        (10, 10, ", useDeviationThresholds: true", []),
        (20, 10, ", useDeviationThresholds: true", []),
    ],
)
def test_equal_thresholds_have_a_warning_unless_they_disable_a_resource(
    low: int, high: int, more: str, warned: list[str]
) -> None:
    document = (
        f"rebalance: {{lowThresholds: {{cpu: {low}}}, highThresholds: {{cpu: {high}}}{more}}}"
    )
    assert _warnings(document) == warned
    if low <= high:
        assert _warnings(f"compat: koordinator\n{document}") == []


def test_a_warning_names_placement_thresholds_above_hot_ones() -> None:
    for placed, warned in ((70, ["rebalance.highThresholds.cpu"]), (60, []), (0, [])):
        assert _warnings(f"{HOT_AT_60}loadAware: {{usageThresholds: {{cpu: {placed}}}}}") == warned
    assert _warnings(HOT_AT_60) == []


def test_a_warning_names_intervals_longer_than_the_counters() -> None:
    apart = f"{HOT_AT_60}descheduling: {{deschedulingInterval: 10m}}\n"
    assert _warnings(apart) == ["descheduling.deschedulingInterval"]
    assert _warnings(apart.replace("30}", "30}, detectorCacheTimeout: 10m")) == []


def test_a_warning_names_limits_that_forbid_every_move() -> None:
    whole = "migration: {maxUnavailablePerWorkload: 100%"
    assert _warnings(whole + "}") == ["migration.maxUnavailablePerWorkload"]
    assert _warnings(whole + ", skipCheckExpectedReplicas: true}") == []
    assert _warnings("migration: {maxUnavailablePerWorkload: 50%}") == []


@pytest.mark.parametrize(
    ("document", "path", "text"),
    [
        ("rebalanc: {}", "rebalanc", 'did you mean "rebalance"?'),
        ("migration: {objectLimiters: {worklod: {}}}", "migration.objectLimiters.worklod",
         'did you mean "workload"?'),
    ],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_a_suggestion(document: str, path: str, text: str) -> None:
    assert text in _problems(document)[path]
