from collections.abc import Mapping

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.storage.tables import kind_of_key
from schemas.topics.codec import encode
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.stage.packing import apply_changes
from streams.stage.records import DamagedTable, OutputRecord, StageResult, read_row
from tests.streams.aggregate.content import content
from tests.streams.aggregate.histories import batches, histories
from tests.streams.builders import MINUTE, QUICK, collect_policy, pod_usage, sample
from tests.streams.world import Log, aggregate_stage, read_metrics

#: Limits that short histories reach.
TIGHT = AggregateLimits(
    forget_after_ms=5 * MINUTE,
    sweep_records=3,
    samples_per_node=8,
    resources_per_node=3,
    pods_per_node=5,
)
SWEEP = AggregateLimits().sweep_records
POLICIES = PoolRules(QUICK, {"slow": collect_policy(60, 90, (120,))})


def _emitted(result: StageResult) -> list[OutputRecord]:
    return [*result.outputs, *result.dead_letters]


def _first_key(table: Mapping[str, bytes], kind: str) -> str:
    return min(key for key in table if kind_of_key(key) == kind)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_restart_between_any_two_batches_changes_nothing(data: st.DataObject) -> None:
    records = data.draw(histories())
    without, table = aggregate_stage(collecting=POLICIES, limits=TIGHT), dict[str, bytes]()
    for batch in data.draw(batches(records)):
        expected = without.apply(batch)
        restarted = aggregate_stage(table, POLICIES, TIGHT)
        result = restarted.apply(batch)
        assert _emitted(result) == _emitted(expected)
        apply_changes(table, result.rows)
        assert (
            content(aggregate_stage(table, POLICIES, TIGHT))
            == content(restarted)
            == content(without)
        )


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_crash_while_rows_are_written_changes_nothing(data: st.DataObject) -> None:
    """Rows reach the changelog in their order; a crash keeps any number of the first of them."""
    records = data.draw(histories())
    without, table = aggregate_stage(collecting=POLICIES, limits=TIGHT), dict[str, bytes]()
    running = aggregate_stage(table, POLICIES, TIGHT)
    for batch in data.draw(batches(records)):
        expected = _emitted(without.apply(batch))
        if data.draw(st.booleans()):
            crashed = running.apply(batch).rows
            apply_changes(table, crashed[: data.draw(st.integers(0, len(crashed)))])
            running = aggregate_stage(table, POLICIES, TIGHT)
        if running.positions.get("node-usage", -1) < batch[-1].offset:
            result = running.apply(batch)
            assert _emitted(result) == expected
            apply_changes(table, result.rows)
        assert content(running) == content(without)
    assert content(aggregate_stage(table, POLICIES, TIGHT)) == content(without)


def test_a_refused_sample_takes_no_resource_from_those_before_it() -> None:
    """It would have moved the window, in which there is room for its resources."""
    log, table = Log(), dict[str, bytes]()
    running = aggregate_stage(collecting=POLICIES, limits=TIGHT)
    on_disk = {**pod_usage("a", 1), "usage": {"disk": 5}}
    first = sample(0, usage={"cpu": 9}, pods=[on_disk])
    many = [
        {**pod_usage(f"p{number}", 1), "usage": {}} for number in range(TIGHT.pods_per_node + 1)
    ]
    late = POLICIES.average_horizon_ms / 1000 + 1
    second = sample(late, usage={"cpu": 9, "memory": 1, "gpu": 1}, pods=many)
    for message in (first, second):
        result = running.apply(log.add(message))
        apply_changes(table, result.rows)
    assert len(result.dead_letters) == 1
    assert content(aggregate_stage(table, POLICIES, TIGHT)) == content(running)


def many(log: Log, count: int, nodes: int = 3) -> dict[str, bytes]:
    """A table after a number of samples of each node, one a second, with pods."""
    table: dict[str, bytes] = {}
    subject = aggregate_stage()
    for at in range(count):
        pods = [pod_usage(f"p{index}", index) for index in range(5)]
        samples = (sample(at, node=f"n{number}", pods=pods) for number in range(nodes))
        apply_changes(table, subject.apply(log.add(*samples)).rows)
    return table


@pytest.mark.slow
def test_written_bytes_grow_with_new_samples_and_not_with_the_window() -> None:
    log, subject, table = Log(), aggregate_stage(), dict[str, bytes]()
    written = []
    for at in range(4_800):
        pods = [pod_usage(f"p{index}", index) for index in range(5)]
        rows = subject.apply(log.add(sample(at, pods=pods))).rows
        apply_changes(table, rows)
        written.append(sum(len(row.value or b"") for row in rows))
    # Each batch writes its open rows, which begin empty again and again, each kind at its own pace.
    assert sum(written[2_400:]) <= sum(written[:2_400]) * 1.05
    assert len(table) < 10


def test_rows_of_samples_that_no_window_needs_are_removed() -> None:
    log = Log()
    table = many(log, 100)
    size = sum(map(len, table.values()))
    subject = aggregate_stage(table)
    for at in range(100, 1_000):
        samples = (sample(at, node=f"n{number}") for number in range(3))
        apply_changes(table, subject.apply(log.add(*samples)).rows)
    assert sum(map(len, table.values())) < 2 * size


def test_rows_are_messages() -> None:
    table = many(Log(), 50)
    kinds = set()
    for key, value in table.items():
        assert encode(read_row(key, value)) == value
        kinds.add(kind_of_key(key))
    assert kinds == {"progress", "members", "samples", "pod_samples"}


def test_a_forgotten_node_leaves_no_row() -> None:
    log = Log()
    table = many(log, 5, nodes=1)
    subject = aggregate_stage(table)
    later = 86_400
    samples = (sample(later + at / 1000, node="other") for at in range(2 * SWEEP))
    apply_changes(table, subject.apply(log.add(*samples)).rows)
    apply_changes(table, subject.apply(log.add(sample(later + 60, node="other"))).rows)
    assert not [
        key for key, value in table.items() if b"test/n0" in value or "test/members/n0" in key
    ]


@pytest.mark.parametrize("kind", ["progress", "members", "samples", "pod_samples"])
@pytest.mark.parametrize("value", [b"", b"\xff", b"{}", b'{"schema_version":1}'])
def test_an_unreadable_row_stops_the_worker_and_is_named(kind: str, value: bytes) -> None:
    table = many(Log(), 10)
    damaged = _first_key(table, kind)
    table[damaged] = value
    with pytest.raises(DamagedTable) as caught:
        aggregate_stage(table)
    assert damaged in str(caught.value)


@pytest.mark.parametrize("column", ["offset", "reported_at_ms", "node", "digest"])
def test_columns_of_different_lengths_stop_the_worker(column: str) -> None:
    table = many(Log(), 10)
    damaged = _first_key(table, "samples")
    row = orjson.loads(table[damaged])
    row[column].append(row[column][-1])
    table[damaged] = orjson.dumps(row)
    with pytest.raises(DamagedTable, match="columns do not fit together"):
        aggregate_stage(table)


def test_a_pod_whose_name_was_lost_to_a_former_owner_is_left_out() -> None:
    log = Log()
    table = many(log, 50, nodes=1)
    key = _first_key(table, "members")
    row = orjson.loads(table[key])
    lost = row["members"].pop()
    table[key] = orjson.dumps(row)
    result = aggregate_stage(table).apply(log.add(sample(70)))
    (metric,) = read_metrics(result.outputs)
    assert [pod.name for pod in metric.pods] == ["p0", "p1", "p2", "p3"]
    assert lost["name"] == "p4"


def test_a_table_that_has_lost_its_progress_is_noticed_and_a_first_batch_that_was_not_finished_is_redone() -> (
    None
):
    log = Log()
    batch = log.add(*(sample(at, node=f"n{at}") for at in range(5)))
    first = aggregate_stage()
    rows = first.apply(batch).rows
    for kept in range(len(rows)):
        table: dict[str, bytes] = {}
        apply_changes(table, rows[:kept])
        again = aggregate_stage(table)
        apply_changes(table, again.apply(batch).rows)
        assert content(again) == content(first) == content(aggregate_stage(table))
    more = log.add(*(sample(60 + at, node=f"n{at}") for at in range(5)))
    apply_changes(table, again.apply(more).rows)
    progress = [name for name in table if "/progress/" in name]
    assert len(progress) == 1
    del table[progress[0]]
    with pytest.raises(
        DamagedTable,
        match=r"row 0//progress/0: missing, while the table has 6 other rows.*reset 0`",
    ):
        aggregate_stage(table)
