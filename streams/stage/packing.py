"""Rows that the journal has one by one and their table has packed.

What changes is one pod; a table's row holds all pods of a node, so that a large cluster is
recovered from thousands of rows and not from hundreds of thousands. Writing a node's row at each
change of one of its pods would make the journal as many times larger as a node has pods. So the
journal names the pod alone, by a key with one part more (partition/cluster/kind/node/uid), and rows
are packed when the table is written, a node once however often its pods have changed. Pure: rows in,
rows out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from schemas.storage.tables import kind_of_key, parse_row_key
from streams.stage.records import DamagedTable, RowChange, decompress

#: The kind of rows that are packed. Names of its rows, which are names of nodes, hold no slash.
PACKED = "reserved_pods"
#: The list in a packed row that holds what the journal has one by one.
_ITEMS = "pods"


def split_item_key(key: str) -> tuple[str, str | None]:
    """Key of the table row that a change belongs to, and the item in it; None: it is the whole row."""
    parts = key.split("/", 4)  # a uid may hold a slash
    if len(parts) == 5 and parts[2] == PACKED:
        return key[: -len(parts[4]) - 1], parts[4]
    return key, None


@dataclass(slots=True)
class _RowState:
    """What a row has come to."""

    known: bool = False
    """`value` is the row that `items` change; otherwise it is the row that the table has."""
    value: bytes | None = None
    items: dict[str, bytes | None] = field(default_factory=dict)


class Changes:
    """The newest of many changes of rows, in the order in which the rows changed first."""

    def __init__(self) -> None:
        self._rows: dict[str, _RowState] = {}

    def __len__(self) -> int:
        """How many rows have changed."""
        return len(self._rows)

    def add(self, key: str, value: bytes | None) -> None:
        """A row, or one item of a packed one, is this now; None: it is gone."""
        row, item = split_item_key(key)
        newest = self._rows.get(row)
        if newest is None:
            newest = self._rows[row] = _RowState()
        if item is not None:
            newest.items[item] = value
        else:
            newest.known, newest.value = True, value
            newest.items.clear()

    def __iter__(self) -> Iterator[RowChange]:
        """Changes with the same effect."""
        for key, newest in self._rows.items():
            if newest.known:
                yield RowChange(key, newest.value)
            for item, value in newest.items.items():
                yield RowChange(f"{key}/{item}", value)

    def rows(self, before: Callable[[str], bytes | None]) -> Iterator[RowChange]:
        """The rows as they are now; `before` gives a row as the table has it.

        Raises:
            DamagedTable: a packed row of the table cannot be read.
        """
        for key, newest in self._rows.items():
            value = newest.value if newest.known else before(key)
            if newest.items:
                value = _pack_row(key, value, newest.items)
            yield RowChange(key, value)


def put(rows: MutableMapping[str, bytes], changes: Iterable[RowChange]) -> None:
    """Let rows be as the changes leave them.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    newest = Changes()
    for change in changes:
        newest.add(change.key, change.value)
    for row in newest.rows(rows.get):
        if row.value is None:
            rows.pop(row.key, None)
        else:
            rows[row.key] = row.value


def unpack_rows(rows: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Rows of tables as the journal has them, one by one.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    found: dict[str, bytes] = {}
    for key, value in rows:
        if kind_of_key(key) != PACKED:
            found[key] = value
            continue
        try:
            for each in orjson.loads(value)[_ITEMS]:
                item = orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
                found[f"{key}/{each['pod']['uid']}"] = item
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(key, f"cannot be read: {error!r}") from error
    return found


def _pack_row(key: str, before: bytes | None, items: Mapping[str, bytes | None]) -> bytes | None:
    """A packed row with items put in, replaced or taken out; None: nothing is left in it."""
    kept: list[tuple[int, str, Any]] = []
    if before is not None:
        try:
            for each in orjson.loads(decompress(before))[_ITEMS]:
                uid = each["pod"]["uid"]
                if uid not in items:
                    kept.append((each["place"], uid, each))
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(key, f"cannot be read: {error!r}") from error
    for uid, value in items.items():
        if value is not None:
            kept.append((orjson.loads(value)["place"], uid, orjson.Fragment(value)))
    if not kept:
        return None
    _, cluster, _, node = parse_row_key(key)
    kept.sort(key=lambda item: item[0])
    row = {"cluster": cluster, "node": node, _ITEMS: [each for _, _, each in kept]}
    return orjson.dumps({**row, "schema_version": 1}, option=orjson.OPT_SORT_KEYS)
