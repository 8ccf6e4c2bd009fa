"""A cluster's collect policy on its way through both stages."""

from schemas.messages.collect import CollectPolicyRecord
from schemas.topics.codec import decode
from schemas.topics.partitions import check_partition
from streams.cluster.batch_records import COLLECT_REPEAT_MS
from tests.streams.cluster.builders import CLUSTER, policy_record, tick
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


def list_sent_policies(run: Run) -> list[CollectPolicyRecord]:
    found = [decode("node-usage", value) for value in run.outputs if b'"collect-policy"' in value]
    policies = [each for each in found if isinstance(each, CollectPolicyRecord)]
    assert policies == found
    return policies


def test_a_policy_is_sent_to_every_partition() -> None:
    run = Run(partitions=PARTITIONS, partition=_home())
    result = run.stage.apply([run.log.message(tick()), run.log.message(policy_record(DOCUMENT))])
    keys = [each.key.encode() for each in result.outputs if each.topic == "node-usage"]
    assert [check_partition(key, at, PARTITIONS) for at, key in enumerate(keys)] == (
        [None] * PARTITIONS
    )


def test_a_refused_policy_is_not_sent_to_the_aggregate_stage() -> None:
    run = Run(partitions=PARTITIONS, partition=_home())
    run.say(policy_record("collect: {metricReportIntervalSeconds: 1}"))
    run.say(tick())
    assert list_sent_policies(run) == []


def test_a_cluster_without_a_policy_sends_none_to_the_aggregate_stage() -> None:
    run = Run(partitions=PARTITIONS, partition=_home())
    run.say(tick(), tick(COLLECT_REPEAT_MS // 1_000))
    assert list_sent_policies(run) == []


def test_the_policy_is_sent_again_every_hour_of_the_log() -> None:
    run = Run(partitions=1)
    run.say(tick(), policy_record(DOCUMENT))
    for _ in range(3):
        run.restart()
        run.say(tick(COLLECT_REPEAT_MS // 1_000 - 1))
        assert len(list_sent_policies(run)) == 1
    run.say(tick(COLLECT_REPEAT_MS // 1_000))
    run.restart()
    run.say(tick(COLLECT_REPEAT_MS // 1_000 + 1))
    assert len(list_sent_policies(run)) == 2
    first, again = list_sent_policies(run)
    assert again == first.model_copy(update={"as_of": again.as_of})
    assert again.as_of.offsets["clock"] > first.as_of.offsets["clock"]


def _home() -> int:
    """The partition of the cluster."""
    return next(
        place
        for place in range(PARTITIONS)
        if check_partition(CLUSTER.encode(), place, PARTITIONS) is None
    )
