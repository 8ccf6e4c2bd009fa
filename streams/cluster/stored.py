"""Rows of clusters as they come back: separated by cluster and kind, and read one by one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from schemas.tables import parse_row_key
from streams.cluster.state import ClusterState
from streams.cluster.tables import restore
from streams.stage.records import DamagedTable, read_row

#: Keys and values of one cluster's rows, by kind.
Parts = dict[str, list[tuple[str, bytes]]]


def rows_by_cluster(rows: Iterable[tuple[str, bytes]]) -> dict[str, Parts]:
    """The rows of each cluster."""
    found: dict[str, Parts] = defaultdict(lambda: defaultdict(list))
    for key, value in rows:
        try:
            _, cluster, kind, _ = parse_row_key(key)
        except ValueError as error:
            raise DamagedTable(key, str(error)) from None
        found[cluster][kind].append((key, value))
    return found


def rows_of(parts: Parts, kind: str) -> Iterator[Any]:
    """The rows, each read when it is its turn: all of them at once would take twice the memory."""
    for key, value in parts.get(kind, ()):
        yield read_row(key, value)


def restored(cluster: str, now_ms: int | None, parts: Parts) -> ClusterState:
    """A cluster as its rows have it.

    Raises:
        DamagedTable: a row cannot be read.
    """
    return restore(cluster, now_ms, partial(rows_of, parts))
