"""Rows that the journal has one by one and their table has packed.

What changes is one pod; a table's row holds all pods of a node, so that a large cluster is
recovered from thousands of rows and not from hundreds of thousands. Writing a node's row at each
change of one of its pods would make the journal as many times larger as a node has pods. So the
journal names the pod alone, by a key with one part more (partition/cluster/node/uid), and rows are
packed when the table is written, a node once however often its pods have changed. Pure: rows in,
rows out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from streams.stage.records import DamagedTable, RowChange

#: Tables whose rows are packed, to the list in a row that holds what the journal has one by one.
PACKED: Mapping[str, str] = {"reserved_pods": "pods"}

#: Parts of the key of a packed row; uids, which come after, may hold the separator.
_PARTS = 3


def single(prefix: str, row: str, item: str) -> str:
    """The journal's key of one item of a packed row, whose key is `prefix`/`row`."""
    return f"{prefix}/{row}/{item}"


def packed_row(table: str, key: str) -> tuple[str, str | None]:
    """Key of the table row that a change belongs to, and the item in it; None: it is the whole row."""
    if table in PACKED:
        parts = key.split("/", _PARTS)
        if len(parts) > _PARTS:
            return key[: -len(parts[_PARTS]) - 1], parts[_PARTS]
    return key, None


@dataclass(slots=True)
class _Newest:
    """What a row has come to."""

    known: bool = False
    """`value` is the row that `items` change; otherwise it is the row that the table has."""
    value: bytes | None = None
    items: dict[str, bytes | None] = field(default_factory=dict)


class Changes:
    """The newest of many changes of rows, in the order in which the rows changed first."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], _Newest] = {}

    def __len__(self) -> int:
        """How many rows have changed."""
        return len(self._rows)

    def add(self, table: str, key: str, value: bytes | None) -> None:
        """A row, or one item of a packed one, is this now; None: it is gone."""
        row, item = packed_row(table, key)
        newest = self._rows.get((table, row))
        if newest is None:
            newest = self._rows[table, row] = _Newest()
        if item is not None:
            newest.items[item] = value
        else:
            newest.known, newest.value = True, value
            newest.items.clear()

    def __iter__(self) -> Iterator[tuple[str, str, bytes | None]]:
        """Changes with the same effect, as `add` takes them."""
        for (table, key), newest in self._rows.items():
            if newest.known:
                yield table, key, newest.value
            for item, value in newest.items.items():
                yield table, f"{key}/{item}", value

    def rows(self, before: Callable[[str, str], bytes | None]) -> Iterator[RowChange]:
        """The rows as they are now; `before` gives a row as the table has it.

        Raises:
            DamagedTable: a packed row of the table cannot be read.
        """
        for (table, key), newest in self._rows.items():
            value = newest.value if newest.known else before(table, key)
            if newest.items:
                value = _packed(table, key, value, newest.items)
            yield RowChange(table, key, value)


def put(rows: MutableMapping[tuple[str, str], bytes], changes: Iterable[RowChange]) -> None:
    """Let rows be as the changes leave them; by table and key.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    newest = Changes()
    for change in changes:
        newest.add(change.table, change.key, change.value)
    for row in newest.rows(lambda table, key: rows.get((table, key))):
        if row.value is None:
            rows.pop((row.table, row.key), None)
        else:
            rows[row.table, row.key] = row.value


def unpacked(rows: Iterable[tuple[str, str, bytes]]) -> dict[tuple[str, str], bytes]:
    """Rows of tables as the journal has them, one by one.

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    found: dict[tuple[str, str], bytes] = {}
    for table, key, value in rows:
        if table not in PACKED:
            found[table, key] = value
            continue
        try:
            for each in orjson.loads(value)[PACKED[table]]:
                item = orjson.dumps(each, option=orjson.OPT_SORT_KEYS)
                found[table, f"{key}/{each['pod']['uid']}"] = item
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(table, key, f"cannot be read: {error!r}") from error
    return found


def _packed(
    table: str, key: str, before: bytes | None, items: Mapping[str, bytes | None]
) -> bytes | None:
    """A packed row with items put in, replaced or taken out; None: nothing is left in it."""
    name = PACKED[table]
    kept: list[tuple[int, str, Any]] = []
    if before is not None:
        try:
            for each in orjson.loads(before)[name]:
                uid = each["pod"]["uid"]
                if uid not in items:
                    kept.append((each["place"], uid, each))
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedTable(table, key, f"cannot be read: {error!r}") from error
    for uid, value in items.items():
        if value is not None:
            kept.append((orjson.loads(value)["place"], uid, orjson.Fragment(value)))
    if not kept:
        return None
    _, cluster, node = key.split("/", _PARTS - 1)
    kept.sort(key=lambda item: item[0])
    row = {"cluster": cluster, "node": node, name: [each for _, _, each in kept]}
    return orjson.dumps({**row, "schema_version": 1}, option=orjson.OPT_SORT_KEYS)
