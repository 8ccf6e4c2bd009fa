"""Journal records: one batch to records, and the tail of a journal to rows and outputs.

A batch becomes one record, or several if it would be too large for one; it counts only when all of
them are there. Writers follow each other: a record that *opens* begins the epoch that has its
offset for a number, and batches of other epochs after it are of a writer that has lost the
partition, so they do not count.

A record that does not say that it is of this journal is foreign: it was produced by mistake, and is
skipped. So are offsets without a record, such as markers of transactions. No record of ours can be lost in this way: batches are numbered without gaps, so a batch
that is missing is an error, and so is a record that says it is ours and cannot be read. Pure: bytes
in, bytes out.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from schemas.base.limits import PIECE_BYTES_MAX
from schemas.base.pieces import split_pieces
from schemas.base.refusals import Refusal
from schemas.messages.journal import JournalRecord
from schemas.storage.tables import PARTITION, kind_of_key
from schemas.topics.codec import encode
from streams.stage.journal_records import JournalBatch, Record, read_record, says_ours, whole
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult, reset_advice

TOPIC = "journal"

#: Bytes of content in one record; a batch with more is continued in further records.
PART_BYTES = PIECE_BYTES_MAX

#: Most offsets of foreign records that an error names.
_NAMED_MAX = 5


class JournalDamaged(RuntimeError):
    """The journal cannot be followed; a worker must not go on from it."""

    def __init__(self, partition: int | None, problem: str) -> None:
        advice = reset_advice("N" if partition is None else partition)
        super().__init__(f"{problem}. {advice}")


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """How far a partition's journal is known."""

    epoch: int = -1
    """Offset of the opening record of the partition's owner; -1: it was never opened."""
    sequence: int = -1
    """Number of the last whole batch."""
    offset: int = -1
    """Offset of the last record that was read."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A record that is not of the journal."""

    offset: int
    refusal: Refusal
    """Why it was passed over."""


@dataclass(slots=True)
class Tail:
    """What the batches of a stretch of journal come to, one after the other."""

    place: JournalPlace
    rows: dict[str, bytes | None] = field(default_factory=dict)
    """Newest value per key, in the order of the changes; none: the row is gone."""
    outputs: list[OutputRecord] = field(default_factory=list)


def opening(partition: int) -> bytes:
    """The record by which a new writer takes the partition over."""
    return encode(JournalRecord(partition=partition, epoch=0, sequence=0, opens=True)) + b"\n"


def batch(
    partition: int, place: JournalPlace, applied: Sequence[InputRecord], result: StageResult
) -> list[bytes]:
    """The records of the batch that follows `place`."""
    outputs = (*result.outputs, *result.dead_letters)
    index = {
        "inputs": runs(applied),
        "rows": [(row.key, None if row.value is None else len(row.value)) for row in result.rows],
        "outputs": [(each.topic, each.key, each.timestamp_ms, len(each.value)) for each in outputs],
    }
    content = b"".join(
        (
            orjson.dumps(index, option=orjson.OPT_APPEND_NEWLINE),
            *(row.value for row in result.rows if row.value is not None),
            *(each.value for each in outputs),
        )
    )
    parts = split_pieces(content, PART_BYTES)
    head = {
        "schema_version": 1,
        "partition": partition,
        "epoch": place.epoch,
        "sequence": place.sequence + 1,
        "parts": len(parts),
        "applied": len(applied),
        "rows": len(result.rows),
        "outputs": len(outputs),
        "positions": _positions(result.rows),
    }
    return [
        orjson.dumps({**head, "part": number}, option=orjson.OPT_APPEND_NEWLINE) + part
        for number, part in enumerate(parts)
    ]


def _positions(rows: Sequence[RowChange]) -> dict[str, int]:
    """What the partition's own row says, which comes last; who asks how far a worker has come needs
    no more."""
    own = next((row.value for row in reversed(rows) if kind_of_key(row.key) == PARTITION), None)
    positions: dict[str, int] = {} if own is None else orjson.loads(own)["offsets"]
    return positions


def runs(applied: Iterable[InputRecord]) -> list[dict[str, object]]:
    """Consecutive offsets of one topic and one verdict, in the order applied."""
    found: list[dict[str, object]] = []
    before: tuple[str, int, int | None] = "", -1, None
    for record in applied:
        same = (record.topic, record.offset, record.refused_at_ms) == before
        if same:
            found[-1]["last_offset"] = record.offset
        else:
            run: dict[str, object] = {
                "topic": record.topic,
                "first_offset": record.offset,
                "last_offset": record.offset,
            }
            if record.refused_at_ms is not None:
                run["refused_at_ms"] = record.refused_at_ms
            found.append(run)
        before = record.topic, record.offset + 1, record.refused_at_ms
    return found


class JournalReader:
    """Follows a partition's journal record by record."""

    def __init__(self, place: JournalPlace, partition: int | None = None) -> None:
        """`partition` is whose journal it is; none: whichever one its records name."""
        self.place = place
        """How far the journal is known."""
        self._foreign: list[Foreign] = []
        self._passed_over: deque[int] = deque(maxlen=_NAMED_MAX)
        self._partition = partition
        self._parts: list[Record] = []

    def take(self, offset: int, value: bytes | None) -> JournalBatch | None:
        """Read the record that follows; answers with the batch that it completes, if it counts.

        A batch is whole: what was continued in further records is in one again.

        Raises:
            JournalDamaged: the record cannot be read, or a batch before it is missing.
        """
        found = self._read(offset, value)
        self.place = replace(self.place, offset=offset)
        if found is None:
            return None
        record, content = found
        if record.opens:
            self._parts = []
            self.place = replace(self.place, epoch=offset)
        elif record.epoch == self.place.epoch:
            self._parts.append((record, content))
            if record.part == record.parts - 1:
                parts, self._parts = self._parts, []
                return self._whole(parts)
        elif record.epoch > self.place.epoch:
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} is of epoch {record.epoch}, of which no opening was read; "
                f"the newest that was is {self.place.epoch}",
            )
        return None

    def take_foreign(self) -> list[Foreign]:
        """Records that were passed over since the last call."""
        foreign, self._foreign = self._foreign, []
        return foreign

    def _read(self, offset: int, value: bytes | None) -> Record | None:
        """A record of this journal; None: it is foreign."""
        found = read_record(value)
        if isinstance(found, Refusal):
            if says_ours(value):
                raise JournalDamaged(
                    self._partition,
                    f"journal offset {offset} cannot be read: {found.reason}. Where a newer version has "
                    f"written it, start that one",
                )
            why = f"this is no record of the journal: {found.reason}"
            self._pass_over(offset, Refusal(found.category, why))
            return None
        named = found[0].partition
        if self._partition is not None and named != self._partition:
            why = (
                f"partition is {named}; allowed is {self._partition}, in which the record was found"
            )
            self._pass_over(offset, Refusal("misplaced", why))
            return None
        return found

    def _pass_over(self, offset: int, refusal: Refusal) -> None:
        self._foreign.append(Foreign(offset, refusal))
        self._passed_over.append(offset)

    def _whole(self, parts: list[Record]) -> JournalBatch:
        first, offset = parts[0][0], self.place.offset
        sequence = first.sequence
        if [part.part for part, _ in parts] != list(range(first.parts)):
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} ends batch {sequence}, of which parts are missing"
                f"{self._named()}",
            )
        if sequence != self.place.sequence + 1:
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} holds batch {sequence}; expected "
                f"{self.place.sequence + 1}: batches between them are missing{self._named()}",
            )
        self.place = replace(self.place, sequence=sequence)
        try:
            return whole(parts)
        except ValueError as error:
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} ends batch {sequence}, whose content cannot be read: {error}",
            ) from error

    def _named(self) -> str:
        """What was passed over, in which something of ours may be."""
        offsets = ", ".join(map(str, self._passed_over))
        return f"; passed over as foreign were the records at {offsets}" if offsets else ""


def follow(place: JournalPlace, entries: Iterable[tuple[int, bytes | None]]) -> Tail:
    """Read on from a place.

    Args:
        place: how far the journal is known.
        entries: offset and value of the records after it.

    Raises:
        JournalDamaged: a record cannot be read, or a batch is missing.
    """
    return go_on(JournalReader(place), entries)


def go_on(reader: JournalReader, entries: Iterable[tuple[int, bytes | None]]) -> Tail:
    """Read on with a reader, which a stretch that comes in pieces needs; as `follow` otherwise."""
    tail = Tail(reader.place)
    for offset, value in entries:
        batch = reader.take(offset, value)
        if batch is not None:
            tail.rows |= {row.key: row.value for row in batch.rows}
            tail.outputs += batch.outputs
    tail.place = reader.place
    return tail
