"""Records of one partition since a time, up to its end or forever, without blocking.

The embedded broker cannot find offsets by time. There the timestamp of the newest record decides
whether all records are read or none. All functions raise KafkaError of aiokafka if a broker does not
answer.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from connectors.kafka.reader import Partition, PartitionReader, Record
from schemas.settings.connection import KafkaSettings

_POLL_S = 0.5
#: `read_newest` reads one offset before the end first, then this factor more in each further step.
_GROWTH = 8


async def find_first_since(kafka: KafkaSettings, topic: str, partition: int, since_ms: int) -> int:
    """Return the offset of the first record of `since_ms` or later; the end if there is none."""
    async with _reader(kafka) as reader:
        return await _first(reader, (topic, partition), since_ms)


async def read_since(
    kafka: KafkaSettings, topic: str, partition: int, since_ms: int
) -> AsyncIterator[Record]:
    """Yield the records from the first one of `since_ms` or later to the end."""
    place = (topic, partition)
    async with _reader(kafka) as reader:
        _, end = await reader.extent(place)
        first = await _first(reader, place, since_ms)
        async with aclosing(_read(reader, place, first, end)) as records:
            async for record in records:
                yield record


async def read_newest(kafka: KafkaSettings, topic: str, partition: int) -> Record | None:
    """Return the newest record, or None."""
    async with _reader(kafka) as reader:
        return await _newest(reader, (topic, partition))


async def find_end(kafka: KafkaSettings, topic: str, partition: int) -> int:
    """Return the offset of the next record."""
    async with _reader(kafka) as reader:
        _, end = await reader.extent((topic, partition))
        return end


async def follow_partition(
    kafka: KafkaSettings, topic: str, partition: int, offset: int
) -> AsyncIterator[Record]:
    """Yield the records from an offset on, forever."""
    async with _reader(kafka) as reader:
        reader.assign({(topic, partition): offset})
        while True:
            for record in await reader.poll(_POLL_S) or ():
                if isinstance(record, Record):
                    yield record


async def _first(reader: PartitionReader, place: Partition, since_ms: int) -> int:
    found = await reader.offset_since(place, since_ms)
    if found is not None:
        return found
    first, end = await reader.extent(place)
    record = await _newest(reader, place)
    return first if record is not None and record.timestamp_ms >= since_ms else end


async def _newest(reader: PartitionReader, place: Partition) -> Record | None:
    first, end = await reader.extent(place)
    offsets = 1
    while end > first:
        begin = max(first, end - offsets)
        records = [record async for record in _read(reader, place, begin, end)]
        if records:
            return records[-1]
        if begin == first:
            return None
        offsets *= _GROWTH  # the last offsets have no records, such as transaction markers
    return None


async def _read(
    reader: PartitionReader, place: Partition, first: int, end: int
) -> AsyncGenerator[Record, None]:
    reader.assign({place: first})
    while not reader.has_passed(place, end):
        for record in await reader.poll(_POLL_S) or ():
            if isinstance(record, Record) and record.offset < end:
                yield record


@asynccontextmanager
async def _reader(kafka: KafkaSettings) -> AsyncIterator[PartitionReader]:
    reader = PartitionReader(kafka, {})
    try:
        await reader.start()
        yield reader
    finally:
        await reader.stop()
