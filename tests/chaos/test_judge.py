"""The judge of chaos runs finds what it is there to find, in a history made by the stage itself."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, Pod
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.usage import NodeUsage
from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import POSITION, WINDOWS, row_key, table_of_key
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage import journal
from streams.stage.packing import put
from streams.stage.records import InputRecord
from streams.worker.consume.ticker import tick
from tests.chaos import windows
from tests.chaos.history import History, changelog
from tests.chaos.judge import judge
from tests.chaos.plan import SCENARIOS, Plan

_PARTITIONS = 4
_AT = partition_for(b"c", _PARTITIONS)
_DECISIONS = "placement-decisions"
_NOW_MS = 1_800_000_000_000


def _whole(inputs: Sequence[InputRecord] | None = None) -> History:
    """Four pods for two nodes, in batches of two records, as an undisturbed worker leaves them."""
    history = History(_PARTITIONS)
    stage = ClusterStage(_AT, _PARTITIONS)
    _add(history, journal.TOPIC, journal.opening(_AT))
    place = journal.Place(0, -1, 0)
    inputs = _inputs() if inputs is None else inputs
    for record in inputs:
        history.topics.setdefault((record.topic, _AT), []).append(record)
    rows: dict[str, bytes] = {}
    for first in range(0, len(inputs), 2):
        records = inputs[first : first + 2]
        result = stage.apply(records)
        for value in journal.batch(_AT, place, records, result):
            offset = _add(history, journal.TOPIC, value)
        place = journal.Place(0, place.sequence + 1, offset)
        for output in (*result.outputs, *result.dead_letters):
            output_key = output.key.encode()
            at = partition_for(output_key, _PARTITIONS) if output.topic == "node-usage" else _AT
            _add(history, output.topic, output.value, output_key, at)
        before = dict(rows)
        put(rows, result.rows)
        for key in sorted(before.keys() | rows.keys()):
            if rows.get(key) != before.get(key):
                _add(history, changelog(table_of_key(key)), rows.get(key), key.encode())
    position = JournalPositionRow(
        partition=_AT, epoch=0, sequence=place.sequence, offset=place.offset
    )
    _add(history, changelog("cluster"), encode(position), row_key(_AT, "", POSITION).encode())
    return history


def _inputs(*more: tuple[str, bytes]) -> list[InputRecord]:
    messages = [("clock", tick(_AT, _NOW_MS).value)]
    for number in range(2):
        node = NodeState(
            cluster="c",
            node=f"n{number}",
            event="added",
            allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"},
        )
        messages.append(("node-state", encode(node)))
    for number in range(4):
        pod = Pod(
            namespace="default",
            name=f"p{number}",
            uid=f"u{number}",
            containers=(Container(requests={"cpu": "1", "memory": "1Gi"}),),
        )
        request = SchedulingRequest(cluster="c", requested_at_ms=_NOW_MS, pod=pod)
        messages.append(("scheduling-requests", encode(request)))
    # A round of rebalancing is due, and reported.
    messages.append(("clock", tick(_AT, _NOW_MS + 1_000).value))
    messages.append(("policies", b"not json"))
    messages += more
    offsets = dict.fromkeys(CLUSTER_INPUTS, -1)
    records = []
    for topic, value in messages:
        offsets[topic] += 1
        records.append(InputRecord(topic, _AT, offsets[topic], b"c", value, _NOW_MS))
    return records


def _add(
    history: History, topic: str, value: bytes | None, key: bytes = b"", partition: int = _AT
) -> int:
    records = history.topics.setdefault((topic, partition), [])
    records.append(InputRecord(topic, partition, len(records), key, value, 0))
    return len(records) - 1


def _alter(history: History, topic: str, number: int, old: bytes, new: bytes) -> None:
    records = history.topics[topic, _AT]
    value = records[number].value or b""
    assert old in value
    records[number] = replace(records[number], value=value.replace(old, new))


def test_a_history_without_faults_is_found_right() -> None:
    verdict = judge(_whole())
    assert verdict.problems == []
    assert verdict.figures["placed"] == verdict.figures["pods"] == 4
    assert verdict.figures["dead letters"] == 1
    assert verdict.fullest_percent == 50, "pods that are not measured yet count by their requests"


def test_a_decision_that_is_published_twice_is_no_fault() -> None:
    history = _whole()
    again = history.of(_DECISIONS, _AT)[1]
    _add(history, _DECISIONS, again.value, again.key or b"")
    verdict = judge(history)
    assert verdict.problems == []
    assert verdict.figures["published again"] == 1


def test_collect_policies_among_the_samples_are_looked_for_as_decisions_are() -> None:
    policy = PolicyRecord(cluster="c", document="", applied_at_ms=_NOW_MS)
    history = _whole(_inputs(("policies", encode(policy))))
    problem = "node-usage: in the journal and not published"
    assert not [each for each in judge(history).problems if each.startswith("node-usage")]
    del history.topics["node-usage", 0][-1]
    assert any(problem in each for each in judge(history).problems)


def _change_an_input(history: History) -> None:
    _alter(history, "scheduling-requests", 2, b'"cpu":"1"', b'"cpu":"2"')


def _change_a_published_decision(history: History) -> None:
    _alter(history, _DECISIONS, 1, b'"attempt":0', b'"attempt":9')


def _change_a_row(history: History) -> None:
    _alter(history, changelog("nodes"), 0, b'"4"', b'"5"')


def _lose_a_decision(history: History) -> None:
    del history.topics[_DECISIONS, _AT][2]


def _swap_two_decisions(history: History) -> None:
    history.topics[_DECISIONS, _AT][:2] = reversed(history.topics[_DECISIONS, _AT][:2])


def _change_a_published_round(history: History) -> None:
    _alter(history, "status", 0, b'"dry_run":true', b'"dry_run":false')


def _lose_a_round(history: History) -> None:
    history.topics["status", _AT].pop()


def _lose_a_dead_letter(history: History) -> None:
    history.topics["dead-letters", _AT].clear()


def _forget_the_last_batch(history: History) -> None:
    history.topics[journal.TOPIC, _AT].pop()


def _apply_a_record_twice(history: History) -> None:
    last = len(history.topics[journal.TOPIC, _AT]) - 1
    old, new = b'{"topic":"policies","first_offset":0,"last_offset":0}', b'{"topic":"scheduling-requests","first_offset":2,"last_offset":2}'  # fmt: skip
    _alter(history, journal.TOPIC, last, old, new)


def _never_apply_a_record(history: History) -> None:
    late = replace(history.of("node-state", _AT)[-1], offset=2)
    history.topics["node-state", _AT].append(late)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (_change_an_input, "differ"),
        (_change_a_published_decision, "not in the journal"),
        (_change_a_row, "table nodes"),
        (_lose_a_decision, "not published"),
        (_swap_two_decisions, "order"),
        (_change_a_published_round, "status: published and not in the journal"),
        (_lose_a_round, "status: in the journal and not published"),
        (_lose_a_dead_letter, "dead-letters"),
        (_forget_the_last_batch, "not applied"),
        (_apply_a_record_twice, "was applied before"),
        (_never_apply_a_record, "not applied"),
    ],
)
def test_every_fault_is_reported(fault: Callable[[History], None], problem: str) -> None:
    history = _whole()
    fault(history)
    assert any(problem in each for each in judge(history).problems)


def test_what_a_deleted_output_held_is_not_missed_and_what_came_later_is() -> None:
    history = _whole()
    _lose_a_round(history)
    history.changed.again_at_ms["status"] = _NOW_MS + 1_000
    assert judge(history).problems == []
    history.changed.again_at_ms["status"] = _NOW_MS + 999
    assert any("in the journal and not published" in each for each in judge(history).problems)


@pytest.mark.slow
def test_a_seed_gives_the_same_load_and_the_same_kills() -> None:
    for scenario in SCENARIOS:
        plans = [Plan(seed, scenario, _PARTITIONS) for seed in (7, 7, 8)]
        one, again, other = ((plan.faults(), _steps(plan)) for plan in plans)
        assert one == again
        assert one != other
        assert sorted(fault.ending for fault in one[0]) == sorted(scenario.endings)


def test_policies_of_the_load_can_be_read_and_two_of_them_enforce() -> None:
    from schemas.policy import read_policy

    plan = Plan(1, SCENARIOS[0], _PARTITIONS)
    policies = [read_policy(plan.policy(cluster)) for cluster in plan.clusters]
    assert {policy.max_backoff_seconds for policy in policies} == {2}
    enforced = [policy for policy in policies if policy.mode == "enforce"]
    modes = {policy.migration.default_job_mode for policy in enforced}
    assert modes == {"ReservationFirst", "EvictDirectly"}


def test_users_ask_for_everything_and_what_is_drained_is_given_back() -> None:
    steps = Plan(1, SCENARIOS[0], _PARTITIONS).steps()
    requests = [each for step in itertools.islice(steps, 500) if (each := step.request)]
    assert {each.action for each in requests} == {"migrate", "abort", "drain", "undrain"}
    drains = [each for each in requests if each.action in ("drain", "undrain")]
    for drain, undrain in zip(drains[::2], drains[1::2], strict=True):
        assert (drain.action, undrain.action) == ("drain", "undrain")
        assert (drain.cluster, drain.drawn) == (undrain.cluster, undrain.drawn)


def _steps(plan: Plan) -> list[object]:
    steps = plan.steps()
    return [next(steps) for _ in range(200)]


def _sampled() -> tuple[History, int]:
    """Samples of one node, and what a worker leaves of them that takes them one by one; its partition."""
    history = History(_PARTITIONS)
    at = partition_for(b"c/n", _PARTITIONS)
    stage = AggregateStage(restore(at, {}, Collecting()), _PARTITIONS, AggregateLimits())
    for number in range(12):
        sample = NodeUsage(
            cluster="c",
            node="n",
            sampled_at_ms=_NOW_MS + 20_000 * number,
            usage={"cpu": 100 * number, "memory": 2**20 * number},
        )
        value = encode(sample) if number != 5 else b"not json"
        timestamp_ms = _NOW_MS + 3_600_000
        record = InputRecord("node-usage", at, number, b"c/n", value, timestamp_ms)
        history.topics.setdefault(("node-usage", at), []).append(record)
        result = stage.apply([record])
        for output in (*result.outputs, *result.dead_letters):
            _add(history, output.topic, output.value, output.key.encode())
        for row in result.rows:
            _add(
                history, changelog(table_of_key(row.key)), row.value, row.key.encode(), partition=at
            )
    return history, at


def test_samples_that_came_to_what_they_should_are_found_right() -> None:
    found = windows.look(_sampled()[0])
    assert (found.outputs, found.rows) == ([], [])
    assert found.figures == {
        "samples": 12,
        "metrics of samples": 3,
        "samples refused": 1,
        "metrics published again": 0,
    }


def test_a_metric_that_is_missing_or_other_than_its_samples_is_found() -> None:
    history, _ = _sampled()
    place = next(place for place in history.topics if place[0] == "node-metrics")
    metrics = history.topics[place]
    history.topics[place] = metrics[1:]
    assert "it was not published" in windows.look(history).outputs[0]
    other = (metrics[0].value or b"").replace(b'"samples":4', b'"samples":5')
    assert other != metrics[0].value
    history.topics[place] = [replace(metrics[0], value=other), *metrics]
    assert "not what the samples give" in windows.look(history).outputs[0]
    history.topics[place] = metrics[::-1]
    assert "not in the order of its samples" in windows.look(history).outputs[0]
    history.topics[place] = [*metrics, *metrics]
    assert windows.look(history).outputs == []


def test_rows_that_lack_a_sample_or_end_too_early_are_found() -> None:
    history, at = _sampled()
    place = (changelog(WINDOWS), at)
    rows = history.topics[place]
    last = next(row for row in reversed(rows) if b"/progress/" in (row.key or b""))
    history.topics[place] = [row for row in rows if row is not last]
    assert "the samples end at" in windows.look(history).rows[0]
    at_sample = next(row for row in reversed(rows) if b"/samples/" in (row.key or b""))
    value = (at_sample.value or b"").replace(b"1100", b"9100")
    assert value != at_sample.value
    history.topics[place] = [*rows, replace(at_sample, value=value)]
    assert "the next sample" in windows.look(history).rows[0]
