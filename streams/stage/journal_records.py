"""Splits a journal record into head and content, and joins the parts of a batch.

`journal` checks the order of batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from schemas.base.limits import PIECE_HEAD_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.journal import InputRun, JournalRecord, split_content
from schemas.topics.codec import decode_as
from streams.stage.records import OutputRecord, RowChange

#: Fields in the head of every journal record, also of newer versions.
_HEAD_FIELDS = frozenset(("schema_version", "partition", "epoch", "sequence"))

#: Head and content of a record.
Record = tuple[JournalRecord, bytes]


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


def read_record(value: bytes | None) -> Record | Refusal:
    """Return head and content of a record, or a refusal if it is not a journal record."""
    line, _, content = (value or b"").partition(b"\n")
    head = decode_as(JournalRecord, line, PIECE_HEAD_BYTES_MAX)
    return head if isinstance(head, Refusal) else (head, content)


def has_journal_head(value: bytes | None) -> bool:
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
