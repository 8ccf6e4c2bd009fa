"""`dead-letters`: complete records that were unreadable or refused, with the reason.

A dead letter names the position of the record in its topic, so that somebody can inspect the record,
repair it and produce it again.

base64 makes a record a third larger, so a record of the maximum size would not fit into a message.
A large letter is therefore split into several parts.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from schemas.base.limits import split_pieces
from schemas.base.message import INT64_MAX, Count, Message, published
from schemas.base.refusals import REASON_CHARS_MAX, Category, Refusal

#: Most base64 characters in one part. The whole part stays below 1 MB, the smallest of Kafka's default
#: limits.
PART_CHARS_MAX = 720_000


class DeadLetter(Message):
    """A record that was not applied (key: its source topic)."""

    topic: str
    """Topic of the record."""
    partition: Count
    """Partition of the record."""
    offset: Count
    """Offset of the record."""
    reason: str
    """A sentence with the field, the value found and the values allowed."""
    category: Category
    """unreadable: not JSON. invalid: does not match the schema. misplaced: in a partition that its
    key does not belong to. future: its time is in the future. late: older than the data that it
    would change. limit: a named limit was reached. internal: a defect of loadstream, described in
    the reason. apart: its cluster is set apart after such a defect; send the record again when the
    cluster is back."""
    timestamp_ms: (
        Annotated[
            int,
            Field(
                ge=-INT64_MAX - 1,
                le=INT64_MAX,
                json_schema_extra=published(unit="ms since 1970-01-01 UTC"),
            ),
        ]
        | None
    ) = None
    """Timestamp of the source record."""
    key_base64: str | None = None
    """The record's key, base64; none: it had no key."""
    value_base64: str | None = None
    """The record's value, base64; none: it had no value."""
    part: Count = 0
    """Number of this part, from 0."""
    parts: Annotated[int, Field(ge=1, le=INT64_MAX)] = 1
    """Number of parts of a letter that is too large for one message. The parts' keys concatenated
    are the letter's key, and their values its value."""


def build_dead_letter(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
    refusal: Refusal,
) -> DeadLetter:
    """Return the record with the reason of its refusal; `split_letter` makes it fit into messages."""
    return DeadLetter(
        topic=topic,
        partition=partition,
        offset=offset,
        reason=refusal.reason[:REASON_CHARS_MAX],
        category=refusal.category,
        timestamp_ms=timestamp_ms,
        key_base64=None if key is None else b64encode(key).decode(),
        value_base64=None if value is None else b64encode(value).decode(),
    )


def split_letter(letter: DeadLetter, chars_max: int = PART_CHARS_MAX) -> Iterator[DeadLetter]:
    """Yield the letter as messages with at most `chars_max` characters of base64 each; usually one."""
    key, value = letter.key_base64, letter.value_base64
    pieces = split_pieces((key or "") + (value or ""), chars_max)
    if len(pieces) == 1:
        yield letter
        return
    key_left = len(key or "")
    for part, piece in enumerate(pieces):
        update = {
            "part": part,
            "parts": len(pieces),
            "key_base64": None if key is None else piece[:key_left],
            "value_base64": None if value is None else piece[key_left:],
        }
        key_left = max(0, key_left - len(piece))
        yield letter.model_copy(update=update)


def restore_record(letter: DeadLetter) -> tuple[bytes | None, bytes | None]:
    """Return key and value of the source record; raises ValueError if the letter was altered."""
    return _decode(letter.key_base64), _decode(letter.value_base64)


def _decode(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)


def parse_cluster(letter: DeadLetter) -> str | None:
    """Return the cluster of the source record, from its key; None if the key has none.

    Of a letter in several parts, only the first parts contain the key.
    """
    return None if letter.topic == "clock" else _key(letter).partition("/")[0] or None


def parse_node(letter: DeadLetter) -> str | None:
    """Return the node of a usage sample, from its key; None for other records."""
    return _key(letter).partition("/")[2] or None if letter.topic == "node-usage" else None


def _key(letter: DeadLetter) -> str:
    """Return the key as text; empty if it is missing or unreadable."""
    try:
        return (_decode(letter.key_base64) or b"").decode(errors="replace")
    except ValueError:
        return ""
