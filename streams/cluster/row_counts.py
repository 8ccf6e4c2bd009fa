"""How many rows each table has of a cluster, so that a row that is gone is noticed.

The cluster's own row names the counts, and is written with every batch. When a state is put
together, the rows found are compared with them. Otherwise a row that was deleted, or lost by a
broker, would not be noticed: its node's pods would take no room. Keys are kept for tables with few
rows; the state itself counts the others.
"""

from collections import defaultdict
from collections.abc import Mapping

from streams.stage.records import DamagedTable

#: Tables whose rows the state counts: one a pod that takes room, one a request that waits.
COUNTED = ("reserved_pods", "pending_requests")


class RowCounts:
    """Keys of the rows of one cluster."""

    def __init__(self) -> None:
        self._keys: dict[str, set[str]] = defaultdict(set)

    def note(self, table: str, key: str, *, there: bool) -> None:
        """A row is written, or removed."""
        if there:
            self._keys[table].add(key)
        else:
            self._keys[table].discard(key)

    def has(self, table: str, key: str) -> bool:
        """Whether a row of a table not in `COUNTED` is there."""
        return key in self._keys[table]

    def counts(self, counted: Mapping[str, int]) -> dict[str, int]:
        """Rows by table, those of tables of `COUNTED` given; tables without rows are left out."""
        found = {table: len(keys) for table, keys in self._keys.items()} | dict(counted)
        return {table: count for table, count in sorted(found.items()) if count}


def check_counts(key: str, expected: Mapping[str, int], found: Mapping[str, int]) -> None:
    """Compare the rows that were found with those that the row of a cluster, of this key, counts.

    Raises:
        DamagedTable: a table has other rows than it should have.
    """
    for table in sorted({*expected, *found}):
        wanted, there = expected.get(table, 0), found.get(table, 0)
        if wanted != there:
            what = "pods" if table == "reserved_pods" else "rows"
            raise DamagedTable(
                table,
                key,
                f"{there} {what} are there; the row in table clusters counts {wanted}",
            )
