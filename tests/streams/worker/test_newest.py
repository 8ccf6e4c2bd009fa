"""Rows of one cluster, wherever they are on their way to the tables."""

from typing import Any

import orjson
import pytest

from streams.stage.records import RowChange
from streams.worker.consume.transport import WorkerApp
from streams.worker.newest import newest_rows
from streams.worker.tables import RowTable


def _pods(*uids: str) -> bytes:
    pods = [{"place": place, "pod": {"uid": uid}} for place, uid in enumerate(uids)]
    return orjson.dumps({"cluster": "c", "node": "n", "pods": pods})


def _uids(rows: list[tuple[str, str, bytes]]) -> list[str]:
    ((_, _, value),) = [row for row in rows if row[0] == "reserved_pods"]
    return [each["pod"]["uid"] for each in orjson.loads(value)["pods"]]


@pytest.fixture
def tables() -> list[RowTable]:
    """Two tables in which two clusters have rows."""
    app: Any = WorkerApp("test", broker="kafka://127.0.0.1:1", store="memory://")
    nodes, pods = RowTable(app, "nodes", 2), RowTable(app, "reserved_pods", 2)
    nodes.store(
        RowChange("nodes", key, b"old") for key in ("0/c/n", "0/c/m", "0/cd/n", "1/c/n", "0/c")
    )
    pods.store([RowChange("reserved_pods", "0/c/n", _pods("a", "b"))])
    return [nodes, pods]


def test_only_rows_of_the_cluster_are_given(tables: list[RowTable]) -> None:
    found = newest_rows(tables, [], "0/c")
    assert {key for _, key, _ in found} == {"0/c", "0/c/n", "0/c/m"}


def test_later_changes_go_before_earlier_ones_and_before_the_tables(tables: list[RowTable]) -> None:
    layers: list[list[tuple[str, str, bytes | None]]] = [
        [("nodes", "0/c/n", b"newer"), ("nodes", "0/c/m", None), ("nodes", "0/cd/n", b"other")],
        [("nodes", "0/c/n", b"newest"), ("nodes", "0/c/new", b"new")],
    ]
    found = {
        key: value for table, key, value in newest_rows(tables, layers, "0/c") if table == "nodes"
    }
    assert found == {"0/c": b"old", "0/c/n": b"newest", "0/c/new": b"new"}


def test_pods_that_changed_one_by_one_are_packed(tables: list[RowTable]) -> None:
    pod = orjson.dumps({"place": 9, "pod": {"uid": "z"}})
    layers: list[list[tuple[str, str, bytes | None]]] = [
        [("reserved_pods", "0/c/n/a", None), ("reserved_pods", "0/c/n/z", pod)],
        [("reserved_pods", "0/c/n/z", pod)],
    ]
    assert _uids(newest_rows(tables, layers, "0/c")) == ["b", "z"]
