"""What records of the journal hold: a record to head and content, and parts to a batch.

Pure: bytes in, batches out. Whether batches follow each other is judged in `journal`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from schemas.base.limits import PIECE_HEAD_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.journal import InputRun, JournalRecord, split_content
from schemas.topics.codec import decode_as
from streams.stage.records import OutputRecord, RowChange

#: Fields that the head of every journal record has, also of a newer version.
_HEAD_FIELDS = frozenset(("schema_version", "partition", "epoch", "sequence"))

#: Head and content of a record.
Record = tuple[JournalRecord, bytes]


@dataclass(frozen=True, slots=True)
class JournalBatch:
    """A whole batch that counts."""

    epoch: int
    sequence: int
    inputs: tuple[InputRun, ...]
    """What was applied, in the order applied."""
    rows: tuple[RowChange, ...]
    """The rows that it changed."""
    outputs: tuple[OutputRecord, ...]
    """The records that it emits, dead letters last."""


def read_record(value: bytes | None) -> Record | Refusal:
    """A record's head and content, or why it is no journal record."""
    line, _, content = (value or b"").partition(b"\n")
    head = decode_as(JournalRecord, line, PIECE_HEAD_BYTES_MAX)
    return head if isinstance(head, Refusal) else (head, content)


def says_ours(value: bytes | None) -> bool:
    """Whether an unreadable record is a journal's all the same: damaged, or of a newer version."""
    try:
        head = orjson.loads((value or b"").partition(b"\n")[0])
    except orjson.JSONDecodeError:
        return False
    return isinstance(head, dict) and head.keys() >= _HEAD_FIELDS


def whole(parts: Sequence[Record]) -> JournalBatch:
    """The batch that these parts, all of one, in their order, make up.

    Raises:
        ValueError: the content is not what its index says.
    """
    head = parts[0][0]
    index, of_rows, of_outputs = split_content(b"".join(content for _, content in parts))
    return JournalBatch(
        head.epoch,
        head.sequence,
        index.inputs,
        tuple(
            RowChange(key, None if length is None else value)
            for (key, length), value in zip(index.rows, of_rows, strict=True)
        ),
        tuple(
            OutputRecord(topic, key, value, timestamp_ms)
            for (topic, key, timestamp_ms, _), value in zip(index.outputs, of_outputs, strict=True)
        ),
    )
