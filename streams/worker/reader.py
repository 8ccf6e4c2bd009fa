"""Reads a stretch of one partition, outside of any consumer group.

For what Faust has no part in: the tail of the journal, and records that should have been delivered
and were not. Offsets that hold nothing (compacted away, or older than what is kept) are passed
over.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from schemas.connection import KafkaSettings
from streams.stage.records import InputRecord
from streams.worker.patience import connected, passes

logger = logging.getLogger(__name__)

#: Longest time without a record before reading is given up.
PATIENCE_S = 60.0
#: Most records that are handed out at once, however long the stretch is.
PIECE_RECORDS_MAX = 2_000
#: Most bytes that a broker sends at once; a larger record comes alone.
PIECE_BYTES_MAX = 1024 * 1024


class Unread(RuntimeError):
    """A stretch of a partition could not be read to its end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of a partition, unchanged."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int

    def as_input(self, topic: str, partition: int) -> InputRecord:
        """The record, for a stage that reads the topic."""
        return InputRecord(topic, partition, self.offset, self.key, self.value, self.timestamp_ms)


async def read_range(
    settings: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> list[Entry]:
    """Records with offsets from `first` up to and without `end`, in order: for few of them.

    Raises:
        Unread: the broker gave nothing for too long.
    """
    pieces = read_pieces(settings, topic, partition, first, end)
    return [entry async for piece in pieces for entry in piece]


async def read_pieces(
    settings: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> AsyncGenerator[list[Entry], None]:
    """The same piece by piece, however many they are; no piece is empty or beyond
    `PIECE_RECORDS_MAX`.

    Besides the piece that is handed out, at most `PIECE_BYTES_MAX` or one larger record are in
    memory.

    Raises:
        Unread: the broker answers, and gave nothing for too long.
    """
    from aiokafka.errors import KafkaError

    while first < end:
        try:
            async with aclosing(
                _connected_pieces(settings, topic, partition, first, end)
            ) as pieces:
                async for piece in pieces:
                    yield piece
                    first = piece[-1].offset + 1
        except KafkaError as error:
            if not passes(error):
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
    settings: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> AsyncGenerator[list[Entry], None]:
    """Pieces as long as the brokers answer."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    place = TopicPartition(topic, partition)
    consumer: Any = await connected(
        lambda: AIOKafkaConsumer(
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=PIECE_BYTES_MAX,
            **settings.aiokafka_options(),
        )
    )
    try:
        consumer.assign([place])
        start = (await consumer.beginning_offsets([place]))[place]
        if 0 < first < start:
            logger.warning(
                "topic %s, partition %d: the records from offset %d to %d are gone: the brokers deleted them before "
                "they were read",
                topic,
                partition,
                first,
                min(start, end) - 1,
            )
        consumer.seek(place, max(first, start))
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    piece = await _piece(consumer, place, end)
            except TimeoutError:
                # A silence of the brokers raises here, and is waited for.
                await consumer.end_offsets([place])
                at = await consumer.position(place)
                raise Unread(
                    f"topic {topic}, partition {partition}: nothing came after offset {at} for {PATIENCE_S:.0f} s; "
                    f"needed are the records up to {end - 1}. Look whether the partition has a leader."
                ) from None
            if not piece:
                return
            yield piece
    finally:
        await consumer.stop()


async def _piece(consumer: Any, place: Any, end: int) -> list[Entry]:
    """The records that come next; none: there are no more."""
    while await consumer.position(place) < end:
        found = await consumer.getmany(place, timeout_ms=200, max_records=PIECE_RECORDS_MAX)
        entries = [
            Entry(record.offset, record.key, record.value, record.timestamp)
            for record in found.get(place, ())
            if record.offset < end
        ]
        if entries:
            return entries
    return []
