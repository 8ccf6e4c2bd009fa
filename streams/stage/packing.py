"""Packs single pods of the journal into table rows with all pods of a node.

With one row per node, a large cluster is recovered from thousands of rows and not from hundreds of
thousands. The journal would grow too fast if each change of a pod wrote the row of its node. So the
journal contains only the changed pod, with the key partition/cluster/kind/node/uid. Pods are packed when
the table is written, once per node for many changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import orjson

from schemas.storage.tables import kind_of_key, parse_row_key
from streams.stage.records import DamagedTable, RowChange, decompress

#: Kind of the packed rows. A packed row has the name of its node, without slashes.
PACKED = "reserved_pods"
#: Field of a packed row that contains its items.
_ITEMS = "pods"


def split_item_key(key: str) -> tuple[str, str | None]:
    """Return the key of the table row, and the uid of the item in it; None: the key is that of a row."""
    parts = key.split("/", 4)  # a uid may contain slashes
    if len(parts) == 5 and parts[2] == PACKED:
        return key[: -len(parts[4]) - 1], parts[4]
    return key, None


class Changes:
    """The newest changes of rows, ordered by the first change of each row."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str | None, bytes | None]] = {}
        """New values by key of the row and uid of the item; the uid None stands for the whole row."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, key: str, value: bytes | None) -> None:
        """Add a change of a row, or of an item of a packed row; None: it is deleted."""
        row_key, uid = split_item_key(key)
        values = self._rows.setdefault(row_key, {})
        if uid is None:
            values.clear()
        values[uid] = value

    def __iter__(self) -> Iterator[RowChange]:
        """Yield the newest changes in the form of the journal."""
        for key, values in self._rows.items():
            for uid, value in values.items():
                yield RowChange(key if uid is None else f"{key}/{uid}", value)

    def pack_rows(self, read: Callable[[str], bytes | None]) -> Iterator[RowChange]:
        """Yield the changed rows, packed; `read` returns the present row of the table.

        Raises:
            DamagedTable: a packed row of the table cannot be read.
        """
        for key, values in self._rows.items():
            row = values[None] if None in values else read(key)
            items = {uid: value for uid, value in values.items() if uid is not None}
            yield RowChange(key, _pack_row(key, row, items) if items else row)


def apply_changes(rows: MutableMapping[str, bytes], changes: Iterable[RowChange]) -> None:
    """Apply changes to packed rows.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    newest = Changes()
    for change in changes:
        newest.add(change.key, change.value)
    for row in newest.pack_rows(rows.get):
        if row.value is None:
            rows.pop(row.key, None)
        else:
            rows[row.key] = row.value


def unpack_rows(rows: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return table rows in the form of the journal, with single pods.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    unpacked: dict[str, bytes] = {}
    for key, value in rows:
        if kind_of_key(key) != PACKED:
            unpacked[key] = value
            continue
        for uid, item in _read_items(key, value).items():
            unpacked[f"{key}/{uid}"] = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return unpacked


def _read_items(key: str, row: bytes) -> dict[str, Any]:
    """Return the items of a packed row by uid."""
    try:
        return {item["pod"]["uid"]: item for item in orjson.loads(row)[_ITEMS]}
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedTable(key, f"cannot be read: {error!r}") from error


def _pack_row(key: str, row: bytes | None, changes: Mapping[str, bytes | None]) -> bytes | None:
    """Apply changes of items to a packed row; return None if no item is left."""
    old_items = {} if row is None else _read_items(key, decompress(row))
    entries = [(item["arrival"], item) for uid, item in old_items.items() if uid not in changes]
    entries += [
        (orjson.loads(value)["arrival"], orjson.Fragment(value))
        for value in changes.values()
        if value is not None
    ]
    if not entries:
        return None
    _, cluster, _, node = parse_row_key(key)
    entries.sort(key=lambda entry: entry[0])
    items = [item for _, item in entries]
    return orjson.dumps(
        {"cluster": cluster, "node": node, _ITEMS: items, "schema_version": 1},
        option=orjson.OPT_SORT_KEYS,
    )
