"""What records of the journal hold, of either version: a record to head and content, and parts to a
batch.

Pure: bytes in, batches out. Whether batches follow each other is judged in `journal`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from schemas.codec import decode_as
from schemas.journal import InputRun, JournalPart, JournalRecord, cut
from schemas.limits import PIECE_HEAD_BYTES_MAX
from schemas.refusals import Refusal
from streams.stage.records import OutputRecord, RowChange

#: What every record of a journal names, in each version.
_OURS = frozenset(("schema_version", "partition", "epoch", "sequence"))

#: Head and content of a record; one of version 1 is all head.
Record = tuple[JournalRecord | JournalPart, bytes]


@dataclass(frozen=True, slots=True)
class Batch:
    """A whole batch that counts, whichever version has written it."""

    epoch: int
    sequence: int
    inputs: tuple[InputRun, ...]
    """What was applied, in the order applied."""
    rows: tuple[RowChange, ...]
    """The rows that it changed."""
    outputs: tuple[OutputRecord, ...]
    """The records that it emits, dead letters last."""


def read_record(value: bytes | None) -> Record | Refusal:
    """A record and its content, which one of version 1 does not have; or why it is none."""
    line, separator, content = (value or b"").partition(b"\n")
    if separator and len(line) <= PIECE_HEAD_BYTES_MAX:
        part = decode_as(JournalPart, line)
        return part if isinstance(part, Refusal) else (part, content)
    record = decode_as(JournalRecord, value, bytes_max=None)
    return record if isinstance(record, Refusal) else (record, b"")


def says_ours(value: bytes | None) -> bool:
    """Whether an unreadable record is a journal's all the same: damaged, or of a newer version."""
    for text in ((value or b"").partition(b"\n")[0], value or b""):
        try:
            head = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        return isinstance(head, dict) and head.keys() >= _OURS
    return False


def whole(parts: Sequence[Record]) -> Batch:
    """The batch that these parts, all of one, in their order, make up.

    Raises:
        ValueError: the content is not what its index says.
    """
    first = parts[0][0]
    if isinstance(first, JournalRecord):
        return _of_version_1([part for part, _ in parts if isinstance(part, JournalRecord)])
    return _of_version_2(first, b"".join(content for _, content in parts))


def _of_version_1(parts: list[JournalRecord]) -> Batch:
    return Batch(
        parts[0].epoch,
        parts[0].sequence,
        parts[0].inputs,
        tuple(
            RowChange(row.table, row.key, None if row.value is None else row.value.encode())
            for part in parts
            for row in part.rows
        ),
        tuple(
            OutputRecord(each.topic, each.key, each.value.encode(), each.timestamp_ms)
            for part in parts
            for each in part.outputs
        ),
    )


def _of_version_2(head: JournalPart, content: bytes) -> Batch:
    index, of_rows, of_outputs = cut(content)
    return Batch(
        head.epoch,
        head.sequence,
        index.inputs,
        tuple(
            RowChange(table, key, None if length is None else value)
            for (table, key, length), value in zip(index.rows, of_rows, strict=True)
        ),
        tuple(
            OutputRecord(topic, key, value, timestamp_ms)
            for (topic, key, timestamp_ms, _), value in zip(index.outputs, of_outputs, strict=True)
        ),
    )
