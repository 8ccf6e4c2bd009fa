from collections.abc import Sequence
from dataclasses import replace

import pytest

from schemas.messages.collect import NodeCollectPolicy
from schemas.storage.tables import kind_of_key
from streams.aggregate.collect import CHANGES_MAX, AggregateLimits
from streams.aggregate.stage import AggregateStage
from streams.stage.records import InputRecord, StageResult
from tests.streams.aggregate.builders import (
    SECOND,
    T0,
    Log,
    node_in,
    pod,
    sample,
    windows,
)
from tests.streams.aggregate.content import content
from tests.streams.aggregate.harness import Run, emitted, letter, metrics, stage

#: Windows of which the longest is the default's, a third of it, and four times as long.
SAME, SHORT, LONG = windows(), windows(durations_s=(40,), average_s=30), windows(durations_s=(480,))


class PolicyRun(Run):
    """A stage that is never restarted, and before each batch one that is put together from its
    rows.

    Samples that are gone stay in its rows for long, beside others.
    """

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """What a batch comes to, restarted or not."""
        restarted = self.restarted().apply(records)
        result = super().apply(records)
        assert emitted(result) == emitted(restarted)
        assert content(self.restarted()) == content(self.stage)
        return result

    def samples(
        self, first_s: int, last_s: int, step_s: int = 10, cluster: str = "c"
    ) -> StageResult:
        """One sample each `step_s` seconds."""
        return self.apply(
            self.log.add(
                *(
                    sample(T0 + at * SECOND, at, cluster=cluster, pods=[pod(f"p{at}", at)])
                    for at in range(first_s, last_s + 1, step_s)
                )
            )
        )

    def policy(self, default: NodeCollectPolicy, **pools: NodeCollectPolicy) -> StageResult:
        return self.apply([self.log.add_policy(default, pools)])

    @property
    def times_s(self) -> list[int]:
        """Times of the samples that count, in seconds."""
        (node,) = (each for each in self.restarted().state.nodes.values() if each.cluster == "c")
        return [(each - T0) // SECOND for each in node.samples.times.tolist()]


def test_another_cluster_keeps_its_own_policy() -> None:
    run = PolicyRun()
    run.policy(windows(report_s=10))
    assert len(metrics(run.samples(0, 60, cluster="other").outputs)) == 2


def test_longer_windows_keep_the_samples_that_they_have() -> None:
    run = PolicyRun()
    run.samples(0, 200)
    run.policy(LONG)
    assert run.times_s == list(range(80, 201, 10))
    run.samples(210, 240)
    assert run.times_s == list(range(80, 241, 10))


def test_shorter_windows_drop_old_samples_at_the_next_sample() -> None:
    run = PolicyRun()
    run.samples(0, 200)
    run.policy(SHORT)
    (metric,) = metrics(run.samples(210, 210).outputs)
    assert run.times_s == list(range(170, 211, 10))
    assert [each.name for each in metric.pods] == ["p180", "p190", "p200", "p210"]


def test_samples_that_shorter_windows_dropped_stay_dropped() -> None:
    run = PolicyRun()
    run.samples(0, 200)
    run.policy(SHORT)
    run.policy(LONG)
    assert run.times_s == list(range(160, 201, 10))
    (metric,) = metrics(run.samples(210, 210).outputs)
    assert [each.name for each in metric.pods] == ["p170", "p180", "p190", "p200", "p210"]


def test_windows_that_grow_repeatedly_are_the_same_after_a_restart() -> None:
    run = PolicyRun()
    for number in range(2 * CHANGES_MAX + 5):
        run.samples(30 * number, 30 * number)
        run.policy(windows(average_s=30 + 7 * (number % 9), durations_s=(60 + 20 * number,)))
    kept = stage(run.table).state.policies.all["c"].row
    assert len(kept.changes) == CHANGES_MAX


def test_a_repeated_policy_changes_nothing_and_writes_no_row() -> None:
    run = PolicyRun()
    run.policy(SHORT)
    result = run.policy(SHORT)
    assert {kind_of_key(row.key) for row in result.rows} == {"progress"}
    assert run.stage.counts["policy_repeated"] == 1


def test_a_policy_belongs_to_the_partition_of_its_number_only() -> None:
    for partition in range(4):
        log = Log(partition, 4)
        subject = stage(partition=partition, partitions=4)
        result = subject.apply(
            [log.add_policy(LONG), *log.add(sample(T0, node=node_in(partition, 4)))]
        )
        assert result.dead_letters == ()
        assert subject.state.policies.of("c").horizon_ms == 480_000
    stray = replace(log.records[0], partition=0)
    assert category(stage(partitions=4), stray) == "misplaced"


@pytest.mark.parametrize("key", [b"c/n0", b"c/collect-policy-1", b"d/collect-policy-0", None])
def test_a_policy_under_another_key_is_refused(key: bytes | None) -> None:
    record = replace(Log().add_policy(LONG), key=key)
    subject = stage()
    assert category(subject, record) == "misplaced"
    assert subject.state.policies.all == {}


def test_a_partition_has_a_limit_of_policies() -> None:
    subject, log = stage(limits=AggregateLimits(policies_per_partition=1)), Log()
    subject.apply([log.add_policy(LONG, cluster="a")])
    assert category(subject, log.add_policy(LONG, cluster="b")) == "limit"
    assert subject.apply([log.add_policy(SHORT, cluster="a")]).dead_letters == ()


def test_an_invalid_policy_is_refused_with_its_field() -> None:
    record = Log().add_policy(LONG)
    bad = replace(record, value=(record.value or b"").replace(b"480000", b"-1"))
    result = stage().apply([bad])
    assert "default.durations_ms" in letter(result.dead_letters[0]).reason


def category(subject: AggregateStage, record: InputRecord) -> str:
    """Why a record is refused."""
    (output,) = subject.apply([record]).dead_letters
    return letter(output).category
