"""Tables of raw rows: Faust recovers them, `Publisher.write_rows` writes them.

Faust ignores rows that it cannot decode, and its writes cost a message each. So keys and values are plain
bytes for Faust, and the stage decodes the rows. Changes are written to the changelog, then, when they
are acknowledged, to the local copy (`store`).

Keys begin with the partition (`schemas.storage.tables`), so the rows of a lost partition can be dropped. A
row that is longer than a record is stored as chunks (`long_rows`). Long values are compressed in memory.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any

import faust
from faust.types import TP

from schemas.settings.connection import APP_ID
from schemas.storage.tables import parse_row_key
from streams.stage.long_rows import (
    is_chunk,
    join_chunks,
    list_chunk_keys,
    parse_chunk_key,
    split_change,
)
from streams.stage.records import DamagedTable, RowChange, compress, decompress
from streams.worker.packed_messages import PackedMessage

#: Most rows of a changelog that recovery adds to a table at once.
READ_ROWS_MAX = 1_000


class _SharedNameTable(faust.Table[bytes, bytes]):
    """A table whose changelog has the same name for all values of LOADSTREAM_WORKER_STAGES.

    It remembers how far its changelog was read, which Faust's memory store does not. So reading of a
    standby copy continues there when its partition is taken over.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read_to: dict[Any, int] = {}
        """Offset of the last row read, by partition of the changelog."""
        self.kept_partitions: Collection[int] | None = None
        """Owned and standby partitions; None: not known yet."""

    async def on_changelog_event(self, event: Any) -> None:
        app: Any = self.app
        app.row_read_at_s = time.monotonic()
        await super().on_changelog_event(event)

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        # Rows of partitions that were lost meanwhile are dropped.
        owned_or_standby = self.kept_partitions
        events = [
            event
            for event in batch
            if owned_or_standby is None or event.message.partition in owned_or_standby
        ]
        rows = [event for event in events if not isinstance(event.message, PackedMessage)]
        super().apply_changelog_batch(rows)
        for event in events:
            self.read_to[event.message.tp] = event.message.offset
        for key in {event.key for event in rows}:
            if (value := self.data.get(key)) is not None:
                self.data[key] = compress(value)

    def persisted_offset(self, tp: Any) -> int | None:
        """Return the offset after which reading continues; None: at the beginning."""
        return self.read_to.get(tp)

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        # Faust's memory store would drop the rows of standby copies; `keep_only` drops lost ones.
        await super().on_recovery_completed(active_tps | standby_tps, standby_tps)

    def _changelog_topic_name(self) -> str:
        return f"{APP_ID}-{self.name}-changelog"


class RowTable:
    """One Faust table whose rows are bytes."""

    def __init__(self, app: Any, name: str, partitions: int) -> None:
        """Declare the table before the app starts."""
        self.name = name
        # In memory: rows on disk could be outdated after a restart.
        table = _SharedNameTable(
            app,
            name=name,
            key_type=bytes,
            value_type=bytes,
            partitions=partitions,
            store="memory://",
            recovery_buffer_size=READ_ROWS_MAX,
        )
        self._table = app.tables.add(table)
        self._chunks: dict[str, list[str]] = {}
        """Keys of the present chunks, by row."""

    @property
    def changelog(self) -> str:
        return str(self._table.changelog_topic.get_topic_name())

    def recovered(self, partition: int) -> int:
        """Return the last offset of the changelog that Faust has read, or -1."""
        return int(self._table.read_to.get(TP(self.changelog, partition), -1))

    def rows(self, partitions: Collection[int]) -> dict[int, dict[str, bytes]]:
        """Return the rows of these partitions by key; values may be compressed.

        Raises:
            DamagedTable: a key is invalid, or chunks of a row are missing.
        """
        by_partition: dict[int, dict[str, bytes]] = {partition: {} for partition in partitions}
        self._chunks = {}
        for raw, value in self._table.data.items():
            partition, key = self._place(raw)
            if is_chunk(key):
                self._chunks.setdefault(parse_chunk_key(key), []).append(key)
            elif partition in by_partition:
                by_partition[partition][key] = join_chunks(key, value, self._value)
        return by_partition

    def row(self, key: str) -> bytes | None:
        value = self._value(key.encode())
        return None if value is None else join_chunks(key, value, self._value)

    def of_cluster(self, partition: int, cluster: str) -> dict[str, bytes]:
        """Return the rows of a cluster by key; values may be compressed.

        Raises:
            DamagedTable: chunks of a row are missing.
        """
        prefix = f"{partition}/{cluster}/".encode()
        return {
            key: join_chunks(key, value, self._value)
            for raw, value in self._table.data.items()
            if raw.startswith(prefix) and not is_chunk(key := raw.decode())
        }

    def references(self) -> tuple[list[bytes], list[bytes]]:
        """Return references to all keys and values, including chunks; values may be compressed.

        Two lists take much less time than a list of pairs.
        """
        return list(self._table.data.keys()), list(self._table.data.values())

    def records(self, changes: Iterable[RowChange]) -> list[RowChange]:
        """Return the records that write these rows, in the order in which they must be written."""
        return [
            record
            for change in changes
            for record in split_change(change, self._chunks.get(change.key, ()))
        ]

    def remove_orphans(self, partition: int) -> list[RowChange]:
        """Return records that remove chunks without a row, which an interrupted write has left."""
        return [
            RowChange(chunk, None)
            for key, chunks in self._chunks.items()
            if key.partition("/")[0] == str(partition)
            for chunk in set(chunks).difference(list_chunk_keys(key, self._value(key.encode())))
        ]

    def store(self, changes: Iterable[RowChange]) -> None:
        """Store acknowledged records in the local copy."""
        data = self._table.data
        for change in changes:
            raw = change.key.encode()
            if is_chunk(change.key):
                self._note_chunk(parse_chunk_key(change.key), change)
            if change.value is None:
                data.pop(raw, None)
            else:
                data[raw] = compress(change.value)

    def _value(self, raw: bytes) -> bytes | None:
        value = self._table.data.get(raw)
        return None if value is None else decompress(value)

    def _note_chunk(self, row: str, change: RowChange) -> None:
        chunks = self._chunks.setdefault(row, [])
        if change.value is not None and change.key not in chunks:
            chunks.append(change.key)
        elif change.value is None and change.key in chunks:
            chunks.remove(change.key)
            if not chunks:
                del self._chunks[row]

    def keep_only(self, partitions: Collection[int]) -> None:
        """Drop the rows of all other partitions."""
        self._table.kept_partitions = frozenset(partitions)
        data, read_to = self._table.data, self._table.read_to
        for tp in [tp for tp in read_to if tp.partition not in partitions]:
            del read_to[tp]
        for raw in [raw for raw in data if self._place(raw)[0] not in partitions]:
            del data[raw]

    def _place(self, raw: bytes) -> tuple[int, str]:
        try:
            key = raw.decode()
            return parse_row_key(key).partition, key
        except (AttributeError, ValueError):
            raise DamagedTable(
                repr(raw), f"in table {self.name}: the key is not partition/cluster/kind/name"
            ) from None
