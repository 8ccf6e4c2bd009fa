"""A cluster's collect policy on its way through both stages."""

from schemas.messages.usage import CollectPolicyRecord
from schemas.topics.partitions import check_partition, partition_for
from streams.cluster.state import COLLECT_REPEAT_MS
from tests.streams.builders import CLUSTER, node, policy_record, tick
from tests.streams.world import World, read_output

PARTITIONS = 4
HOME = partition_for(CLUSTER.encode(), PARTITIONS)
DOCUMENT = """
collect:
  metricReportIntervalSeconds: 30
  metricAggregatePolicy: {durations: [1m]}
  pools:
    - name: slow
      metricReportIntervalSeconds: 120
"""


def list_sent_policies(world: World) -> list[CollectPolicyRecord]:
    return [
        read_output(output.topic, output.value)
        for output in world.outputs
        if output.topic == "node-usage"
    ]


def test_a_policy_is_sent_to_every_partition() -> None:
    world = World(
        tick(partition=HOME), policy_record(DOCUMENT), partition=HOME, partitions=PARTITIONS
    )
    keys = [output.key.encode() for output in world.outputs if output.topic == "node-usage"]
    assert [check_partition(key, at, PARTITIONS) for at, key in enumerate(keys)] == (
        [None] * PARTITIONS
    )


def test_a_refused_policy_is_not_sent_to_the_aggregate_stage() -> None:
    world = World(tick())
    assert world.send_refused(policy_record("collect: {metricReportIntervalSeconds: 1}"))
    assert list_sent_policies(world) == []


def test_a_cluster_without_a_policy_sends_none_to_the_aggregate_stage() -> None:
    world = World(tick(), node(), tick(COLLECT_REPEAT_MS // 1_000))
    assert list_sent_policies(world) == []


def test_the_policy_is_sent_again_every_hour_of_the_log() -> None:
    world = World(tick(), policy_record(DOCUMENT))
    for _ in range(3):
        world.restart()
        world.send(tick(COLLECT_REPEAT_MS // 1_000 - 1))
        assert len(list_sent_policies(world)) == 1
    world.send(tick(COLLECT_REPEAT_MS // 1_000))
    world.restart()
    world.send(tick(COLLECT_REPEAT_MS // 1_000 + 1))
    assert len(list_sent_policies(world)) == 2
    first, again = list_sent_policies(world)
    assert again == first.model_copy(update={"as_of": again.as_of})
    assert again.as_of.offsets["clock"] > first.as_of.offsets["clock"]
