"""Journal records: one batch to records, and the tail of a journal to what it comes to.

A batch becomes one record, or several where it would be too large for one; it holds only when all of them
are there. Writers follow each other: a record that *opens* begins the epoch that has its offset for a
number, and batches of other epochs after it are of a writer that has lost the partition, so they do not
count. Pure: bytes in, bytes out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import orjson

from schemas.codec import decode_as, encode
from schemas.journal import JournalRecord
from schemas.refusals import Refusal
from streams.records import InputRecord, OutputRecord, RowChange, StageResult

TOPIC = "journal"

#: Bytes of rows and outputs in one record; a batch with more is continued in further records.
PART_BYTES = 700_000


class JournalDamaged(RuntimeError):
    """The journal cannot be followed; a worker must not go on from it."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far a partition's journal is known."""

    epoch: int = -1
    """Offset of the opening record of the writer in office; -1: nobody has opened it."""
    sequence: int = -1
    """Number of the last whole batch."""
    offset: int = -1
    """Offset of the last record that was read."""


@dataclass(slots=True)
class Tail:
    """What the batches of a stretch of journal come to, one after the other."""

    place: Place
    rows: dict[tuple[str, str], bytes | None] = field(default_factory=dict)
    """Newest value per table and key, in the order of the changes; none: the row is gone."""
    outputs: list[OutputRecord] = field(default_factory=list)


def opening(partition: int) -> bytes:
    """The record by which a new writer takes office."""
    return encode(JournalRecord(partition=partition, epoch=0, sequence=0, opens=True))


def batch(
    partition: int, place: Place, applied: Sequence[InputRecord], result: StageResult
) -> list[bytes]:
    """The records of the batch that follows `place`."""
    head = {
        "schema_version": 1,
        "partition": partition,
        "epoch": place.epoch,
        "sequence": place.sequence + 1,
    }
    parts = list(_parts(result)) or [([], [])]
    return [
        orjson.dumps(
            {
                **head,
                "part": number,
                "parts": len(parts),
                "inputs": runs(applied) if number == 0 else [],
                "rows": rows,
                "outputs": outputs,
            }
        )
        for number, (rows, outputs) in enumerate(parts)
    ]


def runs(applied: Iterable[InputRecord]) -> list[dict[str, object]]:
    """Consecutive offsets of one topic and one verdict, in the order applied."""
    found: list[dict[str, object]] = []
    before: tuple[str, int, int | None] = "", -1, None
    for record in applied:
        same = (record.topic, record.offset, record.refused_at_ms) == before
        if same and record.topic_id is None:
            found[-1]["last_offset"] = record.offset
        else:
            run: dict[str, object] = {
                "topic": record.topic,
                "first_offset": record.offset,
                "last_offset": record.offset,
            }
            if record.topic_id is not None:
                run["topic_id"] = record.topic_id
            if record.refused_at_ms is not None:
                run["refused_at_ms"] = record.refused_at_ms
            found.append(run)
        before = record.topic, record.offset + 1, record.refused_at_ms
    return found


class Reader:
    """Follows a partition's journal record by record."""

    def __init__(self, place: Place) -> None:
        self.place = place
        """How far the journal is known."""
        self._parts: list[JournalRecord] = []

    def take(self, offset: int, value: bytes | None) -> JournalRecord | None:
        """Read the record that follows; answers with the batch that it completes, if it counts.

        A batch is whole: what was continued in further records is in one again.

        Raises:
            JournalDamaged: the record cannot be read, or what should be before it is gone.
        """
        record = decode_as(JournalRecord, value)
        if isinstance(record, Refusal):
            raise JournalDamaged(f"journal offset {offset} cannot be read: {record.reason}")
        if offset != self.place.offset + 1:
            raise JournalDamaged(
                f"journal offsets {self.place.offset + 1} to {offset - 1} are gone; retention may be "
                "shorter than a worker was away"
            )
        self.place = replace(self.place, offset=offset)
        if record.opens:
            self._parts = []
            self.place = replace(self.place, epoch=offset)
        elif record.epoch == self.place.epoch:
            self._parts.append(record)
            if record.part == record.parts - 1:
                parts, self._parts = self._parts, []
                return self._whole(parts)
        elif record.epoch > self.place.epoch:
            raise JournalDamaged(
                f"journal offset {offset} is of epoch {record.epoch}, of which no opening was read; "
                f"the newest that was is {self.place.epoch}"
            )
        return None

    def _whole(self, parts: list[JournalRecord]) -> JournalRecord:
        sequence, offset = parts[0].sequence, self.place.offset
        if [part.part for part in parts] != list(range(parts[0].parts)):
            raise JournalDamaged(
                f"journal offset {offset} ends batch {sequence}, of which parts are missing"
            )
        if sequence != self.place.sequence + 1:
            raise JournalDamaged(
                f"journal offset {offset} holds batch {sequence}; expected "
                f"{self.place.sequence + 1}: batches between them are missing"
            )
        self.place = replace(self.place, sequence=sequence)
        if len(parts) == 1:
            return parts[0]
        return parts[0].model_copy(
            update={
                "parts": 1,
                "rows": tuple(row for part in parts for row in part.rows),
                "outputs": tuple(output for part in parts for output in part.outputs),
            }
        )


def follow(place: Place, entries: Iterable[tuple[int, bytes | None]]) -> Tail:
    """Read on from a place.

    Args:
        place: how far the journal is known.
        entries: offset and value of the records after it.

    Raises:
        JournalDamaged: a record cannot be read, or a batch is missing.
    """
    return go_on(Reader(place), entries)


def go_on(reader: Reader, entries: Iterable[tuple[int, bytes | None]]) -> Tail:
    """Read on with a reader, which a stretch that comes in pieces needs; as `follow` otherwise."""
    tail = Tail(reader.place)
    for offset, value in entries:
        whole = reader.take(offset, value)
        if whole is not None:
            for row in rows_of(whole):
                # The newest come last: a row may be there whole and in single items.
                tail.rows.pop((row.table, row.key), None)
                tail.rows[row.table, row.key] = row.value
            tail.outputs += outputs_of(whole)
    tail.place = reader.place
    return tail


def rows_of(batch: JournalRecord) -> list[RowChange]:
    """The rows that a batch changed."""
    return [
        RowChange(row.table, row.key, None if row.value is None else row.value.encode())
        for row in batch.rows
    ]


def outputs_of(batch: JournalRecord) -> list[OutputRecord]:
    """The records that a batch emits, dead letters last."""
    return [
        OutputRecord(each.topic, each.key, each.value.encode(), each.timestamp_ms)
        for each in batch.outputs
    ]


def _parts(
    result: StageResult,
) -> Iterator[tuple[list[dict[str, object]], list[dict[str, object]]]]:
    rows: list[dict[str, object]] = []
    outputs: list[dict[str, object]] = []
    size = 0
    for row in result.rows:
        length = len(row.value or b"") + len(row.key)
        if size and size + length > PART_BYTES:
            yield rows, outputs
            rows, outputs, size = [], [], 0
        value = None if row.value is None else row.value.decode()
        rows.append({"table": row.table, "key": row.key, "value": value})
        size += length
    for output in (*result.outputs, *result.dead_letters):
        if size and size + len(output.value) > PART_BYTES:
            yield rows, outputs
            rows, outputs, size = [], [], 0
        outputs.append(
            {
                "topic": output.topic,
                "key": output.key,
                "value": output.value.decode(),
                "timestamp_ms": output.timestamp_ms,
            }
        )
        size += len(output.value)
    if rows or outputs:
        yield rows, outputs
