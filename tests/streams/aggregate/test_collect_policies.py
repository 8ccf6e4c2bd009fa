from schemas.policy import read_policy
from streams.aggregate.collect_policies import PoolRules
from tests.streams.builders import collect_policy

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
    assert PoolRules().default == collect_policy(300, 60, (300, 600, 1_800))


def test_a_pool_inherits_the_settings_that_it_does_not_set() -> None:
    collecting = PoolRules(*read_policy(DOCUMENT).collect.as_messages)
    default = collect_policy(120, 60, (300, 600, 1_800))
    with_cache = {"memory": "usageWithPageCache"}
    slow = collect_policy(120, 300, (3_600,)).model_copy(update=with_cache)
    assert collecting.get_rules(None) == default.model_copy(update=with_cache)
    assert collecting.get_rules("slow") == slow
    assert collecting.get_rules("without") == default
    assert collecting.get_rules("unknown") == collecting.get_rules(None)


def test_samples_are_kept_for_the_longest_window_of_any_pool() -> None:
    collecting = PoolRules(*read_policy(DOCUMENT).collect.as_messages)
    assert collecting.horizon_ms == 3_600_000
    assert collecting.average_horizon_ms == 120_000
    assert PoolRules(collect_policy(900, 60, (60,))).horizon_ms == 900_000
