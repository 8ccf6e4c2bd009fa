"""The records of a fetch, several of them as one message of Faust.

Offsets without a record are normal: transaction markers, and records removed by compaction. Only the
fetch knows which offsets it has read, so the message names the offsets without a record. Otherwise they
would look like records that were not delivered.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faust.types.tuples import ConsumerMessage

from connectors.kafka.reader import Record
from streams.stage.records import InputRecord

#: Most records in a message. Topics take turns message by message.
PACKED_RECORDS_MAX = 100


class FetchedRange(NamedTuple):
    """A range of offsets of one partition, and its records."""

    first: int
    following: int
    """The offset after the range."""
    records: Sequence[Any]


#: Ranges of offsets without a record: topic, partition and first offset, to the offset after them.
EmptyOffsets = Mapping[tuple[str, int, int], int]


class PackedMessage(ConsumerMessage):
    """A range of one partition as one message of Faust; its offset is the last one of the range.

    There are messages without records, for example at the end of a changelog.
    """

    __slots__ = ("empty", "records")
    records: list[InputRecord]
    empty: dict[tuple[str, int, int], int]
    """Offsets without a record, as in `EmptyOffsets`."""


def to_input(record: Record) -> InputRecord:
    topic, partition, offset, timestamp_ms, key, value = record
    return InputRecord(topic, partition, offset, key, value, timestamp_ms)


def pack_message(tp: Any, fetched: FetchedRange, generation: int) -> PackedMessage:
    """Return the message of a range; `generation` is that of the consumer group."""
    topic, partition = tp
    records = fetched.records
    message = PackedMessage(
        topic,
        partition,
        fetched.following - 1,
        records[-1].timestamp / 1000 if records else 0.0,
        records[-1].timestamp_type if records else 0,
        None,
        None,
        None,
        None,
        tp=tp,
        generation_id=generation,
    )
    message.records = [
        InputRecord(topic, partition, record.offset, record.key, record.value, record.timestamp)
        for record in records
    ]
    message.empty = {(topic, partition, first): end for first, end in _find_empty(fetched)}
    return message


def split_range(fetched: FetchedRange) -> Iterator[FetchedRange]:
    """Split into at least one range of at most `PACKED_RECORDS_MAX` records each."""
    first, following, records = fetched
    while len(records) > PACKED_RECORDS_MAX:
        piece, records = records[:PACKED_RECORDS_MAX], records[PACKED_RECORDS_MAX:]
        end = piece[-1].offset + 1
        yield FetchedRange(first, end, piece)
        first = end
    yield FetchedRange(first, following, records)


def _find_empty(fetched: FetchedRange) -> Iterator[tuple[int, int]]:
    """Yield first offset and end (exclusive) of each range without a record."""
    first, following, records = fetched
    if following - first == len(records):
        return
    for record in records:
        if first < record.offset:
            yield first, record.offset
        first = record.offset + 1
    if first < following:
        yield first, following
