"""A memory with the rows that it has written, as a worker keeps them, and events in few words."""

import random
from collections.abc import Iterator
from typing import Any

from schemas.base import Message
from schemas.decisions import AsOf
from schemas.pods import OwnerReference, Pod, PodRef
from schemas.policy import Policy, read_policy
from schemas.topics import TABLES
from streams.moves.memory import MoveMemory

CLUSTER = "test"
START_MS = 1_760_000_000_000
AS_OF = AsOf(partition=0, offsets={}, policy_digest="default")


def at(seconds: float) -> int:
    """Milliseconds of a time."""
    return START_MS + int(seconds * 1000)


def policy(mode: str = "enforce", **moves: Any) -> Policy:
    """A policy with these fields of `moves`, and rounds so often that they do not matter."""
    fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in moves.items())
    rounds = "descheduling: {deschedulingInterval: 1s}"
    return read_policy(f"mode: {mode}\n{rounds}\nmoves: {{{fields}}}\n")


def pod(uid: str, owner: str = "owner", node: str | None = None, *, ready: bool = True) -> Pod:
    """A pod of an owner; its name is its uid."""
    owners = (OwnerReference(kind="ReplicaSet", name=owner, uid=owner, controller=True),)
    return Pod(namespace="shop", name=uid, uid=uid, node=node, owners=owners, ready=ready)


def ref(uid: str) -> PodRef:
    """Which pod."""
    return PodRef(namespace="shop", name=uid, uid=uid)


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
