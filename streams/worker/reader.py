"""Reads a stretch of one partition, outside of any consumer group.

For what Faust has no part in: the tail of the journal, and records that should have been delivered
and were not. Offsets without a record (markers of transactions, compacted records) are passed over;
so are records that the broker has deleted, unless the caller refuses them.
"""

import logging
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from connectors.kafka.reader import RECORDS_MAX, Gap, PartitionReader, Record
from connectors.kafka.reconnect import connect_client, is_temporary
from schemas.settings.connection import KafkaSettings
from streams.stage.records import InputRecord

logger = logging.getLogger(__name__)

#: Longest time without a record before reading is given up.
PATIENCE_S = 60.0
#: Time between two looks for records, in seconds.
_WAIT_S = 0.2
#: Most records that are handed out at once, however long the stretch is.
PIECE_RECORDS_MAX = RECORDS_MAX
#: Most bytes that a broker sends at once; a larger record comes alone.
PIECE_BYTES_MAX = 1024 * 1024


class Unread(RuntimeError):
    """A stretch of a partition could not be read to its end."""


def as_input(record: Record) -> InputRecord:
    """The record, for a stage that reads its topic."""
    topic, partition, offset, timestamp_ms, key, value = record
    return InputRecord(topic, partition, offset, key, value, timestamp_ms)


async def read_range(
    settings: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> list[Record]:
    """Records with offsets from `first` up to and without `end`, in order: for few of them.

    Raises:
        Unread: the broker gave nothing for too long.
    """
    pieces = read_pieces(settings, topic, partition, first, end)
    return [entry async for piece in pieces for entry in piece]


def log_deleted(gap: Gap) -> None:
    """Log that records were deleted before they were read; of a new partition it is no news."""
    if gap.first_offset > 0:
        logger.warning("%s before they were read", gap)


async def read_pieces(
    settings: KafkaSettings,
    topic: str,
    partition: int,
    first: int,
    end: int,
    on_deleted: Callable[[Gap], None] = log_deleted,
) -> AsyncGenerator[list[Record], None]:
    """The same piece by piece, however many they are; no piece is empty or beyond
    `PIECE_RECORDS_MAX`.

    Besides the piece that is handed out, at most `PIECE_BYTES_MAX` or one larger record are in
    memory. `on_deleted` is called for records that the broker has deleted, and may raise.

    Raises:
        Unread: the broker answers, and gave nothing for too long.
    """
    from aiokafka.errors import KafkaError

    while first < end:
        try:
            async with aclosing(
                _connected_pieces(settings, topic, partition, first, end, on_deleted)
            ) as pieces:
                async for piece in pieces:
                    yield piece
                    first = piece[-1].offset + 1
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


async def _connected_pieces(
    settings: KafkaSettings,
    topic: str,
    partition: int,
    first: int,
    end: int,
    on_deleted: Callable[[Gap], None],
) -> AsyncGenerator[list[Record], None]:
    """Pieces as long as the brokers answer."""
    place = (topic, partition)
    reader = await connect_client(
        lambda: PartitionReader(
            settings,
            {place: first},
            fetch_bytes_max=PIECE_BYTES_MAX,
            records_max=PIECE_RECORDS_MAX,
        )
    )
    heard_s = time.monotonic()
    try:
        while not reader.has_passed(place, end):
            found = await reader.poll(_WAIT_S)
            if found is None:
                if time.monotonic() - heard_s > PATIENCE_S:
                    await reader.extent(
                        place
                    )  # a silence of the brokers raises here, and is waited for
                    raise Unread(
                        f"topic {topic}, partition {partition}: nothing came after offset "
                        f"{reader.position(place)} for {PATIENCE_S:.0f} s; needed are the records up to "
                        f"{end - 1}. Look whether the partition has a leader."
                    )
                continue
            heard_s = time.monotonic()
            piece = []
            for each in found:
                if isinstance(each, Gap):
                    on_deleted(each)
                elif each.offset < end:
                    piece.append(each)
            if piece:
                yield piece
    finally:
        await reader.stop()
