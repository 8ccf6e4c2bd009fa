"""Replay finds every difference between the journal and the recorded inputs."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.policy import effective_yaml
from schemas.storage.tables import kind_of_key
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.replay.recorded import NotReplayable
from streams.replay.verify import Window
from streams.stage import journal
from streams.stage.checkpoint import Checkpoint
from streams.stage.journal import JournalDamaged
from streams.stage.records import InputRecord, StageResult
from tests.streams.builders import (
    at,
    lifecycle,
    metric,
    node,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.journaled import Journaled, altered, as_record, from_record
from tests.streams.strategies import (
    UIDS,
    annotated_nodes,
    loading_pods,
    metrics,
    node_names,
    policies,
)
from tests.streams.world import Log

_MESSAGES = st.one_of(
    annotated_nodes(),
    annotated_nodes(),
    metrics(),
    loading_pods().map(request),
    loading_pods().map(request),
    st.integers(0, 400).map(tick),
    node_names().map(removed_node),
    st.builds(lambda of, name: lifecycle("running", of, name), loading_pods(), node_names()),
    st.sampled_from(UIDS).map(lambda uid: request(uid, withdrawn=True)),
    policies().map(effective_yaml).map(policy_record),
)
_GARBAGE = st.tuples(st.sampled_from(CLUSTER_INPUTS), st.binary(max_size=8))


@st.composite
def _records(draw: st.DrawFn) -> list[InputRecord]:
    """The log of a cluster, bad records among it."""
    log = Log()
    log.record(tick())
    for item in draw(st.lists(st.one_of(_MESSAGES, _MESSAGES, _GARBAGE), max_size=30)):
        if isinstance(item, tuple):
            log.add_raw(item[0], b"test", item[1])
        else:
            log.record(item)
    return log.records


@st.composite
def _histories(draw: st.DrawFn) -> Journaled:
    """A log, journaled in random batches by a writer that is killed now and then."""
    records = draw(_records())
    history = Journaled()
    while records:
        size = draw(st.integers(1, 8))
        batch, records = records[:size], records[size:]
        event = draw(st.sampled_from(("", "", "killed", "frozen")))
        if event == "killed":
            history.start()
        if event == "frozen":
            history.lost(batch[:2], StageResult())
        history.apply(batch)
    return history


@settings(max_examples=40)
@given(_histories(), st.data())
def test_a_changed_output_or_row_is_found(history: Journaled, data: st.DataObject) -> None:
    values = list(history.journal)
    holding = [n for n, value in enumerate(values) if _counts(values, n) and _holds(value)]
    number = data.draw(st.sampled_from(holding))
    record = as_record(values[number])
    changed = data.draw(st.sampled_from([*record["outputs"], *record["rows"]]))
    if changed["value"] is None:
        changed["value"] = "{}"
    else:
        changed["value"] = changed["value"].replace("test", "best", 1) + " "
    values[number] = from_record(record)
    difference, _ = history.replay(values=values)
    assert difference is not None
    assert (difference.journal_offset, difference.sequence) == (number, record["sequence"])
    assert len(difference.mismatches) == 1


@settings(max_examples=60)
@given(_records(), st.data())
def test_a_changed_input_with_an_effect_is_found_and_named(
    records: list[InputRecord], data: st.DataObject
) -> None:
    history = Journaled()
    for record in records:
        history.apply([record])
    which = data.draw(st.sampled_from([record for record in records if record.value]))
    value = bytearray(which.value or b"")
    value[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.sampled_from((1, 2, 16)))
    topics = altered(records, which, bytes(value))
    difference, _ = history.replay(topics=topics)
    again = Journaled()
    for record in topics:
        again.apply([record])
    assert (difference is None) == (_batches(again) == _batches(history))
    if difference is not None:
        assert difference.culprit is topics[records.index(which)]


# --- from a checkpoint ----------------------------------------------------------------------------


def _long() -> tuple[Journaled, Checkpoint, list[InputRecord]]:
    """A history, a checkpoint in its middle, and the inputs after it."""
    log, history = Log(), Journaled()
    before = [tick(), node("a"), node("b"), metric("a", cpu=1_000), request("p0"), request("p1")]
    history.apply([log.record(message) for message in before])
    checkpoint = history.checkpoint
    after = [metric("b", cpu=4_000), request("p2"), tick(1), request("p3")]
    records = [log.record(message) for message in after]
    history.apply(records[:2])
    history.apply(records[2:])
    return history, checkpoint, records


def test_a_changed_input_after_a_checkpoint_is_found_and_named() -> None:
    history, checkpoint, after = _long()
    assert history.replay(checkpoint=checkpoint, topics=after)[0] is None, (
        "no input before it is read"
    )
    topics = altered(after, after[0], (after[0].value or b"").replace(b"4000", b"4001"))
    difference, verification = history.replay(checkpoint=checkpoint, topics=topics)
    assert difference is not None
    assert difference.culprit is topics[0]
    assert (difference.sequence, verification.summary.batches) == (1, 0)


def test_a_missing_input_after_a_checkpoint_is_an_error() -> None:
    history, checkpoint, after = _long()
    with pytest.raises(
        NotReplayable, match="node-metrics, partition 0: the offsets from 1 on are missing"
    ):
        history.replay(checkpoint=checkpoint, topics=after[1:])


def test_a_journal_that_does_not_continue_at_the_checkpoint_is_an_error() -> None:
    history, checkpoint, _ = _long()
    for position, words in (
        (replace(checkpoint.position, sequence=5), "has batch 1; expected 6"),
        (
            replace(checkpoint.position, epoch=-1),
            "has epoch 0, but the opening record of this epoch is missing",
        ),
    ):
        with pytest.raises(JournalDamaged, match=words):
            history.replay(checkpoint=replace(checkpoint, position=position))
    newer = replace(checkpoint.position, epoch=7)
    difference, verification = history.replay(checkpoint=replace(checkpoint, position=newer))
    assert (difference, verification.summary.batches) == (None, 0), (
        "batches of an earlier epoch do not count"
    )


@pytest.mark.parametrize("kind", ["nodes", "reserved_pods"])
def test_a_checkpoint_whose_rows_cannot_be_read_is_an_error(kind: str) -> None:
    history, checkpoint, _ = _long()
    rows = tuple(
        (key, b"[" if kind_of_key(key) == kind else value) for key, value in checkpoint.rows
    )
    with pytest.raises(NotReplayable, match=f"cannot be restored: row 0/test/{kind}/"):
        history.replay(checkpoint=replace(checkpoint, rows=rows))


# --- one batch of several inputs ----------------------------------------------------------------


def _busy(log: Log) -> list[InputRecord]:
    """Two nodes; pods go to the less used one."""
    messages = [
        tick(),
        node("a"),
        node("b"),
        metric("a", cpu=1_000),
        metric("b", cpu=4_000),
        request("p1"),
        metric("b", cpu=4_100),
        request("p2"),
        tick(1),
        request("p3"),
    ]
    return [log.record(message) for message in messages]


def _metric_of_a(record: InputRecord) -> bool:
    return record.topic == "node-metrics" and b'"a"' in (record.value or b"")


def _request_of_p2(record: InputRecord) -> bool:
    return record.topic == "scheduling-requests" and b"p2" in (record.value or b"")


def _last_metric(record: InputRecord) -> bool:
    return record.topic == "node-metrics" and b"4100" in (record.value or b"")


@pytest.mark.parametrize(
    ("which", "old", "new"),
    [
        (_metric_of_a, b"1000", b"7000"),
        (_metric_of_a, b"1000", b"1001"),
        (_metric_of_a, b"{", b"["),
        (_metric_of_a, b'"a"', b'"c"'),
        (_request_of_p2, b'"cpu":"1"', b'"cpu":"9"'),
        (_request_of_p2, b'"p2"', b'"p4"'),
        (_request_of_p2, b"{", b"["),
        (_last_metric, b"4100", b"4101"),
        (_last_metric, b"{", b"["),
    ],
)
def test_the_input_is_found_within_its_batch(
    which: Callable[[InputRecord], bool], old: bytes, new: bytes
) -> None:
    history = Journaled()
    records = _busy(Log())
    history.apply(records[:2])
    history.apply(records[2:])
    (culprit,) = filter(which, records)
    topics = altered(records, culprit, (culprit.value or b"").replace(old, new))
    difference, verification = history.replay(topics=topics)
    assert difference is not None
    assert verification.summary.batches == 1
    assert difference.culprit is not None
    culprit_position = (difference.culprit.topic, difference.culprit.offset)
    assert culprit_position == (culprit.topic, culprit.offset)


def test_both_sides_are_shown_with_the_places_in_which_they_differ() -> None:
    history = Journaled()
    records = _busy(Log())
    history.apply(records)
    (culprit,) = filter(_metric_of_a, records)
    topics = altered(records, culprit, (culprit.value or b"").replace(b"1000", b"7000"))
    difference, _ = history.replay(topics=topics)
    assert difference is not None
    decision = difference.mismatches[0]
    assert (decision.kind, decision.index_or_key) == ("output", 0)
    sides = {path.name: (path.recorded, path.replayed) for path in decision.paths}
    assert sides["value.node"] == ("a", "b")
    rows = {m.index_or_key: m.paths for m in difference.mismatches if m.kind == "row"}
    (path,) = rows["0/test/nodes/a"]
    assert (path.name, path.recorded, path.replayed) == ("metric.usage.cpu", 1000, 7000)


# --- what a journal may look like ---------------------------------------------------------------


def test_a_batch_in_several_records_is_compared_whole() -> None:
    log, history = Log(), Journaled()
    long = {"note": "x" * 5_000}
    nodes = [log.record(node(f"n{n}", annotations=long)) for n in range(300)]
    history.apply([log.record(tick())])
    history.apply(nodes)
    assert len(history.journal) > 4
    difference, verification = history.replay()
    assert difference is None
    assert (verification.summary.batches, verification.summary.inputs) == (2, 301)
    history.journal.pop()
    _, verification = history.replay()
    assert verification.summary.batches == 1, "a batch that is not complete does not count"


def test_the_window_is_of_the_clock_of_the_log() -> None:
    log, history = Log(), Journaled()
    history.apply([log.record(node())])
    for second in range(10):
        history.apply([log.record(tick(second))])
    for window, batches in (
        (Window(), 11),
        (Window(from_ms=at(0)), 10),
        (Window(from_ms=at(4)), 6),
        (Window(to_ms=at(4)), 6),
        (Window(at(2), at(4)), 3),
        (Window(from_ms=at(60)), 0),
    ):
        difference, verification = history.replay(window=window)
        assert difference is None
        assert verification.summary.batches == batches
    smaller = [replace(r, value=(r.value or b"").replace(b"32Gi", b"16Gi")) for r in history.topics]
    assert history.replay(topics=smaller)[0] is not None
    difference, _ = history.replay(topics=smaller, window=Window(at(2)))
    assert difference is None, "what differs before the window is not compared"


def test_another_cluster_is_left_out_of_what_is_compared() -> None:
    log, history = Log(), Journaled()
    other = [message.model_copy(update={"cluster": "tester"}) for message in (node(), request("x"))]
    messages = [tick(), node(), request("p1"), *other]
    history.apply([log.record(message) for message in messages])
    topics = [
        replace(record, value=(record.value or b"").replace(b'"x"', b'"y"'))
        for record in history.topics
    ]
    assert history.replay(topics=topics)[0] is not None
    assert history.replay(topics=topics, window=Window(cluster="tester"))[0] is not None
    difference, verification = history.replay(topics=topics, window=Window(cluster="test"))
    assert difference is None
    assert (verification.summary.outputs, verification.summary.rows) == (1, 4)


# --- a history that is not whole, or not applied once -------------------------------------------


def test_a_missing_input_is_an_error() -> None:
    history = Journaled()
    records = _busy(Log())
    history.apply(records)
    for which in records:
        topics = [record for record in records if record is not which]
        with pytest.raises(NotReplayable, match=f"{which.topic}, .* batch 0 .* {which.offset}[.]"):
            history.replay(topics=topics)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        ((1, 2), "offset 0 is missing"),
        ((2,), "the offsets 0 to 1 are missing"),
        ((0, 2), "offset 1 is missing"),
        ((0,), "the offsets from 1 on are missing"),
        ((), "the offsets from 0 on are missing"),
    ],
)
def test_the_error_says_which_offsets_are_gone(offsets: tuple[int, ...], words: str) -> None:
    history = Journaled()
    history.apply(_busy(Log()))
    kept = [r for r in history.topics if r.topic != "node-metrics" or r.offset in offsets]
    with pytest.raises(NotReplayable, match=f"topic node-metrics, partition 0: {words}"):
        history.replay(topics=kept)


def test_offsets_without_a_record_are_no_gap() -> None:
    log, history = Log(), Journaled()
    log.record(policy_record())  # compacted away before the worker has read it
    history.apply([log.record(policy_record()), log.record(tick())])
    difference, verification = history.replay()
    assert difference is None
    assert verification.summary.inputs == 2


def test_a_record_that_was_applied_twice_is_a_difference() -> None:
    log, history = Log(), Journaled()
    batch = [log.record(tick()), log.record(metric())]
    history.apply(batch)
    history.write(batch[1:], StageResult())
    difference, _ = history.replay()
    assert difference is not None
    assert difference.problem == "node-metrics offset 0 was applied before"


def _counts(values: Sequence[bytes], number: int) -> bool:
    """Whether a journal record is of the writer that owns the partition there."""
    reader = journal.JournalReader(journal.JournalPosition(), 0)
    return [reader.feed(n, value) for n, value in enumerate(values)][number] is not None


def _holds(value: bytes) -> bool:
    """Whether the record contains rows or outputs with a value."""
    record = as_record(value)
    return any(entry["value"] is not None for entry in (*record["rows"], *record["outputs"]))


def _batches(history: Journaled) -> list[Any]:
    reader = journal.JournalReader(journal.JournalPosition(), 0)
    read = [reader.feed(number, value) for number, value in enumerate(history.journal)]
    return [asdict(batch) for batch in read if isinstance(batch, journal.JournalBatch)]
