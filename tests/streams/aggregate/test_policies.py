from collections.abc import Sequence
from dataclasses import replace

import pytest

from schemas.messages.usage import NodeCollectPolicy
from schemas.storage.tables import kind_of_key
from streams.aggregate.collect_policies import CHANGES_MAX, AggregateLimits
from streams.aggregate.stage import AggregateStage
from streams.stage.records import InputRecord, StageResult
from tests.streams.aggregate.content import content
from tests.streams.builders import (
    CLUSTER,
    SECOND,
    START_MS,
    collect_policy,
    collect_policy_record,
    node_in,
    pod_usage,
    sample,
)
from tests.streams.world import Log, SampleWorld, aggregate_stage, read_letter, read_metrics

#: Policies whose longest window is that of the default, a third of it, and four times as long.
SAME, SHORT, LONG = (
    collect_policy(),
    collect_policy(durations_s=(40,), average_s=30),
    collect_policy(durations_s=(480,)),
)


class PolicyRun(SampleWorld):
    """A stage that is never restarted, and before each batch one that is put together from its
    rows.

    Samples that are gone stay in its rows for long, beside others.
    """

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply a batch to the running stage and to a restarted one."""
        restarted = self.restarted().apply(records)
        result = super().apply(records)
        assert result.outputs == restarted.outputs
        assert result.dead_letters == restarted.dead_letters
        assert content(self.restarted()) == content(self.stage)
        return result

    def samples(
        self, first_s: int, last_s: int, step_s: int = 10, cluster: str = CLUSTER
    ) -> StageResult:
        """One sample each `step_s` seconds."""
        return self.apply(
            self.log.add(
                *(
                    sample(at, at, cluster=cluster, pods=[pod_usage(f"p{at}", at)])
                    for at in range(first_s, last_s + 1, step_s)
                )
            )
        )

    def policy(self, default: NodeCollectPolicy, **pools: NodeCollectPolicy) -> StageResult:
        return self.apply([self.log.record(collect_policy_record(default, pools))])

    @property
    def times_s(self) -> list[int]:
        """Times of the samples that count, in seconds."""
        (node,) = (
            node for node in self.restarted().state.nodes.values() if node.cluster == CLUSTER
        )
        return [(time - START_MS) // SECOND for time in node.samples.times.tolist()]


def test_another_cluster_keeps_its_own_policy() -> None:
    world = PolicyRun()
    world.policy(collect_policy(report_s=10))
    assert len(read_metrics(world.samples(0, 60, cluster="other").outputs)) == 2


def test_longer_windows_keep_the_samples_that_they_have() -> None:
    world = PolicyRun()
    world.samples(0, 200)
    world.policy(LONG)
    assert world.times_s == list(range(80, 201, 10))
    world.samples(210, 240)
    assert world.times_s == list(range(80, 241, 10))


def test_shorter_windows_drop_old_samples_at_the_next_sample() -> None:
    world = PolicyRun()
    world.samples(0, 200)
    world.policy(SHORT)
    (metric,) = read_metrics(world.samples(210, 210).outputs)
    assert world.times_s == list(range(170, 211, 10))
    assert [pod.name for pod in metric.pods] == ["p180", "p190", "p200", "p210"]


def test_samples_that_shorter_windows_dropped_stay_dropped() -> None:
    world = PolicyRun()
    world.samples(0, 200)
    world.policy(SHORT)
    world.policy(LONG)
    assert world.times_s == list(range(160, 201, 10))
    (metric,) = read_metrics(world.samples(210, 210).outputs)
    assert [pod.name for pod in metric.pods] == ["p170", "p180", "p190", "p200", "p210"]


def test_windows_that_grow_repeatedly_are_the_same_after_a_restart() -> None:
    world = PolicyRun()
    for number in range(2 * CHANGES_MAX + 5):
        world.samples(30 * number, 30 * number)
        world.policy(
            collect_policy(average_s=30 + 7 * (number % 9), durations_s=(60 + 20 * number,))
        )
    kept = aggregate_stage(world.table).state.policies.by_cluster[CLUSTER].row
    assert len(kept.changes) == CHANGES_MAX


def test_a_repeated_policy_changes_nothing_and_writes_no_row() -> None:
    world = PolicyRun()
    world.policy(SHORT)
    result = world.policy(SHORT)
    assert {kind_of_key(row.key) for row in result.rows} == {"progress"}
    assert world.stage.counts["policy_repeated"] == 1


def test_a_policy_belongs_to_the_partition_of_its_number_only() -> None:
    for partition in range(4):
        log = Log(partition)
        subject = aggregate_stage(partition=partition, partitions=4)
        result = subject.apply(
            [
                log.record(collect_policy_record(LONG, partition=partition, partitions=4)),
                *log.add(sample(0, node=node_in(partition, 4))),
            ]
        )
        assert result.dead_letters == ()
        assert subject.state.policies.get_pool_rules(CLUSTER).horizon_ms == 480_000
    stray = replace(log.records[0], partition=0)
    assert category(aggregate_stage(partitions=4), stray) == "misplaced"


@pytest.mark.parametrize("key", [b"test/n0", b"test/collect-policy-1", b"d/collect-policy-0", None])
def test_a_policy_under_another_key_is_refused(key: bytes | None) -> None:
    record = replace(Log().record(collect_policy_record(LONG)), key=key)
    subject = aggregate_stage()
    assert category(subject, record) == "misplaced"
    assert subject.state.policies.by_cluster == {}


def test_a_partition_has_a_limit_of_policies() -> None:
    subject, log = aggregate_stage(limits=AggregateLimits(policies_per_partition=1)), Log()
    subject.apply([log.record(collect_policy_record(LONG, cluster="a"))])
    assert category(subject, log.record(collect_policy_record(LONG, cluster="b"))) == "limit"
    assert subject.apply([log.record(collect_policy_record(SHORT, cluster="a"))]).dead_letters == ()


def test_an_invalid_policy_is_refused_with_its_field() -> None:
    record = Log().record(collect_policy_record(LONG))
    bad = replace(record, value=(record.value or b"").replace(b"480000", b"-1"))
    result = aggregate_stage().apply([bad])
    assert "default.durations_ms" in read_letter(result.dead_letters[0]).reason


def category(subject: AggregateStage, record: InputRecord) -> str:
    """Why a record is refused."""
    (output,) = subject.apply([record]).dead_letters
    return read_letter(output).category
