"""Errors and warnings about values of a policy that do not go together."""

import pytest

from schemas.policy import PolicyError, effective_yaml, read_policy

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


def _warned(text: str) -> list[str]:
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


def test_the_default_policy_has_no_warnings() -> None:
    assert read_policy("").warnings == ()


@pytest.mark.parametrize(
    ("section", "plugins"),
    [
        ("loadAware: {checkBoth: true}", "filter: [], score: []"),
        ("resourceLimits: {defaultLimit: {cpu: '1'}}", "score: []"),
        ("resourcesFit: {scoringStrategy: {resources: [{name: cpu}]}}", "score: []"),
        ("balancedAllocation: {resources: [{name: cpu}]}", "score: []"),
        ("overutilizationRisk: {excessWeight: 1}", "score: [], balance: []"),
        ("riskMoves: {gain: 1}", "balance: []"),
        ("rebalance: {numberOfNodes: 1}", "balance: []"),
    ],
)
def test_the_section_of_a_plugin_that_is_not_enabled_is_warned_of(
    section: str, plugins: str
) -> None:
    (warning,) = read_policy(f"plugins: {{{plugins}}}\n{section}\n").warnings
    assert (warning.path, warning.line) == (section.partition(":")[0], 2)
    enabled = "plugins: {score: [LoadAwareScheduling, NodeResourceLimitsAware, NodeResourcesFit, NodeResourcesBalancedAllocation]}\n"
    assert _warned(f"{enabled}{section}\n") == []


def test_the_printed_default_policy_has_no_warnings() -> None:
    assert _warned(effective_yaml(read_policy(""))) == []


def test_a_window_that_is_not_recorded_is_warned_of_with_those_that_are() -> None:
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


def test_the_longest_window_is_always_recorded() -> None:
    assert _warned(_AGGREGATED.replace("15m", "0s")) == []


def test_a_window_that_no_enabled_plugin_asks_for_is_not_warned_of() -> None:
    asked = _AGGREGATED.replace("10m", "20m")
    score = "loadAware.aggregated.scoreAggregatedDuration"
    assert _warned(asked) == ["loadAware.aggregated.usageAggregatedDuration", score]
    without = asked.replace("    usageThresholds: {cpu: 70}\n", "")
    assert _warned(without) == [score]


def test_a_metric_that_expires_before_the_next_one_is_warned_of() -> None:
    by_thresholds = "plugins: {balance: [LowNodeLoad]}\n"
    assert _warned(_SLOW + by_thresholds) == ["loadAware.nodeMetricExpirationSeconds"]
    both = ["loadAware.nodeMetricExpirationSeconds", "rebalance.nodeMetricExpirationSeconds"]
    hot = "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}}\n"
    assert sorted(_warned(_SLOW + hot + by_thresholds)) == both
    assert _warned(_SLOW) == both
    older = "".join(
        f"{section}: {{nodeMetricExpirationSeconds: 181}}\n"
        for section in ("loadAware", "rebalance")
    )
    assert _warned(_SLOW + older) == []


def test_an_expiration_that_no_enabled_plugin_reads_is_not_warned_of() -> None:
    for unread in (
        "plugins: {filter: [], balance: []}\n",
        "plugins: {balance: []}\nloadAware: {filterExpiredNodeMetrics: false}\n",
    ):
        assert _warned(_SLOW + unread) == []
    scored = "plugins: {balance: [], score: [LoadAwareScheduling]}\n"
    unfiltered = "loadAware: {filterExpiredNodeMetrics: false}\n"
    assert _warned(_SLOW + scored + unfiltered) == ["loadAware.nodeMetricExpirationSeconds"]


@pytest.mark.parametrize(
    ("maintenance", "path"),
    [
        ("windows: [{from: '22:00', to: '06:00'}], "
         "namespaces: [{name: shop, windows: [{from: '08:00', to: '22:00'}]}]",
         ["maintenance.namespaces[0]"]),
        ("windows: [{days: [sun]}], pools: [{name: __default_node_pool__, windows: [{days: [sat]}]}]",
         ["maintenance.pools[0]"]),
        ("namespaces: [{name: shop, windows: [{days: [mon]}]}]", []),
        ("windows: [{days: [sun]}], namespaces: [{name: shop, windows: []}]", []),
        ("windows: [{days: [sun]}, {days: [mon]}], namespaces: [{name: shop, windows: [{days: [mon]}]}]",
         []),
    ],
)  # fmt: skip
def test_a_maintenance_window_that_never_opens_is_warned_of(
    maintenance: str, path: list[str]
) -> None:
    assert _warned(f"maintenance: {{{maintenance}}}") == path
