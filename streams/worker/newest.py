"""Rows as they are now, whether they have reached their tables or not.

Rows are written lazily: the tables lack changes that are in the journal, and the journal lacks
changes of batches under way. A stage that puts one cluster together again needs all of them.
"""

from collections.abc import Iterable

from streams.stage.packing import Changes
from streams.worker.tables import RowTable

#: Table, key and value.
Row = tuple[str, str, bytes]
#: Changes of rows, in their order; no value: the row is gone.
Layer = Iterable[tuple[str, str, bytes | None]]


def newest_rows(tables: Iterable[RowTable], layers: Iterable[Layer], prefix: str) -> list[Row]:
    """Rows of one key and of all keys below it.

    Args:
        tables: the rows as they were written last.
        layers: what has changed since; later ones go before earlier ones. A change that the tables
            have already does no harm.
        prefix: key, as in "3/cluster".

    Raises:
        DamagedTable: a packed row cannot be read.
    """
    below = f"{prefix}/"
    changes = Changes()
    for layer in layers:
        for table, key, value in layer:
            if key == prefix or key.startswith(below):
                changes.add(table, key, value)
    found = {
        (table.name, key): value for table in tables for key, value in table.below(prefix).items()
    }
    for row in changes.rows(lambda table, key: found.get((table, key))):
        if row.value is None:
            found.pop((row.table, row.key), None)
        else:
            found[row.table, row.key] = row.value
    return [(table, key, value) for (table, key), value in found.items()]
