"""Records of one partition, read asynchronously: a range of offsets, the newest one, or all since a time.

`read_pieces` waits while no broker answers; the other functions raise KafkaError of aiokafka. All
functions raise ReadTimeout if a broker answers but sends no record for `READ_TIMEOUT_S`. Offsets
without a record (transaction markers, compacted records) are skipped.

The embedded broker cannot find offsets by time. From the embedded broker, either all records are
read or none, depending on the timestamp of the newest record.
"""

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from aiokafka.errors import KafkaError

from connectors.kafka.client import BrokerUnavailable
from connectors.kafka.reader import RECORDS_MAX, Gap, Partition, PartitionReader, Record
from connectors.kafka.reconnect import connect_client, is_temporary, start_client
from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: Longest time without a record while a broker answers, in seconds.
READ_TIMEOUT_S = 60.0
#: Most records in a piece.
PIECE_RECORDS_MAX = RECORDS_MAX
#: Most bytes that a broker sends at once; a larger record is sent alone.
PIECE_BYTES_MAX = 1024 * 1024
_POLL_S = 0.2
#: `read_newest` first reads one offset before the end, then this many times more in each step.
_GROWTH = 8


class ReadTimeout(BrokerUnavailable):
    """A broker answers, but does not send the records of a partition."""


def log_deleted(gap: Gap) -> None:
    """Log that records were deleted before they were read, unless a partition starts with the gap."""
    if gap.first_offset > 0:
        logger.warning("%s before they were read", gap)


async def read_pieces(
    kafka: KafkaSettings,
    topic: str,
    partition: int,
    first: int,
    end: int,
    on_deleted: Callable[[Gap], None] = log_deleted,
) -> AsyncGenerator[list[Record], None]:
    """Yield the records with offsets from `first` up to `end` (exclusive), a few at a time.

    Memory holds one piece of at most `PIECE_RECORDS_MAX` records, and received data of at most
    `PIECE_BYTES_MAX` bytes or one larger record. `on_deleted` is called for deleted records, and may raise.
    """
    while first < end:
        try:
            reader = await connect_client(
                lambda: PartitionReader(
                    kafka, {}, fetch_bytes_max=PIECE_BYTES_MAX, records_max=PIECE_RECORDS_MAX
                )
            )
            try:
                async with aclosing(
                    _read(reader, (topic, partition), first, end, on_deleted)
                ) as pieces:
                    async for piece in pieces:
                        yield piece
                        first = piece[-1].offset + 1
            finally:
                await reader.stop()
        except KafkaError as error:
            if not is_temporary(error):
                raise
            logger.warning(
                "topic %s, partition %d: reading again from offset %d: %s",
                topic,
                partition,
                first,
                error,
            )
        else:
            return


async def read_range(
    kafka: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> list[Record]:
    """Return all records of `read_pieces`, for a small range."""
    pieces = read_pieces(kafka, topic, partition, first, end)
    return [record async for piece in pieces for record in piece]


async def find_first_since(kafka: KafkaSettings, topic: str, partition: int, since_ms: int) -> int:
    """Return the offset of the first record of `since_ms` or later; the end if there is none."""
    async with _connect(kafka) as reader:
        return await _first_since(reader, (topic, partition), since_ms)


async def find_end(kafka: KafkaSettings, topic: str, partition: int) -> int:
    """Return the offset of the next record."""
    async with _connect(kafka) as reader:
        _, end = await reader.extent((topic, partition))
        return end


async def read_since(
    kafka: KafkaSettings, topic: str, partition: int, since_ms: int
) -> AsyncIterator[Record]:
    """Yield the records from the first one of `since_ms` or later to the end."""
    source = (topic, partition)
    async with _connect(kafka) as reader:
        _, end = await reader.extent(source)
        first = await _first_since(reader, source, since_ms)
        async with aclosing(_read(reader, source, first, end)) as pieces:
            async for piece in pieces:
                for record in piece:
                    yield record


async def read_newest(kafka: KafkaSettings, topic: str, partition: int) -> Record | None:
    """Return the newest record, or None."""
    async with _connect(kafka) as reader:
        return await _newest(reader, (topic, partition))


async def follow_partition(
    kafka: KafkaSettings, topic: str, partition: int, offset: int
) -> AsyncIterator[Record]:
    """Yield the records from an offset on, forever."""
    async with _connect(kafka) as reader:
        reader.assign({(topic, partition): offset})
        while True:
            for record in await reader.poll(_POLL_S) or ():
                if isinstance(record, Record):
                    yield record


async def _first_since(reader: PartitionReader, partition: Partition, since_ms: int) -> int:
    offset = await reader.offset_since(partition, since_ms)
    if offset is not None:
        return offset
    first, end = await reader.extent(partition)
    record = await _newest(reader, partition)
    return first if record is not None and record.timestamp_ms >= since_ms else end


async def _newest(reader: PartitionReader, partition: Partition) -> Record | None:
    first, end = await reader.extent(partition)
    offsets = 1
    while end > first:
        begin = max(first, end - offsets)
        pieces = [piece async for piece in _read(reader, partition, begin, end)]
        if pieces:
            return pieces[-1][-1]
        if begin == first:
            return None
        offsets *= _GROWTH  # the last offsets have no records, such as transaction markers
    return None


async def _read(
    reader: PartitionReader,
    partition: Partition,
    first: int,
    end: int,
    on_deleted: Callable[[Gap], None] = lambda gap: None,
) -> AsyncGenerator[list[Record], None]:
    """Yield pieces, none of them empty."""
    reader.assign({partition: first})
    progressed_s = time.monotonic()
    while not reader.has_passed(partition, end):
        records = await reader.poll(_POLL_S)
        if records is None:
            if time.monotonic() - progressed_s > READ_TIMEOUT_S:
                await reader.extent(partition)  # raises KafkaError if no broker answers
                raise ReadTimeout(
                    f"topic {partition[0]}, partition {partition[1]}: no record after offset "
                    f"{reader.position(partition)} for {READ_TIMEOUT_S:.0f} s; expected records up to "
                    f"{end - 1}. Check whether the partition has a leader."
                )
            continue
        progressed_s = time.monotonic()
        piece = []
        for record in records:
            if isinstance(record, Gap):
                on_deleted(record)
            elif record.offset < end:
                piece.append(record)
        if piece:
            yield piece


@asynccontextmanager
async def _connect(kafka: KafkaSettings) -> AsyncIterator[PartitionReader]:
    reader = await start_client(lambda: PartitionReader(kafka, {}))
    try:
        yield reader
    finally:
        await reader.stop()
