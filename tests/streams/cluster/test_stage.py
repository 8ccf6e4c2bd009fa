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
from streams.stage import records as records_module
from streams.stage.records import DamagedTable, InputRecord
from tests.strategies import payloads
from tests.streams.builders import (
    CLUSTER,
    START_MS,
    at,
    metric,
    node,
    policy_record,
    request,
    tick,
)
from tests.streams.journaled import Journaled
from tests.streams.world import Log, World, only

YEAR_S = 365 * 86_400


def test_a_request_is_answered_with_a_node() -> None:
    world = World()
    decision = only(world.send(tick(), node(), metric(cpu=1000), request()))
    assert (decision.outcome, decision.node, decision.pod.uid) == ("placed", "node-1", "pod-1")
    assert decision.decided_at_ms == START_MS
    assert decision.as_of.offsets == {
        "clock": 0,
        "node-state": 0,
        "node-metrics": 0,
        "scheduling-requests": 0,
    }


def test_a_decision_writes_only_its_own_rows() -> None:
    world = World(tick(), node("a"), node("b", cpu="2"), request("first"))
    result = world.stage.apply([world.log.record(request("second"))])
    assert sorted(row.key for row in result.rows) == [
        "0//partitions/",
        f"0/{CLUSTER}/clusters/",
        f"0/{CLUSTER}/reserved_pods/a/second",
    ]


def test_an_older_tick_does_not_set_the_time_back() -> None:
    world = World(tick(5), node(), tick(3))
    assert only(world.send(request())).decided_at_ms == at(5)
    assert world.dead_letters == []


@pytest.mark.parametrize(
    ("record", "category", "reason"),
    [
        (("clock", b"1", encode(tick(partition=1))), "misplaced", "partition is 1; expected 0"),
        (
            ("node-state", b"else", encode(node())),
            "misplaced",
            "expected 'test'",
        ),
        (("node-state", None, encode(node())), "misplaced", "the record has no key"),
        (("node-state", b"test", None), "unreadable", "the record has no value"),
        (("node-state", b"test", b"{"), "unreadable", "the record is not JSON"),
        (("node-state", b"test", b"{}"), "invalid", "kind"),
        (("policies", b"test", encode(policy_record("loadAwre: {}"))), "invalid", "loadAwre"),
        (("node-metrics", b"test", encode(metric(seconds=61))), "future", "updated_at_ms"),
    ],
)
def test_a_record_that_cannot_be_applied_goes_to_dead_letters(
    record: tuple[str, bytes | None, bytes | None], category: str, reason: str
) -> None:
    world = World(tick())
    rows = dict(world.rows)
    assert world.apply([world.log.add_raw(*record)]) == []
    letter = world.dead_letters[-1]
    assert (letter.topic, letter.offset, letter.category) == (
        record[0],
        world.log.ends[record[0]] - 1,
        category,
    )
    assert reason in letter.reason
    assert world.stage.counts.refused == {(record[0], category): 1}
    assert {key: row for key, row in world.rows.items() if kind_of_key(key) == "nodes"} == {
        key: row for key, row in rows.items() if kind_of_key(key) == "nodes"
    }


def test_a_record_in_the_wrong_partition_is_refused() -> None:
    right = partition_for(CLUSTER.encode(), 4)
    world = World(partition=(right + 1) % 4, partitions=4)
    (letter,) = world.send_refused(node())
    assert "belongs to partition" in letter.reason
    assert world.stage.clusters == {}


def test_one_cluster_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "CLUSTERS_MAX", 1)
    world = World(node())
    (letter,) = world.send_refused(node().model_copy(update={"cluster": "other"}), node("node-2"))
    assert letter.category == "limit"
    assert list(world.stage.clusters) == [CLUSTER]


def test_a_far_future_clock_does_not_stop_decisions() -> None:
    world = World()
    latest_ms = 4_102_444_800_000
    decision = only(world.send(ClockTick(partition=0, now_ms=latest_ms), node(), request()))
    assert decision.outcome == "placed"
    assert decision.expires_at_ms == latest_ms


# --- put together from rows ---------------------------------------------------------------------


def _refused(record: InputRecord, own_s: float) -> InputRecord:
    """The record, marked as refused by a worker with this clock."""
    return replace(record, refused_at_ms=at(own_s))


def test_a_tick_that_the_worker_refused_changes_nothing_and_is_a_dead_letter() -> None:
    world = World(tick())
    world.apply([_refused(world.log.record(tick(YEAR_S)), 1)])
    assert world.stage.now_ms == at(0)
    (letter,) = world.dead_letters
    assert (letter.topic, letter.category) == ("clock", "future")
    assert f"allowed are at most {AHEAD_MAX_MS} ms" in letter.reason
    world.send(tick(2))
    assert world.stage.now_ms == at(2)


def test_a_replay_reads_from_the_journal_which_ticks_the_worker_refused() -> None:
    log, worker = Log(), Journaled()
    worker.apply([log.record(tick()), log.record(node("a"))])
    worker.apply([log.record(tick(1)), _refused(log.record(tick(YEAR_S)), 1)])
    worker.apply([log.record(request("p"))])
    worker.topics = [replace(record, refused_at_ms=None) for record in worker.topics]
    difference, fold = worker.replay()
    assert difference is None
    assert fold.summary.inputs == 5
    assert worker.stage.now_ms == at(1)


def test_a_row_that_cannot_be_read_is_named() -> None:
    cluster = encode(ClusterRow(cluster=CLUSTER))
    row = encode(PartitionRow(partition=0))
    rows = {"0//partitions/": row, "0/test/clusters/": cluster, "0/test/nodes/node-1": b"{"}
    with pytest.raises(DamagedTable, match="row 0/test/nodes/node-1: cannot be read"):
        ClusterStage.restore(0, 1, rows)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("0/test/clusters", "the key is not of the form"),
        ("0/other/clusters/", "cluster is test; expected other, as in the key"),
    ],
)
def test_a_row_with_a_wrong_key_is_refused(key: str, complaint: str) -> None:
    row = encode(PartitionRow(partition=0))
    rows = {"0//partitions/": row, key: encode(ClusterRow(cluster=CLUSTER))}
    with pytest.raises(DamagedTable, match=f"row {key}: {complaint}"):
        ClusterStage.restore(0, 1, rows)


# --- anything at all ----------------------------------------------------------------------------


def messages() -> SearchStrategy[tuple[str, Any]]:
    """Messages that the published input schemas allow."""
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
    world = World(tick(), node(), request())
    written: list[InputRecord] = []
    for topic, payload in given_records:
        key = str(payload.get("cluster", CLUSTER)).encode()
        written.append(world.log.add_raw(topic, key, json.dumps(payload).encode()))
        world.apply(written[-1:])
    assert "internal" not in {letter.category for letter in world.dead_letters}
    again = World()
    again.apply(world.log.records)
    assert (again.outputs, again.rows) == (world.outputs, world.rows)
    again.restart()
    later = [world.log.record(tick(400))]
    assert again.apply(later) == world.apply(later)


def test_an_output_that_is_too_large_becomes_a_dead_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (stage_module, records_module):
        monkeypatch.setattr(module, "VALUE_BYTES_MAX", 300)
    log, stage = Log(), ClusterStage(0, 1)
    records = [log.record(message) for message in (tick(), node("a"), request("p"))]
    result = stage.apply(records)
    assert result.outputs == ()
    (letter,) = result.dead_letters
    read = decode_as(DeadLetter, letter.value)
    assert isinstance(read, DeadLetter)
    assert (read.topic, read.offset, read.category) == ("scheduling-requests", 0, "limit")
    assert "which cannot be published; allowed are at most 300" in read.reason
    assert stage.clusters[CLUSTER].inventory.node_of_pod == {"p": "a"}, "it was applied"
