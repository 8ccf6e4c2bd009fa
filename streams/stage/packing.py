"""Packs pods, which the journal has one by one, into rows with all pods of a node.

With one row per node, a large cluster is recovered from thousands of rows and not from hundreds of
thousands. The journal would grow too fast if each change of a pod wrote the row of its whole node. So the
journal has only the changed pod, with the key partition/cluster/kind/node/uid. Pods are packed when the
table is written, once per node for many changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.storage.tables import kind_of_key, parse_row_key
from streams.stage.records import DamagedTable, RowChange, decompress

#: The kind of packed rows. Their names are names of nodes, without slashes.
PACKED = "reserved_pods"
#: The field of a packed row with its items.
_ITEMS = "pods"


def split_item_key(key: str) -> tuple[str, str | None]:
    """Return the key of the table row, and the item in it; None: the change is the whole row."""
    parts = key.split("/", 4)  # a uid may contain slashes
    if len(parts) == 5 and parts[2] == PACKED:
        return key[: -len(parts[4]) - 1], parts[4]
    return key, None


@dataclass(slots=True)
class _RowState:
    is_replaced: bool = False
    """Whether `items` are applied to `value`; otherwise they are applied to the row in the table."""
    value: bytes | None = None
    items: dict[str, bytes | None] = field(default_factory=dict)


class Changes:
    """The newest changes of rows, ordered by the first change of each row."""

    def __init__(self) -> None:
        self._rows: dict[str, _RowState] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, key: str, value: bytes | None) -> None:
        """Add a change of a row, or of an item of a packed row; None: it is deleted."""
        row, item = split_item_key(key)
        newest = self._rows.get(row)
        if newest is None:
            newest = self._rows[row] = _RowState()
        if item is not None:
            newest.items[item] = value
        else:
            newest.is_replaced, newest.value = True, value
            newest.items.clear()

    def __iter__(self) -> Iterator[RowChange]:
        """Yield the newest changes, with items one by one."""
        for key, newest in self._rows.items():
            if newest.is_replaced:
                yield RowChange(key, newest.value)
            for item, value in newest.items.items():
                yield RowChange(f"{key}/{item}", value)

    def packed_rows(self, before: Callable[[str], bytes | None]) -> Iterator[RowChange]:
        """Yield the changed rows, packed.

        Args:
            before: returns a row of the table, or None.

        Raises:
            DamagedTable: a packed row of the table cannot be read.
        """
        for key, newest in self._rows.items():
            value = newest.value if newest.is_replaced else before(key)
            if newest.items:
                value = _pack_row(key, value, newest.items)
            yield RowChange(key, value)


def apply_changes(rows: MutableMapping[str, bytes], changes: Iterable[RowChange]) -> None:
    """Apply changes to packed rows.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    newest = Changes()
    for change in changes:
        newest.add(change.key, change.value)
    for row in newest.packed_rows(rows.get):
        if row.value is None:
            rows.pop(row.key, None)
        else:
            rows[row.key] = row.value


def unpack_rows(rows: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return rows of tables in the form of the journal, with pods one by one.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    unpacked: dict[str, bytes] = {}
    for key, value in rows:
        if kind_of_key(key) != PACKED:
            unpacked[key] = value
            continue
        try:
            for item in orjson.loads(value)[_ITEMS]:
                uid = item["pod"]["uid"]
                unpacked[f"{key}/{uid}"] = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(key, f"cannot be read: {error!r}") from error
    return unpacked


def _pack_row(key: str, before: bytes | None, items: Mapping[str, bytes | None]) -> bytes | None:
    """Return a packed row with changed items; None: no item is left."""
    entries: list[tuple[int, str, Any]] = []
    if before is not None:
        try:
            for entry in orjson.loads(decompress(before))[_ITEMS]:
                uid = entry["pod"]["uid"]
                if uid not in items:
                    entries.append((entry["arrival"], uid, entry))
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(key, f"cannot be read: {error!r}") from error
    for uid, value in items.items():
        if value is not None:
            entries.append((orjson.loads(value)["arrival"], uid, orjson.Fragment(value)))
    if not entries:
        return None
    _, cluster, _, node = parse_row_key(key)
    entries.sort(key=lambda entry: entry[0])
    row = {"cluster": cluster, "node": node, _ITEMS: [entry for _, _, entry in entries]}
    return orjson.dumps({**row, "schema_version": 1}, option=orjson.OPT_SORT_KEYS)
