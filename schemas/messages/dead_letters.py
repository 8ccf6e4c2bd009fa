"""`dead-letters`: an unreadable or refused record, whole, with the reason.

Nothing disappears silently: whatever a stage cannot use is kept here with its place in its own
topic, so that it can be looked at, mended and produced again.

A record as large as Kafka lets through would not fit into a message of the same size once it is
base64, which grows by a third. So a large one is compressed first, and what is still too large is
cut into parts, several records that together are the letter; no byte is lost.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import INT64_MAX, Count, Message, published
from schemas.base.pieces import split
from schemas.base.refusals import REASON_CHARS_MAX, Category, Refusal

#: Largest value that is kept uncompressed, so that it can be read with nothing but a base64 tool.
PLAIN_BYTES_MAX = 65_536
#: Most base64 in one part; with all else a part stays below 1 MB, the least of Kafka's default
#: limits.
PART_CHARS_MAX = 720_000
#: Largest record that is unpacked again.
UNPACKED_BYTES_MAX = 268_435_456


class DeadLetter(Message):
    """A record that was not applied (key: its source topic)."""

    topic: str
    """Topic that the record came from."""
    partition: Count
    """Partition that it came from."""
    offset: Count
    """Offset that it had there."""
    reason: str
    """A sentence: field, found, allowed."""
    category: Category
    """unreadable: no JSON. invalid: against the schema. misplaced: in a partition that its key does
    not belong to. future: from the future. late: older than what it would change. limit: a named
    limit was reached. internal: a defect of loadstream itself, which the reason tells. apart: its
    cluster is set apart after such a defect; send the record again when it is back."""
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
    """The record's key as it was, base64; none: it had none."""
    value_base64: str
    """The record's value as it was, written as `encoding` says."""
    encoding: Literal["base64", "zlib+base64", "none"] = "base64"
    """base64; zlib+base64: compressed by zlib, then base64; none: the record had no value."""
    part: Count = 0
    """Which of `parts` this is, from 0."""
    parts: Annotated[int, Field(ge=1, le=INT64_MAX)] = 1
    """A letter too large for one message comes in parts; their keys and values, put one behind the
    other, are those of the letter."""


def dead_letter(
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int | None,
    key: bytes | None,
    value: bytes | None,
    refusal: Refusal,
) -> DeadLetter:
    """The record, whole, with why it was refused; `in_parts` makes it fit into messages."""
    encoding: Literal["base64", "zlib+base64", "none"] = "none" if value is None else "base64"
    packed = value or b""
    if len(packed) > PLAIN_BYTES_MAX:
        compressed = zlib.compress(packed, level=1)
        if len(compressed) < len(packed):
            packed, encoding = compressed, "zlib+base64"
    return DeadLetter(
        topic=topic,
        partition=partition,
        offset=offset,
        reason=refusal.reason[:REASON_CHARS_MAX],
        category=refusal.category,
        timestamp_ms=timestamp_ms,
        key_base64=None if key is None else b64encode(key).decode(),
        value_base64=b64encode(packed).decode(),
        encoding=encoding,
    )


def in_parts(letter: DeadLetter, chars_max: int = PART_CHARS_MAX) -> Iterator[DeadLetter]:
    """The letter as messages with at most `chars_max` characters of base64 each; most often itself."""
    key, value = letter.key_base64 or "", letter.value_base64
    pieces = split(key + value, chars_max)
    if len(pieces) == 1:
        yield letter
        return
    key_left = len(key)
    for part, piece in enumerate(pieces):
        update = {"part": part, "parts": len(pieces), "value_base64": piece[key_left:]}
        if letter.key_base64 is not None:
            update["key_base64"] = piece[:key_left]
        key_left = max(0, key_left - len(piece))
        yield letter.model_copy(update=update)


def joined(parts: Iterable[DeadLetter]) -> DeadLetter:
    """The letter that `in_parts` cut up; raises ValueError if parts are missing or of other
    letters."""
    ordered = sorted(parts, key=lambda letter: letter.part)
    if not ordered:
        raise ValueError("no parts; expected those of one letter")
    first = ordered[0]
    place = (first.topic, first.partition, first.offset)
    if any((part.topic, part.partition, part.offset) != place for part in ordered):
        raise ValueError(f"parts of several letters; expected those of {place} alone")
    if [part.part for part in ordered] != list(range(first.parts)):
        found = ", ".join(str(part.part) for part in ordered)
        raise ValueError(f"{place} has the parts {found}; expected all of 0 to {first.parts - 1}")
    update: dict[str, str | int] = {
        "part": 0,
        "parts": 1,
        "value_base64": "".join(part.value_base64 for part in ordered),
    }
    if first.key_base64 is not None:
        update["key_base64"] = "".join(part.key_base64 or "" for part in ordered)
    return first.model_copy(update=update)


def source_record(letter: DeadLetter) -> tuple[bytes | None, bytes | None]:
    """Key and value of the record as they were; raises ValueError if the letter was tampered with."""
    key = None if letter.key_base64 is None else b64decode(letter.key_base64, validate=True)
    if letter.encoding == "none":
        return key, None
    value = b64decode(letter.value_base64, validate=True)
    if letter.encoding == "zlib+base64":
        unpacking = zlib.decompressobj()
        try:
            value = unpacking.decompress(value, UNPACKED_BYTES_MAX)
        except zlib.error as error:
            raise ValueError(f"value_base64 is not what zlib wrote: {error}") from error
        if not unpacking.eof:
            raise ValueError(
                f"value_base64 is cut off or unpacks to more than {UNPACKED_BYTES_MAX} bytes"
            )
    return key, value


def cluster_of(letter: DeadLetter) -> str | None:
    """The cluster that a buried record is about, by its key; none: its key names none.

    Of a letter in several parts each is identified by what it holds of the key, which is in the
    first.
    """
    return None if letter.topic == "clock" else _key(letter).partition("/")[0] or None


def node_of(letter: DeadLetter) -> str | None:
    """The node that a buried usage sample is of, by its key, as `cluster_of`."""
    return _key(letter).partition("/")[2] or None if letter.topic == "node-usage" else None


def _key(letter: DeadLetter) -> str:
    """The key as text; empty: there is none, or it cannot be read."""
    try:
        return b64decode(letter.key_base64 or "", validate=True).decode(errors="replace")
    except ValueError:
        return ""
