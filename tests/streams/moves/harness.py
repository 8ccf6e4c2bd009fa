"""A memory with the rows that it has written, as a worker keeps them, and its parts in few words."""

import random
from collections.abc import Iterator
from typing import Any

from schemas.base.message import Message
from schemas.policy import Policy
from schemas.storage.tables import kind_of_key, row_key
from streams.moves.history import Moves
from streams.moves.memory import MoveMemory
from streams.stage.packing import apply_changes
from streams.stage.records import RowChange, read_row
from tests.streams.cluster.builders import CLUSTER, at, moves_policy


class Kept:
    """A memory and its rows."""

    def __init__(self, of: Policy) -> None:
        self.policy = of
        self.memory = MoveMemory(CLUSTER, of)
        self.rows: dict[str, bytes] = {}

    def write(self) -> list[RowChange]:
        """Write the rows that have changed; answers with them."""
        changes = [
            RowChange(row_key(0, CLUSTER, table.kind, name), row)
            for table in self.memory.tracked_rows
            for name, row in table.changed_rows()
        ]
        apply_changes(self.rows, changes)
        return changes

    def restart(self, order: random.Random) -> None:
        """Go on with a memory that is put together from the rows, read in any order."""
        stored = list(self.rows.items())
        order.shuffle(stored)

        def read(kind: str) -> Iterator[Message]:
            return (read_row(key, value) for key, value in stored if kind_of_key(key) == kind)

        self.memory = MoveMemory(CLUSTER, self.policy)
        for table in self.memory.tracked_rows:
            table.restore(read(table.kind))


def remembered(**settings: Any) -> Moves:
    """A memory by these settings."""
    return Moves(CLUSTER, moves_policy(**settings))


def go(moves: Moves, owner: str, source: str, target: str, seconds: float) -> None:
    """A pod of an owner leaves a node, and its replacement arrives 10 s later."""
    moves.record_departure(owner, source, at(seconds), "hot")
    moves.record_arrival(owner, target, at(seconds + 10))
