"""Packs several records of a fetch into one message of Faust.

Offsets without a record are normal: transaction markers, and records removed by compaction. Only the
fetch knows which offsets it has read, so the message lists the offsets without a record. Otherwise they
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
    end: int
    """The offset after the range."""
    records: Sequence[Any]


#: Ranges without a record: end (exclusive) by topic, partition and first offset.
EmptyOffsets = Mapping[tuple[str, int, int], int]


class PackedMessage(ConsumerMessage):
    """A range of one partition as one message of Faust, with the last offset of the range.

    Messages can be without records, for example at the end of a changelog.
    """

    __slots__ = ("empty", "records")
    records: list[InputRecord]
    empty: dict[tuple[str, int, int], int]
    """Offsets without a record, as in `EmptyOffsets`."""


def convert_to_input(record: Record) -> InputRecord:
    topic, partition, offset, timestamp_ms, key, value = record
    return InputRecord(topic, partition, offset, key, value, timestamp_ms)


def pack_message(tp: Any, fetched: FetchedRange, generation: int) -> PackedMessage:
    """Return the message of a range; `generation` is the generation of the consumer group."""
    topic, partition = tp
    records = fetched.records
    message = PackedMessage(
        topic,
        partition,
        fetched.end - 1,
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
    first, end, records = fetched
    while len(records) > PACKED_RECORDS_MAX:
        piece, records = records[:PACKED_RECORDS_MAX], records[PACKED_RECORDS_MAX:]
        piece_end = piece[-1].offset + 1
        yield FetchedRange(first, piece_end, piece)
        first = piece_end
    yield FetchedRange(first, end, records)


def _find_empty(fetched: FetchedRange) -> Iterator[tuple[int, int]]:
    """Yield first offset and end (exclusive) of each range without a record."""
    first, end, records = fetched
    if end - first == len(records):
        return
    for record in records:
        if first < record.offset:
            yield first, record.offset
        first = record.offset + 1
    if first < end:
        yield first, end
