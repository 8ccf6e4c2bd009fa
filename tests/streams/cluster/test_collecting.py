"""A cluster's collect policy on its way through both stages."""

from collections.abc import Iterable
from typing import Any

from schemas.messages.collect import CollectPolicyRecord
from schemas.messages.metrics import NodeMetric
from schemas.topics.codec import decode
from schemas.topics.partitions import check_partition
from streams.aggregate.collect import AggregateLimits, CollectRules, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.batch_records import COLLECT_REPEAT_MS
from streams.stage.records import InputRecord, OutputRecord, StageResult
from tests.streams.aggregate.builders import Log as UsageLog
from tests.streams.aggregate.builders import node_in, sample
from tests.streams.aggregate.harness import store
from tests.streams.cluster.builders import CLUSTER, START_MS, policy_record, tick
from tests.streams.cluster.harness import Run

PARTITIONS = 4
DOCUMENT = """
collect:
  metricReportIntervalSeconds: 30
  metricAggregatePolicy: {durations: [1m]}
  pools:
    - name: slow
      metricReportIntervalSeconds: 120
"""
#: What a worker has without a policy in the log.
OF_FILE = PoolRules(CollectRules(report_ms=40_000))


def policies_of(outputs: Iterable[OutputRecord]) -> list[OutputRecord]:
    return [each for each in outputs if each.topic == "node-usage"]


def relayed(run: Run) -> list[CollectPolicyRecord]:
    """What the cluster stage has handed on so far."""
    found = [decode("node-usage", value) for value in run.outputs if b'"collect-policy"' in value]
    policies = [each for each in found if isinstance(each, CollectPolicyRecord)]
    assert policies == found
    return policies


class Aggregates:
    """The aggregate stages of all partitions of `node-usage`, restarted before each batch."""

    def __init__(self) -> None:
        self.logs = [UsageLog(each, PARTITIONS) for each in range(PARTITIONS)]
        self.tables: list[dict[str, bytes]] = [{} for _ in range(PARTITIONS)]

    def apply(self, partition: int, records: list[InputRecord]) -> StageResult:
        state = restore(partition, self.tables[partition], OF_FILE)
        stage = AggregateStage(state, PARTITIONS, AggregateLimits())
        result = stage.apply(records)
        assert result.dead_letters == ()
        store(self.tables[partition], result.rows)
        return result

    def hear(self, outputs: Iterable[OutputRecord]) -> None:
        """Take in what the cluster stage has published."""
        for each in policies_of(outputs):
            places = [
                place
                for place in range(PARTITIONS)
                if check_partition(each.key.encode(), place, PARTITIONS) is None
            ]
            (place,) = places
            self.apply(place, [self.logs[place].add_raw(each.key.encode(), each.value)])

    def intervals(self, first_s: int, pool: str | None = None) -> set[int]:
        """Report intervals, in seconds, that metrics of nodes in all partitions have from this time on."""
        found = set()
        more: dict[str, Any] = {} if pool is None else {"pool": pool}
        for place, log in enumerate(self.logs):
            node = f"{node_in(place, PARTITIONS, CLUSTER)}"
            at_s = range(first_s, first_s + 130, 10)
            samples = (
                sample(START_MS + at * 1_000, node=node, cluster=CLUSTER, **more) for at in at_s
            )
            for output in self.apply(place, log.add(*samples)).outputs:
                metric = NodeMetric.model_validate_json(output.value)
                found.add((metric.report_interval_ms or 0) // 1_000)
        return found


def test_a_policy_governs_the_samples_of_every_partition_also_after_a_restart() -> None:
    run, aggregates = Run(partitions=PARTITIONS, partition=_home()), Aggregates()
    assert aggregates.intervals(0) == {40}
    result = run.stage.apply([run.log.message(tick()), run.log.message(policy_record(DOCUMENT))])
    assert len(policies_of(result.outputs)) == PARTITIONS
    aggregates.hear(result.outputs)
    assert aggregates.intervals(200) == {30}
    assert aggregates.intervals(400, "slow") == {120}


def test_a_policy_without_collect_means_the_defaults() -> None:
    run, aggregates = Run(partitions=PARTITIONS, partition=_home()), Aggregates()
    aggregates.hear(run.stage.apply([run.log.message(policy_record("mode: enforce"))]).outputs)
    assert aggregates.intervals(0) == {60}


def test_a_policy_that_is_refused_is_not_handed_on() -> None:
    run = Run(partitions=PARTITIONS, partition=_home())
    run.say(policy_record("collect: {metricReportIntervalSeconds: 1}"))
    run.say(tick())
    assert relayed(run) == []


def test_a_cluster_without_a_policy_of_its_own_hands_nothing_on() -> None:
    run = Run(partitions=PARTITIONS, partition=_home())
    run.say(tick(), tick(COLLECT_REPEAT_MS // 1_000))
    assert relayed(run) == []


def test_it_is_handed_on_again_every_hour_of_the_log_and_not_more_often() -> None:
    run = Run(partitions=1)
    run.say(tick(), policy_record(DOCUMENT))
    for _ in range(3):
        run.restart()
        run.say(tick(COLLECT_REPEAT_MS // 1_000 - 1))
        assert len(relayed(run)) == 1
    run.say(tick(COLLECT_REPEAT_MS // 1_000))
    run.restart()
    run.say(tick(COLLECT_REPEAT_MS // 1_000 + 1))
    assert len(relayed(run)) == 2
    first, again = relayed(run)
    assert again == first.model_copy(update={"as_of": again.as_of})
    assert again.as_of.offsets["clock"] > first.as_of.offsets["clock"]


def _home() -> int:
    """The partition of the cluster."""
    return next(
        place
        for place in range(PARTITIONS)
        if check_partition(CLUSTER.encode(), place, PARTITIONS) is None
    )
