"""Tables of raw rows: recovered by Faust, written by us.

Faust recovers a table from its changelog. But it only logs a warning for a row that it cannot
decode, and goes on without it, and its own writes cost a message each. So keys and values are plain
bytes for Faust, which then has nothing to decode; the stage reads the rows and refuses what it
cannot read. Changes are written to the changelog by `Publisher.write_rows` and, once acknowledged,
to the local copy by `store`.

Keys begin with the partition (`schemas.storage.tables`), so rows of a lost partition can be found
and dropped. A row that is too long for one record is several rows here and in the changelog
(`long_rows`), and one row for all other code. Longer values are compressed in memory: the pods of
a node, mostly alike, take a tenth.
"""

import time
from collections.abc import Collection, Iterable
from typing import Any

import faust
from faust.types import TP

from schemas.settings.connection import APP_ID
from schemas.storage.tables import parse_row_key
from streams.stage.long_rows import is_chunk, joined, named, records, row_of
from streams.stage.records import DamagedTable, RowChange, compress, decompress
from streams.worker.parcels import Parcel

#: Most rows that are read from a changelog before they are taken in.
READ_ROWS_MAX = 1_000


class _NamedTable(faust.Table[bytes, bytes]):
    """A table whose changelog has the same name in every app, whichever stages a worker runs.

    It knows how far its rows reflect the changelog, which Faust's memory store does not tell: a
    standby copy that is taken over is read on from there, and not from the beginning.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.read_to: dict[Any, int] = {}
        """Offset of the row read last, by partition of the changelog."""
        self.kept: Collection[int] | None = None
        """Partitions that are owned or copied; none: not known yet."""

    async def on_changelog_event(self, event: Any) -> None:
        """A row was read."""
        app: Any = self.app
        app.row_read_at_s = time.monotonic()
        await super().on_changelog_event(event)

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Take in rows that were read."""
        # Of a partition that was taken away some may still be on the way.
        kept = self.kept
        events = [each for each in batch if kept is None or each.message.partition in kept]
        rows = [event for event in events if not isinstance(event.message, Parcel)]
        super().apply_changelog_batch(rows)
        for event in events:
            self.read_to[event.message.tp] = event.message.offset
        for key in {event.key for event in rows}:
            if (value := self.data.get(key)) is not None:
                self.data[key] = compress(value)

    def persisted_offset(self, tp: Any) -> int | None:
        """Where reading goes on; none: at the beginning."""
        return self.read_to.get(tp)

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Rows of copies stay, which Faust's memory store would drop here; `keep_only` drops what
        must go."""
        await super().on_recovery_completed(active_tps | standby_tps, standby_tps)

    def _changelog_topic_name(self) -> str:
        return f"{APP_ID}-{self.name}-changelog"


class RowTable:
    """One Faust table whose rows are bytes."""

    def __init__(self, app: Any, name: str, partitions: int) -> None:
        """Declare the table; before the app starts."""
        self.name = name
        # In memory whatever the app's default is: the stage holds the same content in its own form,
        # and a store on disk would survive a worker that lost the partition in between.
        table = _NamedTable(
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
        """Keys of the chunks that are there, by row."""

    @property
    def changelog(self) -> str:
        """Name of the changelog topic."""
        return str(self._table.changelog_topic.get_topic_name())

    def recovered(self, partition: int) -> int:
        """Offset of the changelog that the partition's rows reflect, as far as Faust has read it;
        -1: none."""
        return int(self._table.read_to.get(TP(self.changelog, partition), -1))

    def rows(self, partitions: Collection[int]) -> dict[int, dict[str, bytes]]:
        """The rows of these partitions by their keys, with values as `compress` left them.

        Raises:
            DamagedTable: a key names no partition, or of a long row a part is missing.
        """
        found: dict[int, dict[str, bytes]] = {partition: {} for partition in partitions}
        self._chunks = {}
        for raw, kept in self._table.data.items():
            partition, key = self._place(raw)
            if is_chunk(key):
                self._chunks.setdefault(row_of(key), []).append(key)
            elif partition in found:
                found[partition][key] = joined(key, kept, self._value)
        return found

    def row(self, key: str) -> bytes | None:
        """A row by its key; None: there is none."""
        value = self._value(key.encode())
        return None if value is None else joined(key, value, self._value)

    def of_cluster(self, partition: int, cluster: str) -> dict[str, bytes]:
        """Rows of a cluster, with values as `compress` left them.

        Raises:
            DamagedTable: of a long row a part is missing.
        """
        prefix = f"{partition}/{cluster}/".encode()
        return {
            key: joined(key, kept, self._value)
            for raw, kept in self._table.data.items()
            if raw.startswith(prefix) and not is_chunk(key := raw.decode())
        }

    def references(self) -> tuple[list[bytes], list[bytes]]:
        """Keys and compressed values of all records now, not copied; those of long rows in parts.

        Two lists are made in far less time than pairs.
        """
        return list(self._table.data.keys()), list(self._table.data.values())

    def records(self, changes: Iterable[RowChange]) -> list[RowChange]:
        """The records that write these rows, in the order in which they must be written."""
        return [
            record
            for change in changes
            for record in records(change, self._chunks.get(change.key, ()))
        ]

    def leftovers(self, partition: int) -> list[RowChange]:
        """Removals of the partition's chunks that belong to no row: writing had ended too early."""
        return [
            RowChange(chunk, None)
            for key, chunks in self._chunks.items()
            if key.partition("/")[0] == str(partition)
            for chunk in set(chunks).difference(named(key, self._value(key.encode())))
        ]

    def store(self, changes: Iterable[RowChange]) -> None:
        """Take acknowledged records into the local copy."""
        data = self._table.data
        for change in changes:
            raw = change.key.encode()
            if is_chunk(change.key):
                self._note_chunk(row_of(change.key), change)
            if change.value is None:
                data.pop(raw, None)
            else:
                data[raw] = compress(change.value)

    def _value(self, raw: bytes) -> bytes | None:
        kept = self._table.data.get(raw)
        return None if kept is None else decompress(kept)

    def _note_chunk(self, row: str, change: RowChange) -> None:
        chunks = self._chunks.setdefault(row, [])
        if change.value is not None and change.key not in chunks:
            chunks.append(change.key)
        elif change.value is None and change.key in chunks:
            chunks.remove(change.key)
            if not chunks:
                del self._chunks[row]

    def keep_only(self, partitions: Collection[int]) -> None:
        """Drop the rows of all other partitions: other workers write them now."""
        self._table.kept = frozenset(partitions)
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
