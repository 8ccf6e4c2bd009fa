"""What a fetch has brought of a partition, as messages to Faust.

Offsets without a record are no loss: markers of transactions, and records that compaction has removed.
Only the fetch knows which offsets it has read through, so a parcel names those of them that hold no
record. Otherwise each of them would look like a record that was not delivered.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from faust.types.tuples import ConsumerMessage

from streams.stage.records import InputRecord

#: Most records in a parcel: topics take turns by parcels, so that none waits for all of another.
PARCEL_RECORDS = 100


class FetchedRange(NamedTuple):
    """What a fetch has brought of one partition, from one offset up to and without another."""

    first: int
    following: int
    records: Sequence[Any]
    """May be none: the offsets hold no record then."""


#: Topic, partition and first offset of offsets without a record, to the offset behind them.
EmptyOffsets = Mapping[tuple[str, int, int], int]


class Parcel(ConsumerMessage):
    """Records of one partition that follow each other, as one message to Faust.

    Its offset is the last one that it covers. Without records it stands behind a changelog's last
    row, or for offsets of an input that hold none.
    """

    __slots__ = ("empty", "records")
    records: list[InputRecord]
    empty: dict[tuple[str, int, int], int]
    """Its offsets without a record: an `EmptyOffsets`."""


def make_parcel(tp: Any, fetched: FetchedRange, generation: int) -> Parcel:
    """Return the message of a piece that was fetched in a generation of the consumer group."""
    topic, partition = tp
    records = fetched.records
    parcel = Parcel(
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
    parcel.records = [
        InputRecord(topic, partition, each.offset, each.key, each.value, each.timestamp)
        for each in records
    ]
    parcel.empty = {(topic, partition, first): end for first, end in _find_empty(fetched)}
    return parcel


def split(fetched: FetchedRange) -> Iterator[FetchedRange]:
    """Split into pieces of at most `PARCEL_RECORDS`, one at least."""
    first, following, records = fetched
    while len(records) > PARCEL_RECORDS:
        piece, records = records[:PARCEL_RECORDS], records[PARCEL_RECORDS:]
        end = piece[-1].offset + 1
        yield FetchedRange(first, end, piece)
        first = end
    yield FetchedRange(first, following, records)


def _find_empty(fetched: FetchedRange) -> Iterator[tuple[int, int]]:
    """First offset and end of each run of offsets without a record."""
    first, following, records = fetched
    if following - first == len(records):
        return
    for record in records:
        if first < record.offset:
            yield first, record.offset
        first = record.offset + 1
    if first < following:
        yield first, following
