from schemas.policy import read_policy
from schemas.policy.collected import uncollected

ASKS = """
loadAware:
  aggregated:
    usageThresholds: {cpu: 70}
    usageAggregationType: p95
    usageAggregatedDuration: 15m
    scoreAggregationType: p90
    scoreAggregatedDuration: 10m
plugins: {score: [LoadAwareScheduling]}
"""


def test_the_default_policy_asks_for_nothing_that_is_not_recorded() -> None:
    assert uncollected(read_policy("")) == ()


def test_a_window_that_is_not_recorded_is_named_with_those_that_are() -> None:
    (said,) = uncollected(read_policy(ASKS))
    assert said == (
        "loadAware.aggregated.usageAggregatedDuration is 15m, and collect.metricAggregatePolicy.durations are "
        "5m, 10m, 30m: nodes are judged by estimates; record that duration, or ask for one that is recorded"
    )


def test_every_pool_must_record_it() -> None:
    collect = """
collect:
  metricAggregatePolicy: {durations: [10m, 15m]}
  pools:
    - name: web
      metricAggregatePolicy: {durations: [15m]}
    - name: batch
      metricReportIntervalSeconds: 30
"""
    (said,) = uncollected(read_policy(ASKS + collect))
    assert said.startswith(
        "loadAware.aggregated.scoreAggregatedDuration is 10m, and collect.pools[web]."
    )


def test_the_longest_window_is_always_recorded() -> None:
    assert uncollected(read_policy(ASKS.replace("15m", "0s"))) == ()


def test_a_metric_that_is_too_old_before_the_next_one_comes_is_named() -> None:
    slow = "collect: {metricReportIntervalSeconds: 180}\n"
    by_thresholds = "plugins: {balance: [LowNodeLoad]}\n"
    (said,) = uncollected(read_policy(slow + by_thresholds))
    assert said.startswith(
        "loadAware.nodeMetricExpirationSeconds is 180, and collect.metricReportIntervalSeconds is 180: "
    )
    hot = "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}}\n"
    for rounds in (hot + by_thresholds, ""):  # those by risk need no thresholds
        warned = uncollected(read_policy(slow + rounds))
        assert [each.split(".")[0] for each in warned] == ["loadAware", "rebalance"]
    older = "".join(
        f"{section}: {{nodeMetricExpirationSeconds: 181}}\n"
        for section in ("loadAware", "rebalance")
    )
    assert uncollected(read_policy(slow + older)) == ()


def test_a_statistic_that_no_enabled_plugin_asks_for_is_not_warned_of() -> None:
    asked = ASKS.replace("10m", "20m")
    named = [each.split()[0].rpartition(".")[2] for each in uncollected(read_policy(asked))]
    assert named == ["usageAggregatedDuration", "scoreAggregatedDuration"]
    by_risk = asked.replace("score: [LoadAwareScheduling]", "filter: [NodeResourcesFit]")
    assert uncollected(read_policy(by_risk)) == ()
    without = asked.replace("    usageThresholds: {cpu: 70}\n", "")
    named = [each.split()[0].rpartition(".")[2] for each in uncollected(read_policy(without))]
    assert named == ["scoreAggregatedDuration"]


def test_an_age_that_no_plugin_goes_by_is_not_named() -> None:
    slow = "collect: {metricReportIntervalSeconds: 180}\n"
    for by_none in (
        "plugins: {filter: [], balance: []}\n",
        "plugins: {balance: []}\nloadAware: {filterExpiredNodeMetrics: false}\n",
    ):
        assert uncollected(read_policy(slow + by_none)) == ()
    scored = "plugins: {balance: [], score: [LoadAwareScheduling]}\n"
    (said,) = uncollected(
        read_policy(slow + scored + "loadAware: {filterExpiredNodeMetrics: false}")
    )
    assert said.startswith("loadAware.nodeMetricExpirationSeconds")
