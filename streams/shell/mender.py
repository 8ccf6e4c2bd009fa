"""Mends a partition of the cluster stage in Kafka; see `mending` for what is kept.

A look changes nothing. Mending claims the partition first, which shuts out every worker that holds it, then
reads, writes the rows that have changed and what the redone batches emit, and the place last of all.
"""

from collections.abc import Mapping
from typing import Any

from schemas.connection import APP_ID, KafkaSettings
from streams import journal
from streams.cluster.stage import TABLES
from streams.journal import PLACES
from streams.long_rows import is_chunk, joined, records, row_of
from streams.mending import Mended, Rows, known_place, mend
from streams.records import DamagedTable, RowChange
from streams.shell.fence import FencedPublisher
from streams.shell.reader import read_pieces

_TABLES = (*TABLES, PLACES)


async def look(kafka: KafkaSettings, partition: int) -> Mended:
    """What mending would come to."""
    changelogs = {table: _changelog(table) for table in _TABLES}
    ends = await _ends(kafka, (*changelogs.values(), journal.TOPIC), partition)
    stored = {
        table: await _read(kafka, name, partition, ends[name]) for table, name in changelogs.items()
    }
    rows, unreadable = _rows(stored)
    return await _mended(kafka, partition, rows, unreadable, ends[journal.TOPIC])


async def put_right(kafka: KafkaSettings, partition: int) -> Mended:
    """Mend the partition; a worker that holds it ends with `LostOffice`."""
    publisher = FencedPublisher(kafka)
    await publisher.start()
    try:
        changelogs = {table: _changelog(table) for table in _TABLES}
        ends = await publisher.claim(list(changelogs.values()), partition)
        journal_end = (await _ends(kafka, (journal.TOPIC,), partition))[journal.TOPIC]
        stored = {
            table: await _read(kafka, name, partition, ends[name])
            for table, name in changelogs.items()
        }
        rows, unreadable = _rows(stored)
        mended = await _mended(kafka, partition, rows, unreadable, journal_end)
        await publisher.publish(mended.outputs)
        for table in _TABLES:
            changes = _changes(table, stored[table], rows, mended.rows)
            if changes:
                await publisher.write_rows(changelogs[table], partition, changes)
    finally:
        await publisher.stop()
    return mended


async def _mended(
    kafka: KafkaSettings, partition: int, rows: Rows, unreadable: list[str], end: int
) -> Mended:
    first = known_place(partition, rows).offset + 1
    entries = [
        (entry.offset, entry.value)
        async for piece in read_pieces(kafka, journal.TOPIC, partition, first, end)
        for entry in piece
    ]
    mended = mend(partition, kafka.partitions, rows, entries, end)
    mended.lost[:0] = unreadable
    return mended


def _rows(stored: Mapping[str, Mapping[bytes, bytes]]) -> tuple[Rows, list[str]]:
    """Whole rows, and sentences about those that are not."""
    rows: Rows = {}
    lost = []
    for table, data in stored.items():
        for raw, value in data.items():
            if is_chunk(raw):
                continue
            try:
                key = raw.decode()
                rows[table, key] = joined(table, key, value, data.get)
            except DamagedTable as damaged:
                lost.append(f"table {table}, row {damaged.row}: {damaged.problem}")
            except UnicodeDecodeError:
                lost.append(f"table {table}: the key {raw!r} is no text")
    return rows, lost


def _changes(
    table: str, stored: Mapping[bytes, bytes], before: Rows, after: Rows
) -> list[RowChange]:
    """Records that make the changelog what it must be."""
    chunks: dict[str, list[str]] = {}
    for raw in stored:
        if is_chunk(raw):
            chunks.setdefault(row_of(raw), []).append(raw.decode())
    keys = {raw.decode() for raw in stored if not is_chunk(raw)} | {
        key for name, key in after if name == table
    }
    return [
        record
        for key in sorted(keys)
        if before.get((table, key)) != after.get((table, key)) or (table, key) not in before
        for record in records(RowChange(table, key, after.get((table, key))), chunks.get(key, ()))
    ]


async def _read(kafka: KafkaSettings, topic: str, partition: int, end: int) -> dict[bytes, bytes]:
    """The newest record of each key."""
    found: dict[bytes, bytes] = {}
    async for piece in read_pieces(kafka, topic, partition, 0, end):
        for entry in piece:
            if entry.value is None:
                found.pop(entry.key or b"", None)
            else:
                found[entry.key or b""] = entry.value
    return found


async def _ends(kafka: KafkaSettings, topics: tuple[str, ...], partition: int) -> dict[str, int]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer: Any = AIOKafkaConsumer(enable_auto_commit=False, **kafka.aiokafka_options())
    await consumer.start()
    try:
        places = {topic: TopicPartition(topic, partition) for topic in topics}
        ends = await consumer.end_offsets(list(places.values()))
        return {topic: int(ends[place]) for topic, place in places.items()}
    finally:
        await consumer.stop()


def _changelog(table: str) -> str:
    return f"{APP_ID}-{table}-changelog"
