"""Tables of raw rows: Faust recovers them, `Publisher.write_rows` writes them.

Faust ignores rows that it cannot decode, and needs a message per write. So keys and values are plain bytes
for Faust, and the stage decodes the rows. Changes are written to the changelog, and, when they are
acknowledged, to the local copy (`store`).

Keys start with the partition (`schemas.storage.tables`), so the rows of a lost partition can be dropped. A
row that exceeds the size of a record is stored as chunks (`long_rows`). Long values are compressed in memory.
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

#: Most rows that recovery adds to a table at once.
RECOVERED_AT_ONCE_MAX = 1_000


class _SharedNameTable(faust.Table[bytes, bytes]):
    """A table whose changelog has the same name for all values of LOADSTREAM_WORKER_STAGES.

    The table remembers how far its changelog was read, which Faust's memory store does not. So a takeover
    continues where reading of the standby copy has stopped.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read_to: dict[Any, int] = {}
        """Last offset read, by partition of the changelog."""
        self.kept_partitions: Collection[int] | None = None
        """Owned and standby partitions; None: not known yet."""

    async def on_changelog_event(self, event: Any) -> None:
        app: Any = self.app
        app.row_read_at_s = time.monotonic()
        await super().on_changelog_event(event)

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        kept = self.kept_partitions
        # Drop rows of partitions that were lost meanwhile.
        events = [event for event in batch if kept is None or event.message.partition in kept]
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
        # Faust's memory store would drop the rows of standby copies. `keep_only` drops those of lost partitions.
        await super().on_recovery_completed(active_tps | standby_tps, standby_tps)

    def _changelog_topic_name(self) -> str:
        return f"{APP_ID}-{self.name}-changelog"


class RowTable:
    """A Faust table with rows of bytes."""

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
            recovery_buffer_size=RECOVERED_AT_ONCE_MAX,
        )
        self._table = app.tables.add(table)
        self._chunks: dict[str, list[str]] = {}
        """Keys of the present chunks, by row."""

    @property
    def changelog(self) -> str:
        return str(self._table.changelog_topic.get_topic_name())

    def get_recovered_offset(self, partition: int) -> int:
        """Return the last offset of the changelog that Faust has read, or -1."""
        return int(self._table.read_to.get(TP(self.changelog, partition), -1))

    def read_rows(self, partitions: Collection[int]) -> dict[int, dict[str, bytes]]:
        """Return the rows of these partitions by key; values may be compressed.

        Raises:
            DamagedTable: a key is invalid, or chunks of a row are missing.
        """
        by_partition: dict[int, dict[str, bytes]] = {partition: {} for partition in partitions}
        self._chunks = {}
        for raw, value in self._table.data.items():
            partition, key = self._parse_key(raw)
            if is_chunk(key):
                self._chunks.setdefault(parse_chunk_key(key), []).append(key)
            elif partition in by_partition:
                by_partition[partition][key] = join_chunks(key, value, self._read_value)
        return by_partition

    def read_row(self, key: str) -> bytes | None:
        value = self._read_value(key.encode())
        return None if value is None else join_chunks(key, value, self._read_value)

    def read_cluster(self, partition: int, cluster: str) -> dict[str, bytes]:
        """Return the rows of a cluster by key; values may be compressed.

        Raises:
            DamagedTable: chunks of a row are missing.
        """
        prefix = f"{partition}/{cluster}/".encode()
        return {
            key: join_chunks(key, value, self._read_value)
            for raw, value in self._table.data.items()
            if raw.startswith(prefix) and not is_chunk(key := raw.decode())
        }

    def copy_rows(self) -> dict[bytes, bytes]:
        """Return all rows, including chunks; values may be compressed."""
        rows: dict[bytes, bytes] = self._table.data.copy()
        return rows

    def split_changes(self, changes: Iterable[RowChange]) -> list[RowChange]:
        """Return the changelog records of changed rows, in the order to write."""
        return [
            record
            for change in changes
            for record in split_change(change, self._chunks.get(change.key, ()))
        ]

    def list_orphan_removals(self, partition: int) -> list[RowChange]:
        """Return the records that remove chunks without a row, which interrupted writes have left."""
        return [
            RowChange(chunk, None)
            for key, chunks in self._chunks.items()
            if key.partition("/")[0] == str(partition)
            for chunk in set(chunks).difference(
                list_chunk_keys(key, self._read_value(key.encode()))
            )
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

    def _read_value(self, raw: bytes) -> bytes | None:
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
        for raw in [raw for raw in data if self._parse_key(raw)[0] not in partitions]:
            del data[raw]

    def _parse_key(self, raw: bytes) -> tuple[int, str]:
        try:
            key = raw.decode()
            return parse_row_key(key).partition, key
        except (AttributeError, ValueError):
            raise DamagedTable(
                repr(raw), f"the key in table {self.name} is not partition/cluster/kind/name"
            ) from None
