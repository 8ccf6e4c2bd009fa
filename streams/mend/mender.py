"""Mends a partition in Kafka; see `streams.replay.mending` and `streams.aggregate.mending` for what
is kept.

A look changes nothing. Mending claims the partition first, which shuts out every worker that holds
it, then reads, writes the rows that have changed and what the redone batches emit, and the place
last of all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.connection import APP_ID, KafkaSettings
from streams.aggregate import mending as windows
from streams.aggregate.rows import TABLE as WINDOWS
from streams.cluster.stage import TABLES
from streams.replay.mending import Mended, Rows, known_place, mend
from streams.stage import journal
from streams.stage.journal import PLACES
from streams.stage.long_rows import is_chunk, joined, records, row_of
from streams.stage.records import DamagedTable, RowChange
from streams.worker.fence import FencedPublisher
from streams.worker.patience import connected
from streams.worker.reader import read_pieces

_TABLES = (*TABLES, PLACES)


async def look(kafka: KafkaSettings, partition: int) -> Mended:
    """The result that mending would have."""
    ends = await _ends(kafka, (*map(_changelog, _TABLES), journal.TOPIC), partition)
    rows, unreadable = _rows(await _stored(kafka, _TABLES, partition, ends))
    mended = await _mended(kafka, partition, rows, unreadable, ends[journal.TOPIC])
    ends = await _ends(kafka, (_changelog(WINDOWS),), partition)
    of_windows = _windows(partition, await _stored(kafka, (WINDOWS,), partition, ends))
    mended.rows |= of_windows.rows
    mended.lost += of_windows.lost
    return mended


async def put_right(kafka: KafkaSettings, partition: int) -> Mended:
    """Mend the partition in both stages; a worker that holds it ends with `LostOwnership`."""
    publisher = FencedPublisher(kafka)
    await publisher.start()
    try:
        ends = await publisher.claim(list(map(_changelog, _TABLES)), partition)
        journal_end = (await _ends(kafka, (journal.TOPIC,), partition))[journal.TOPIC]
        stored = await _stored(kafka, _TABLES, partition, ends)
        rows, unreadable = _rows(stored)
        mended = await _mended(kafka, partition, rows, unreadable, journal_end)
        await publisher.publish(mended.outputs)
        await _write(publisher, partition, stored, rows, mended.rows)
        ends = await publisher.claim([_changelog(WINDOWS)], partition)
        stored = await _stored(kafka, (WINDOWS,), partition, ends)
        of_windows = _windows(partition, stored)
        if of_windows.lost:
            await _write(publisher, partition, stored, _rows(stored)[0], of_windows.rows)
    finally:
        await publisher.stop()
    mended.rows |= of_windows.rows
    mended.lost += of_windows.lost
    return mended


def _windows(partition: int, stored: Mapping[str, Mapping[bytes, bytes]]) -> Mended:
    """The aggregate stage's part."""
    rows, unreadable = _rows(stored)
    kept, lost = windows.mend(partition, {key: value for (_, key), value in rows.items()})
    return Mended({(WINDOWS, key): value for key, value in kept.items()}, lost=[*unreadable, *lost])


async def _stored(
    kafka: KafkaSettings, tables: Sequence[str], partition: int, ends: Mapping[str, int]
) -> dict[str, dict[bytes, bytes]]:
    """Records of the tables' changelogs by key."""
    return {
        table: await _read(kafka, _changelog(table), partition, ends[_changelog(table)])
        for table in tables
    }


async def _write(
    publisher: FencedPublisher,
    partition: int,
    stored: Mapping[str, Mapping[bytes, bytes]],
    before: Rows,
    after: Rows,
) -> None:
    """Let the changelogs be what they must be."""
    for table in stored:
        changes = _changes(table, stored[table], before, after)
        if changes:
            await publisher.write_rows(_changelog(table), partition, changes)


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

    consumer: Any = await connected(
        lambda: AIOKafkaConsumer(enable_auto_commit=False, **kafka.aiokafka_options())
    )
    try:
        places = {topic: TopicPartition(topic, partition) for topic in topics}
        ends = await consumer.end_offsets(list(places.values()))
        return {topic: int(ends[place]) for topic, place in places.items()}
    finally:
        await consumer.stop()


def _changelog(table: str) -> str:
    return f"{APP_ID}-{table}-changelog"
