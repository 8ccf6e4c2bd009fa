"""Raw tables, and how far their rows reflect the changelog."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from faust.types import TP

from streams.stage import long_rows
from streams.stage.records import RowChange
from streams.worker.consume.transport import WorkerApp
from streams.worker.tables import RowTable


@dataclass(frozen=True)
class Message:
    """The attributes of a Faust message that a table uses."""

    tp: TP
    offset: int
    key: bytes
    value: bytes | None

    @property
    def partition(self) -> int:
        """Of the changelog."""
        return self.tp.partition


@dataclass(frozen=True)
class Event:
    """A row of the changelog as Faust hands it to a table."""

    message: Message
    key: bytes = field(init=False)
    value: bytes | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.message.key)
        object.__setattr__(self, "value", self.message.value)


@pytest.fixture
def table() -> RowTable:
    """A table of two partitions."""
    app: Any = WorkerApp("test", broker="kafka://127.0.0.1:1", store="memory://")
    return RowTable(app, "nodes", 2)


def _read(table: RowTable, partition: int, *rows: tuple[int, str, bytes | None]) -> None:
    tp = TP(table.changelog, partition)
    events = [Event(Message(tp, offset, key.encode(), value)) for offset, key, value in rows]
    table._table.apply_changelog_batch(events)


def _goes_on_after(table: RowTable, partition: int) -> int | None:
    offset: int | None = table._table.persisted_offset(TP(table.changelog, partition))
    return offset


def test_a_copy_is_read_on_from_where_it_ends(table: RowTable) -> None:
    assert _goes_on_after(table, 0) is None, "a worker that has just started reads all of it"
    _read(table, 0, (0, "0/c/nodes/a", b"1"), (1, "0/c/nodes/b", b"1"))
    _read(table, 0, (4, "0/c/nodes/a", b"2"), (6, "0/c/nodes/b", None))
    assert _goes_on_after(table, 0) == 6
    assert _goes_on_after(table, 1) is None
    assert table.read_rows([0])[0] == {"0/c/nodes/a": b"2"}


def test_a_partition_that_is_neither_owned_nor_copied_is_read_from_the_beginning_again(
    table: RowTable,
) -> None:
    _read(table, 0, (3, "0/c/nodes/a", b"1"))
    _read(table, 1, (5, "1/c/nodes/a", b"1"))
    table.keep_only([1])
    _read(table, 0, (4, "0/c/nodes/b", b"1"))  # was still on its way
    assert _goes_on_after(table, 0) is None
    assert _goes_on_after(table, 1) == 5
    assert table.read_rows([0, 1]) == {0: {}, 1: {"1/c/nodes/a": b"1"}}


def test_own_rows_are_read_again_after_a_rebalance(table: RowTable) -> None:
    _read(table, 0, (3, "0/c/nodes/a", b"1"))
    table.store([RowChange("0/c/nodes/a", b"2"), RowChange("0/c/nodes/b", b"1")])
    assert _goes_on_after(table, 0) == 3
    table.store([RowChange("0/c/nodes/b", None)])
    assert table.read_rows([0])[0] == {"0/c/nodes/a": b"2"}


async def test_rows_of_a_copy_stay_when_owned_partitions_are_recovered(table: RowTable) -> None:
    _read(table, 0, (3, "0/c/nodes/a", b"1"))
    _read(table, 1, (5, "1/c/nodes/a", b"1"))
    actives, copies = {TP(table.changelog, 0)}, {TP(table.changelog, 1)}
    await table._table.on_recovery_completed(actives, copies)
    assert table.read_rows([0, 1]) == {0: {"0/c/nodes/a": b"1"}, 1: {"1/c/nodes/a": b"1"}}


def _put(table: RowTable, *rows: tuple[str, bytes | None]) -> list[RowChange]:
    records = table.split_changes(RowChange(key, value) for key, value in rows)
    table.store(records)
    return records


def test_a_row_in_chunks_is_read_as_one_row(
    table: RowTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "CHUNK_BYTES", 8)
    long = b"{" + bytes(30)
    records = _put(table, ("0/c/nodes/a", long), ("0/c/nodes/b", b"{}"))
    assert len(records) == 6
    assert table.read_rows([0])[0] == {"0/c/nodes/a": long, "0/c/nodes/b": b"{}"}
    assert table.read_row("0/c/nodes/a") == long
    assert table.read_cluster(0, "c") == {"0/c/nodes/a": long, "0/c/nodes/b": b"{}"}
    records = _put(table, ("0/c/nodes/a", b"{2}"))
    assert [record.value for record in records] == [b"{2}", None, None, None, None]
    assert len(table.copy_rows()) == 2


def test_chunks_that_a_former_owner_left_are_removed_with_the_next_write(
    table: RowTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_rows, "CHUNK_BYTES", 8)
    records = table.split_changes([RowChange("0/c/nodes/a", b"{" + bytes(30))])
    torn = [(number, record.key, record.value) for number, record in enumerate(records[:3])]
    _read(table, 0, *torn, (3, "0/c/nodes/b", b"{}"))
    assert table.read_rows([0])[0] == {"0/c/nodes/b": b"{}"}
    assert {record.key for record in table.list_orphan_removals(0)} == {key for _, key, _ in torn}
    assert table.list_orphan_removals(1) == []
    _put(table, ("0/c/nodes/a", b"{}"))
    assert table.list_orphan_removals(0) == []
    assert sorted(table.copy_rows()) == [b"0/c/nodes/a", b"0/c/nodes/b"]
