import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.messages.dead_letters import DeadLetter
from schemas.storage.rows import ClusterRow, PartitionRow
from schemas.storage.tables import kind_of_key
from schemas.topics.catalog import CLUSTER_INPUTS, TOPIC_BY_NAME
from schemas.topics.codec import decode_as, encode
from schemas.topics.partitions import partition_for
from streams.cluster import stage as stage_module
from streams.cluster.stage import ClusterStage
from streams.stage import dead_letters
from streams.stage.records import DamagedTable, InputRecord
from tests.strategies import payloads
from tests.streams.cluster.builders import (
    CLUSTER,
    START_MS,
    at,
    lifecycle,
    metric,
    node,
    node_gone,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Log, Run, only
from tests.streams.journaled import Journaled

YEAR_S = 365 * 86_400


def test_a_request_is_answered_with_a_node() -> None:
    run = Run()
    made = only(run.say(tick(), node(), metric(cpu=1000), request()))
    assert (made.outcome, made.node, made.pod.uid) == ("placed", "node-1", "pod-1")
    assert made.decided_at_ms == START_MS
    assert made.as_of.offsets == {
        "clock": 0,
        "node-state": 0,
        "node-metrics": 0,
        "scheduling-requests": 0,
    }


def test_a_decision_writes_only_its_own_rows() -> None:
    run = Run()
    run.say(tick(), node("a"), node("b", cpu="2"), request("first"))
    result = run.stage.apply([run.log.message(request("second"))])
    assert sorted(row.key for row in result.rows) == [
        "0//partitions/",
        f"0/{CLUSTER}/clusters/",
        f"0/{CLUSTER}/reserved_pods/a/second",
    ]


def test_an_older_tick_does_not_set_the_time_back() -> None:
    run = Run()
    run.say(tick(5), node(), tick(3))
    assert only(run.say(request())).decided_at_ms == at(5)
    assert run.dead_letters == []


@pytest.mark.parametrize(
    ("record", "category", "reason"),
    [
        (("clock", encode(tick(partition=1)), b"1"), "misplaced", "partition is 1; expected 0"),
        (
            ("node-state", encode(node()), b"else"),
            "misplaced",
            "expected 'test'",
        ),
        (("node-state", encode(node()), None), "misplaced", "the record has no key"),
        (("node-state", None, b"test"), "unreadable", "the record has no value"),
        (("node-state", b"{", b"test"), "unreadable", "the record is not JSON"),
        (("node-state", b"{}", b"test"), "invalid", "kind"),
        (("policies", encode(policy_record("loadAwre: {}")), b"test"), "invalid", "loadAwre"),
        (("node-metrics", encode(metric(seconds=61)), b"test"), "future", "updated_at_ms"),
    ],
)
def test_a_record_that_cannot_be_applied_goes_to_dead_letters(
    record: tuple[str, bytes | None, bytes | None], category: str, reason: str
) -> None:
    run = Run()
    run.say(tick())
    rows = dict(run.rows)
    assert run.apply([run.log.raw(*record)]) == []
    letter = run.dead_letters[-1]
    assert (letter.topic, letter.offset, letter.category) == (
        record[0],
        run.log.ends[record[0]] - 1,
        category,
    )
    assert reason in letter.reason
    assert run.stage.counts.refused == {(record[0], category): 1}
    assert {key: row for key, row in run.rows.items() if kind_of_key(key) == "nodes"} == {
        key: row for key, row in rows.items() if kind_of_key(key) == "nodes"
    }


def test_a_record_in_the_wrong_partition_is_refused() -> None:
    right = partition_for(CLUSTER.encode(), 4)
    run = Run(partition=(right + 1) % 4, partitions=4)
    run.say(node())
    assert "belongs to partition" in run.dead_letters[0].reason
    assert run.stage.clusters == {}


def test_one_cluster_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "CLUSTERS_MAX", 1)
    run = Run()
    run.say(node(), node().model_copy(update={"cluster": "other"}), node("node-2"))
    assert [letter.category for letter in run.dead_letters] == ["limit"]
    assert list(run.stage.clusters) == [CLUSTER]


def test_a_far_future_clock_does_not_stop_decisions() -> None:
    run = Run()
    latest_ms = 4_102_444_800_000
    made = only(run.say(ClockTick(partition=0, now_ms=latest_ms), node(), request()))
    assert made.outcome == "placed"
    assert made.expires_at_ms == latest_ms


# --- put together from rows ---------------------------------------------------------------------


def _refused(record: InputRecord, own_s: float) -> InputRecord:
    """The record as a worker marks it whose clock shows this second."""
    return replace(record, refused_at_ms=at(own_s))


def test_a_tick_that_the_worker_refused_changes_nothing_and_is_a_dead_letter() -> None:
    run = Run()
    run.say(tick())
    run.apply([_refused(run.log.message(tick(YEAR_S)), 1)])
    assert run.stage.now_ms == at(0)
    (letter,) = run.dead_letters
    assert (letter.topic, letter.category) == ("clock", "future")
    assert f"allowed are at most {AHEAD_MAX_MS} ms" in letter.reason
    run.say(tick(2))
    assert run.stage.now_ms == at(2)


def test_a_replay_reads_from_the_journal_which_ticks_the_worker_refused() -> None:
    log, worker = Log(), Journaled()
    worker.apply([log.message(tick()), log.message(node("a"))])
    worker.apply([log.message(tick(1)), _refused(log.message(tick(YEAR_S)), 1)])
    worker.apply([log.message(request("p"))])
    worker.topics = [replace(record, refused_at_ms=None) for record in worker.topics]
    difference, fold = worker.replay()
    assert difference is None
    assert fold.summary.inputs == 5
    assert worker.stage.now_ms == at(1)


def test_a_stage_without_tables_gives_the_same_outputs_and_no_rows() -> None:
    run, other = Run(), Run()
    other.stage = ClusterStage(0, 1, has_tables=False)
    for message in (
        tick(),
        *(node(name, cpu="4") for name in ("a", "b")),
        lifecycle("running", pod("old"), "b"),
        request(pod("waits", cpu="64")),
        tick(100),
        lifecycle("deleted", pod("old"), "b"),
        node_gone("b"),
        request(pod("waits", cpu="64"), withdrawn=True),
        tick(200),
        request("placed"),
    ):
        run.say(message)
        other.say(message)
    assert run.outputs
    assert other.outputs == run.outputs
    assert not other.rows


def test_a_row_that_cannot_be_read_is_named() -> None:
    cluster = encode(ClusterRow(cluster=CLUSTER))
    own = encode(PartitionRow(partition=0))
    rows = {"0//partitions/": own, "0/test/clusters/": cluster, "0/test/nodes/node-1": b"{"}
    with pytest.raises(DamagedTable, match="row 0/test/nodes/node-1: cannot be read"):
        ClusterStage.restore(0, 1, rows)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("0/test/clusters", "the key is not of the form"),
        ("0/other/clusters/", "belongs to cluster test, unlike its key"),
    ],
)
def test_a_row_with_a_wrong_key_is_refused(key: str, complaint: str) -> None:
    own = encode(PartitionRow(partition=0))
    rows = {"0//partitions/": own, key: encode(ClusterRow(cluster=CLUSTER))}
    with pytest.raises(DamagedTable, match=f"row {key}: {complaint}"):
        ClusterStage.restore(0, 1, rows)


# --- anything at all ----------------------------------------------------------------------------


def messages() -> SearchStrategy[tuple[str, Any]]:
    """Whatever the published schemas of the inputs allow."""
    return st.one_of(
        [
            st.tuples(st.just(topic), payloads(TOPIC_BY_NAME[topic].message))
            for topic in CLUSTER_INPUTS
        ]
    )


@given(st.lists(messages(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_stage_accepts_every_record_that_the_schemas_allow(
    given_records: list[tuple[str, Any]],
) -> None:
    run = Run()
    run.say(tick(), node(), request())
    written: list[InputRecord] = []
    for topic, payload in given_records:
        key = str(payload.get("cluster", CLUSTER)).encode()
        written.append(run.log.raw(topic, json.dumps(payload).encode(), key))
        run.apply(written[-1:])
    again = Run()
    again.apply(run.log.records)
    assert (again.outputs, again.rows) == (run.outputs, run.rows)
    again.restart()
    later = [run.log.message(tick(400))]
    assert again.apply(later) == run.apply(later)


def test_an_output_that_is_too_large_becomes_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "VALUE_BYTES_MAX", 300)
    log, stage = Log(), ClusterStage(0, 1)
    records = [log.message(each) for each in (tick(), node("a"), request("p"))]
    result = stage.apply(records)
    assert result.outputs == ()
    (letter,) = result.dead_letters
    read = decode_as(DeadLetter, letter.value)
    assert isinstance(read, DeadLetter)
    assert (read.topic, read.offset, read.category) == ("scheduling-requests", 0, "limit")
    assert "which cannot be published; allowed are at most 300" in read.reason
    assert stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a"}, "it was applied"
