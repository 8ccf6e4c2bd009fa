from schemas.policy import read_policy
from streams.aggregate.collect_policies import CollectRules, PoolRules

DOCUMENT = """
collect:
  metricAggregateDurationSeconds: 120
  metricMemoryCollectPolicy: usageWithPageCache
  pools:
    - name: slow
      metricReportIntervalSeconds: 300
      metricAggregatePolicy:
        durations: [1h]
    - name: without
      metricMemoryCollectPolicy: usageWithoutPageCache
"""


def test_defaults_are_koordinators() -> None:
    assert PoolRules.from_policies(*read_policy("").collect.as_messages) == PoolRules()
    assert CollectRules() == CollectRules(
        300_000, 60_000, (300_000, 600_000, 1_800_000), "usage_without_page_cache_bytes"
    )


def test_a_pool_inherits_the_settings_that_it_does_not_set() -> None:
    collecting = PoolRules.from_policies(*read_policy(DOCUMENT).collect.as_messages)
    durations_ms = (300_000, 600_000, 1_800_000)
    with_cache, without = "usage_with_page_cache_bytes", "usage_without_page_cache_bytes"
    assert collecting.get_rules(None) == CollectRules(120_000, 60_000, durations_ms, with_cache)
    assert collecting.get_rules("slow") == CollectRules(120_000, 300_000, (3_600_000,), with_cache)
    assert collecting.get_rules("without") == CollectRules(120_000, 60_000, durations_ms, without)
    assert collecting.get_rules("unknown") == collecting.get_rules(None)


def test_samples_are_kept_for_the_longest_window_of_any_pool() -> None:
    collecting = PoolRules.from_policies(*read_policy(DOCUMENT).collect.as_messages)
    assert collecting.horizon_ms == 3_600_000
    assert collecting.average_horizon_ms == 120_000
    assert PoolRules(CollectRules(average_ms=900_000, durations_ms=(60_000,))).horizon_ms == 900_000
