"""A successor reads what the writer of the journal has written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.refusals import Refusal
from schemas.messages.nodes import NodeState
from schemas.topics.codec import encode
from streams.stage import journal
from streams.stage.journal import JournalDamaged, JournalPosition, JournalReader
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from tests.streams.journaled import read_tail

_texts = st.text(max_size=40)
_values = st.one_of(st.none(), _texts.map(str.encode))
_rows = st.builds(RowChange, _texts.map("0/c/nodes/{}".format), _values)
_outputs = st.builds(
    OutputRecord,
    st.just("placement-decisions"),
    _texts,
    _texts.map(str.encode),
    st.one_of(st.none(), st.integers(0, 2**40)),
)
_results = st.builds(
    StageResult,
    st.lists(_outputs, max_size=8).map(tuple),
    st.lists(_rows, max_size=8).map(tuple),
)


def _records(offsets: dict[str, list[int]]) -> list[InputRecord]:
    return [
        InputRecord(topic, 0, offset, b"c", b"{}", 0)
        for topic, of_topic in offsets.items()
        for offset in of_topic
    ]


class Log:
    """A partition of topic `journal`."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def append(self, values: list[bytes]) -> int:
        """Append values; return the offset of the last one."""
        self.values += values
        return len(self.values) - 1

    def after(self, position: JournalPosition) -> list[tuple[int, bytes]]:
        """Entries after a position."""
        return list(enumerate(self.values))[position.offset + 1 :]


class Writer:
    """Takes the partition over and appends, as a worker does."""

    def __init__(self, log: Log, position: JournalPosition) -> None:
        self._log = log
        log.append([journal.encode_opening(0)])
        self.tail = read_tail(JournalReader(position, 0), log.after(position))
        self.place = self.tail.position

    def write(self, result: StageResult, offsets: dict[str, list[int]] | None = None) -> None:
        """Append one batch."""
        offset = self._log.append(
            journal.encode_batch(0, self.place, _records(offsets or {}), result)
        )
        self.place = JournalPosition(self.place.epoch, self.place.sequence + 1, offset)


@given(st.lists(_results, max_size=6))
def test_a_successor_reads_the_newest_rows_and_all_outputs_in_order(
    results: list[StageResult],
) -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    rows: dict[str, bytes | None] = {}
    for result in results:
        writer.write(result)
        rows.update({row.key: row.value for row in result.rows})
    tail = Writer(log, JournalPosition()).tail
    assert tail.rows == rows
    assert tail.outputs == [output for result in results for output in result.outputs]
    assert tail.position.sequence == len(results) - 1


@given(st.lists(_results, min_size=1, max_size=6), st.data())
def test_reading_from_any_batch_returns_the_following_outputs(
    results: list[StageResult], data: st.DataObject
) -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    places = []
    for result in results:
        writer.write(result)
        places.append(writer.place)
    read = data.draw(st.integers(0, len(results) - 1))
    tail = Writer(log, places[read]).tail
    assert tail.outputs == [o for result in results[read + 1 :] for o in result.outputs]


def test_records_of_a_replaced_writer_are_ignored() -> None:
    log = Log()
    old = Writer(log, JournalPosition())
    old.write(StageResult(rows=(RowChange("0/c/nodes/a", b"1"),)))
    new = Writer(log, JournalPosition())
    old.write(StageResult(rows=(RowChange("0/c/nodes/a", b"old"),)))
    new.write(StageResult(rows=(RowChange("0/c/nodes/b", b"2"),)))
    old.write(StageResult(rows=(RowChange("0/c/nodes/b", b"old"),)))
    assert Writer(log, JournalPosition()).tail.rows == {"0/c/nodes/a": b"1", "0/c/nodes/b": b"2"}


def test_a_batch_in_several_records_counts_only_when_complete() -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    large = tuple(
        RowChange(f"0/c/nodes/{number}", b"x" * (journal.PART_BYTES // 3)) for number in range(8)
    )
    writer.write(StageResult(rows=large))
    assert len(log.values) > 2
    assert len(Writer(log, JournalPosition()).tail.rows) == 8

    cut = Log()
    cut.values = log.values[:3]
    tail = Writer(cut, JournalPosition()).tail
    assert tail.rows == {}
    assert tail.position.sequence == -1


def test_a_missing_batch_is_an_error_and_no_silent_hole() -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    writer.write(StageResult(rows=(RowChange("0/c/nodes/a", b"1"),)))
    writer.write(StageResult(rows=(RowChange("0/c/nodes/a", b"2"),)))
    whole = log.after(JournalPosition())
    with pytest.raises(JournalDamaged, match="expected 0"):
        read_tail(JournalReader(JournalPosition(), 0), [whole[0], whole[2]])


def test_offsets_without_a_record_are_no_missing_batch() -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    for number in range(3):
        writer.write(StageResult(rows=(RowChange(f"0/c/nodes/{number}", b"1"),)))
    apart = zip((0, 2, 3, 7), log.values, strict=True)
    tail = read_tail(JournalReader(JournalPosition(), 0), apart)
    assert tail.position == JournalPosition(0, 2, 7)
    assert len(tail.rows) == 3


def test_a_journal_without_its_beginning_is_an_error_and_not_an_empty_journal() -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    for number in range(3):
        writer.write(StageResult(rows=(RowChange(f"0/c/nodes/{number}", b"1"),)))
    with pytest.raises(
        JournalDamaged, match="has epoch 0, but the opening record of this epoch is missing"
    ):
        read_tail(JournalReader(JournalPosition(offset=1), 0), log.after(JournalPosition(offset=1)))


_FOREIGN = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"not json",
            b"[]",
            b'{"partition":0}',
            b"{}\nand more",
            b"\n",
            encode(NodeState(cluster="c", node="n", event="removed")),
        ]
    ),
)


@given(
    st.lists(_results, min_size=1, max_size=4),
    st.lists(_FOREIGN, min_size=1, max_size=4),
    st.data(),
)
def test_foreign_records_are_skipped_anywhere(
    results: list[StageResult], foreign: list[bytes | None], data: st.DataObject
) -> None:
    mixed: list[bytes | None] = [journal.encode_opening(0)]
    before = data.draw(st.booleans())  # an opening has its offset for an epoch
    position = JournalPosition(int(before), -1)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(journal, "PART_BYTES", 60)
        for result in results:
            mixed += journal.encode_batch(0, position, (), result)
            position = replace(position, sequence=position.sequence + 1)
    for value in foreign:
        mixed.insert(data.draw(st.integers(1, len(mixed))), value)
    if before:
        mixed.insert(0, foreign[0])
    reader = JournalReader(JournalPosition(), partition=0)
    tail = read_tail(reader, enumerate(mixed))
    assert tail.outputs == [output for result in results for output in result.outputs]
    assert tail.position.sequence == len(results) - 1
    assert len(tail.foreign) == len(foreign) + before


def test_a_record_of_another_partition_is_foreign() -> None:
    reader = JournalReader(JournalPosition(), partition=0)
    foreign = reader.feed(0, journal.encode_opening(1))
    assert isinstance(foreign, Refusal)
    assert foreign.category == "misplaced"
    assert reader.position == JournalPosition(-1, -1, 0)


@pytest.mark.parametrize(
    "value",
    [
        b'{"schema_version":2,"partition":0,"epoch":0,"sequence":0,"parts":1}\ncontent',
        b'{"schema_version":9,"partition":0,"epoch":0,"sequence":0}',
        b'{"schema_version":1,"partition":0,"epoch":0,"sequence":-1}\n{}\n',
    ],
)
def test_an_unreadable_journal_record_is_damage_and_not_foreign(value: bytes) -> None:
    reader = JournalReader(JournalPosition(), partition=0)
    reader.feed(0, journal.encode_opening(0))
    with pytest.raises(
        JournalDamaged, match=r"journal offset 1 cannot be read.*start that version"
    ):
        reader.feed(1, value)


def test_a_missing_batch_next_to_a_foreign_record_is_an_error() -> None:
    log = Log()
    writer = Writer(log, JournalPosition())
    for number in range(3):
        writer.write(StageResult(rows=(RowChange(f"0/c/nodes/{number}", b"1"),)))
    log.values[2] = b"garbage"
    with pytest.raises(JournalDamaged, match="the batches in between are missing"):
        read_tail(JournalReader(JournalPosition(), 0), log.after(JournalPosition()))


def test_content_that_does_not_match_its_index_is_damage() -> None:
    log = Log()
    Writer(log, JournalPosition()).write(StageResult(rows=(RowChange("0/c/nodes/a", b"123"),)))
    with pytest.raises(JournalDamaged, match="found 2 bytes of values; the index says 3"):
        read_tail(
            JournalReader(JournalPosition(), 0), [(0, log.values[0]), (1, log.values[1][:-1])]
        )


@given(st.integers(1, 300), st.integers(0, 5))
def test_no_record_is_longer_than_content_and_head_may_be(size: int, rows: int) -> None:
    """Whatever is inside: a value that JSON would write at twice its length takes its own length."""
    changes = tuple(RowChange(f"0/c/nodes/{n}", b'"' * size) for n in range(rows))
    with pytest.MonkeyPatch.context() as small:
        small.setattr(journal, "PART_BYTES", 40)
        values = journal.encode_batch(0, JournalPosition(0, -1, 0), (), StageResult(rows=changes))
    assert all(len(value) <= 40 + 200 for value in values)
    assert sum(len(value) for value in values) <= len(values) * 200 + rows * (size + 40) + 60
    entries = [(0, journal.encode_opening(0)), *enumerate(values, start=1)]
    assert read_tail(JournalReader(JournalPosition(), 0), entries).rows == {
        row.key: row.value for row in changes
    }
