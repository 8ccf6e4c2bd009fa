"""Converts a batch to journal records, and journal records to batches.

- A batch becomes one record, or several parts if it is too large. An incomplete batch is ignored.
- A new owner of the partition writes an opening record. The offset of this record is the owner's epoch.
  Later batches of earlier epochs come from a writer that has lost the partition, and are ignored.
- A record without the head of a journal record is foreign: it was produced by mistake, and is skipped.
- Offsets without a record, such as markers of transactions, are skipped too.
- Batches are numbered without gaps. A missing batch is an error.
- An unreadable record with the head of a journal record is an error.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from schemas.base.limits import PIECE_BYTES_MAX, PIECE_HEAD_BYTES_MAX, split_pieces
from schemas.base.refusals import Refusal
from schemas.messages.journal import InputRun, JournalRecord, split_content
from schemas.storage.tables import PARTITION, kind_of_key
from schemas.topics.codec import decode_as, encode
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult, advise_reset

TOPIC = "journal"

#: Most bytes of content in one record.
PART_BYTES = PIECE_BYTES_MAX

#: Fields in the head of every journal record, also of newer versions.
_HEAD_FIELDS = frozenset(("schema_version", "partition", "epoch", "sequence"))

#: Head and content of a record.
Record = tuple[JournalRecord, bytes]


class JournalDamaged(RuntimeError):
    """The journal cannot be read; a worker must not start from it."""

    def __init__(self, partition: int, problem: str) -> None:
        super().__init__(f"{problem}. {advise_reset(partition)}")


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """A position in a partition's journal."""

    epoch: int = -1
    """Offset of the opening record of the partition's owner; -1 if there is none."""
    sequence: int = -1
    """Number of the last complete batch."""
    offset: int = -1
    """Offset of the last record that was read."""


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """A complete batch."""

    epoch: int
    sequence: int
    inputs: tuple[InputRun, ...]
    """Applied records, in order."""
    rows: tuple[RowChange, ...]
    outputs: tuple[OutputRecord, ...]
    """Records to publish, dead letters last."""


def encode_opening(partition: int) -> bytes:
    """Return the opening record of a new writer."""
    return encode(JournalRecord(partition=partition, epoch=0, sequence=0, opens=True)) + b"\n"


def encode_batch(
    partition: int, position: JournalPosition, applied: Sequence[InputRecord], result: StageResult
) -> list[bytes]:
    """Return the records of the batch that follows `position`."""
    outputs = (*result.outputs, *result.dead_letters)
    index = {
        "inputs": _group_runs(applied),
        "rows": [(row.key, None if row.value is None else len(row.value)) for row in result.rows],
        "outputs": [
            (output.topic, output.key, output.timestamp_ms, len(output.value)) for output in outputs
        ],
    }
    content = b"".join(
        (
            orjson.dumps(index, option=orjson.OPT_APPEND_NEWLINE),
            *(row.value for row in result.rows if row.value is not None),
            *(output.value for output in outputs),
        )
    )
    parts = split_pieces(content, PART_BYTES)
    head = {
        "schema_version": 1,
        "partition": partition,
        "epoch": position.epoch,
        "sequence": position.sequence + 1,
        "parts": len(parts),
        "applied": len(applied),
        "rows": len(result.rows),
        "outputs": len(outputs),
        "positions": _read_positions(result.rows),
    }
    return [
        orjson.dumps({**head, "part": number}, option=orjson.OPT_APPEND_NEWLINE) + part
        for number, part in enumerate(parts)
    ]


def _read_positions(rows: Sequence[RowChange]) -> dict[str, int]:
    """Return the input offsets in the partition's own row, for readers that need only the head."""
    values = (row.value for row in reversed(rows) if kind_of_key(row.key) == PARTITION)
    newest = next(values, None)
    positions: dict[str, int] = {} if newest is None else orjson.loads(newest)["offsets"]
    return positions


def _group_runs(applied: Iterable[InputRecord]) -> list[dict[str, object]]:
    """Group records with consecutive offsets, in the order applied."""
    runs: list[dict[str, object]] = []
    next_of_run: tuple[str, int, int | None] = "", -1, None
    for record in applied:
        if (record.topic, record.offset, record.refused_at_ms) == next_of_run:
            runs[-1]["last_offset"] = record.offset
        else:
            run: dict[str, object] = {
                "topic": record.topic,
                "first_offset": record.offset,
                "last_offset": record.offset,
            }
            if record.refused_at_ms is not None:
                run["refused_at_ms"] = record.refused_at_ms
            runs.append(run)
        next_of_run = record.topic, record.offset + 1, record.refused_at_ms
    return runs


def read_record(value: bytes | None) -> Record | Refusal:
    """Return head and content of a record, or a refusal if it is not a journal record."""
    line, _, content = (value or b"").partition(b"\n")
    head = decode_as(JournalRecord, line, PIECE_HEAD_BYTES_MAX)
    return head if isinstance(head, Refusal) else (head, content)


def _has_journal_head(value: bytes | None) -> bool:
    """Tell whether an unreadable record belongs to a journal; it is damaged or of a newer version."""
    try:
        head = orjson.loads((value or b"").partition(b"\n")[0])
    except orjson.JSONDecodeError:
        return False
    return isinstance(head, dict) and head.keys() >= _HEAD_FIELDS


def join_parts(parts: Sequence[Record]) -> JournalBatch:
    """Join the parts of a batch.

    Raises:
        ValueError: the content does not match its index.
    """
    head = parts[0][0]
    content = b"".join(content for _, content in parts)
    index, row_values, output_values = split_content(content)
    return JournalBatch(
        head.epoch,
        head.sequence,
        index.inputs,
        tuple(
            RowChange(key, None if length is None else value)
            for (key, length), value in zip(index.rows, row_values, strict=True)
        ),
        tuple(
            OutputRecord(topic, key, value, timestamp_ms)
            for (topic, key, timestamp_ms, _), value in zip(
                index.outputs, output_values, strict=True
            )
        ),
    )


class JournalReader:
    """Reads a partition's journal record by record."""

    def __init__(self, position: JournalPosition, partition: int) -> None:
        """Start after `position`."""
        self.position = position
        """Position after the records that were read."""
        self._partition = partition
        self._parts: list[Record] = []

    def feed(self, offset: int, value: bytes | None) -> JournalBatch | Refusal | None:
        """Read the next record; return the batch that it completes, a refusal if it is foreign, or None.

        Raises:
            JournalDamaged: the record cannot be read, or an earlier batch is missing.
        """
        record_and_content = self._read(offset, value)
        self.position = replace(self.position, offset=offset)
        if isinstance(record_and_content, Refusal):
            return record_and_content
        record, content = record_and_content
        if record.opens:
            self._parts = []
            self.position = replace(self.position, epoch=offset)
        elif record.epoch == self.position.epoch:
            self._parts.append((record, content))
            if record.part == record.parts - 1:
                parts, self._parts = self._parts, []
                return self._complete(parts)
        elif record.epoch > self.position.epoch:
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} has epoch {record.epoch}, but the opening record of this epoch is "
                f"missing; the newest opened epoch is {self.position.epoch}",
            )
        return None

    def _read(self, offset: int, value: bytes | None) -> Record | Refusal:
        """Return the record, or a refusal if it is foreign."""
        record = read_record(value)
        if isinstance(record, Refusal):
            if _has_journal_head(value):
                raise JournalDamaged(
                    self._partition,
                    f"journal offset {offset} cannot be read: {record.reason}. If a newer version has "
                    f"written it, start that version",
                )
            return Refusal(record.category, f"this is not a record of the journal: {record.reason}")
        partition = record[0].partition
        if partition != self._partition:
            return Refusal(
                "misplaced",
                f"partition is {partition}; expected {self._partition}, as in the topic",
            )
        return record

    def _complete(self, parts: list[Record]) -> JournalBatch:
        head, offset = parts[0][0], self.position.offset
        sequence = head.sequence
        if [part.part for part, _ in parts] != list(range(head.parts)):
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} ends batch {sequence}, but parts of this batch are missing",
            )
        if sequence != self.position.sequence + 1:
            raise JournalDamaged(
                self._partition,
                f"journal offset {offset} has batch {sequence}; expected "
                f"{self.position.sequence + 1}: the batches in between are missing",
            )
        self.position = replace(self.position, sequence=sequence)
        try:
            return join_parts(parts)
        except ValueError as error:
            raise JournalDamaged(
                self._partition,
                f"the content of batch {sequence}, which ends at journal offset {offset}, cannot be read: {error}",
            ) from error
