"""A memory with the rows that it has written, as a worker keeps them, and its parts in few words."""

import random
from collections.abc import Iterator
from typing import Any

from schemas.base import Message
from schemas.policy import Policy
from schemas.topics import TABLES
from streams.moves.history import Moves
from streams.moves.memory import MoveMemory
from tests.streams.cluster.builders import CLUSTER, at
from tests.streams.moves.builders import policy


class Kept:
    """A memory and its rows."""

    def __init__(self, of: Policy) -> None:
        self.policy = of
        self.memory = MoveMemory(CLUSTER, of)
        self.rows: dict[tuple[str, str], bytes] = {}

    def write(self) -> list[tuple[str, str, bytes | None]]:
        """Write the rows that have changed; answers with them."""
        changes: list[tuple[str, str, bytes | None]] = []
        for table in self.memory.tables:
            for key, row in table.changed_rows():
                value = None if row is None else row.model_dump_json().encode()
                changes.append((table.name, key, value))
                if value is None:
                    self.rows.pop((table.name, key), None)
                else:
                    self.rows[table.name, key] = value
        return changes

    def restart(self, order: random.Random) -> None:
        """Go on with a memory that is put together from the rows, read in any order."""
        stored = list(self.rows.items())
        order.shuffle(stored)

        rows_of: dict[str, Any] = {table.name: table.row for table in TABLES}

        def read(table: str) -> Iterator[Message]:
            return (
                rows_of[table].model_validate_json(value)
                for (name, _), value in stored
                if name == table
            )

        self.memory = MoveMemory(CLUSTER, self.policy)
        for table in self.memory.tables:
            table.restore(read(table.name))


def remembered(**settings: Any) -> Moves:
    """A memory by these settings."""
    return Moves(CLUSTER, policy(**settings))


def go(moves: Moves, owner: str, source: str, target: str, seconds: float) -> None:
    """A pod of an owner leaves a node, and its replacement arrives 10 s later."""
    moves.left(owner, source, at(seconds), "hot")
    moves.arrived(owner, target, at(seconds + 10))
