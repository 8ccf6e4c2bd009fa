"""Rows of the tables as they come back: separated by cluster, and read one by one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from streams.cluster.state import ClusterState
from streams.cluster.tables import ROWS, restore
from streams.stage.records import DamagedTable

#: Table, key and value.
Row = tuple[str, str, bytes]
#: Keys and values of one cluster's rows, by table.
Parts = dict[str, list[tuple[str, bytes]]]


def rows_by_cluster(rows: Iterable[Row]) -> dict[str, Parts]:
    """The rows of each cluster."""
    found: dict[str, Parts] = defaultdict(lambda: defaultdict(list))
    for table, key, value in rows:
        found[_cluster_of(table, key)][table].append((key, value))
    return found


def rows_of(cluster: str, parts: Parts, table: str) -> Iterator[Any]:
    """The rows, each read when it is its turn: all of them at once would take twice the memory."""
    for key, value in parts[table]:
        row = read_row(ROWS[table], table, key, value)
        if row.cluster != cluster:
            raise DamagedTable(
                table, key, f"is of cluster {row.cluster}, which its key does not say"
            )
        yield row


def restored(cluster: str, now_ms: int | None, parts: Parts) -> ClusterState:
    """A cluster as its rows have it.

    Raises:
        DamagedTable: a row cannot be read or is missing.
    """
    keys = {table: [key for key, _ in found] for table, found in parts.items()}
    return restore(cluster, now_ms, partial(rows_of, cluster, parts), keys)


def _cluster_of(table: str, key: str) -> str:
    """The cluster that a row belongs to; keys are partition/cluster and partition/cluster/name."""
    parts = key.split("/", 2)
    if len(parts) < 2:
        raise DamagedTable(table, key, "the key names no cluster; expected partition/cluster/name")
    return parts[1]


def read_row(row: Any, table: str, key: str, value: bytes) -> Any:
    """A row; raises DamagedTable."""
    try:
        return row.model_validate_json(value)
    except ValueError as error:
        raise DamagedTable(table, key, f"cannot be read: {error}") from error
