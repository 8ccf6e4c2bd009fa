"""A memory with the rows that it has written, as a worker keeps them, and its parts in few words."""

import random
from collections.abc import Iterator
from typing import Any

from schemas.base import Message
from schemas.moves import MoveOutcome
from schemas.policy import Policy
from schemas.policy.lownodeload import DEFAULT_POOL
from schemas.topics import TABLES
from streams.moves.effects import Effects
from streams.moves.history import Moves
from streams.moves.memory import MoveMemory
from streams.moves.unmovable import Unmovable
from tests.streams.cluster.builders import CLUSTER, at
from tests.streams.moves.builders import AS_OF, CAPACITY, HIGH, pod, policy, ref


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


class Story:
    """Effects that are followed, and what happens in few words; times are seconds."""

    def __init__(self, **settings: Any) -> None:
        self.effects = Effects(CLUSTER, policy(**{"followSeconds": 600} | settings))

    def evict(self, seconds: float, uid: str = "old", **fields: Any) -> None:
        """A pod leaves node a."""
        eviction: dict[str, Any] = {
            "command_id": f"e-{uid}-0000000",
            "migration_id": f"m-{uid}-0000000",
            "pod": ref(uid),
            "owner": "owner",
            "pool": DEFAULT_POOL,
            "phase": "node",
            "source_node": "a",
            "dry_run": False,
            "now_ms": at(seconds),
            "peers": ("peer",),
        }
        self.effects.evicted(**eviction | fields)

    def see(self, node: str, cpu: int, seconds: float, memory: int = 0) -> None:
        """A round looks at a node."""
        used = {"cpu": cpu, "memory": memory}
        self.effects.observe(DEFAULT_POOL, node, "node", used, HIGH, CAPACITY, at(seconds))

    def arrive(
        self, seconds: float, uid: str = "new", node: str = "b", *, ready: bool = False
    ) -> None:
        """A new pod of the owner runs."""
        self.effects.arrived("owner", pod(uid, ready=ready), node, at(seconds))

    def ready(self, seconds: float, uid: str = "new") -> None:
        """A pod is ready."""
        self.effects.seen(pod(uid, node="b"), at(seconds))

    def tick(self, seconds: float) -> list[MoveOutcome]:
        """Time passes."""
        return self.effects.tick(at(seconds), AS_OF)

    def verdict(self, seconds: float) -> MoveOutcome:
        """The one verdict at a time."""
        (made,) = self.tick(seconds)
        return made


def unmovable(**settings: Any) -> Unmovable:
    """Unmovable pods by these settings."""
    return Unmovable(CLUSTER, policy(**settings))
