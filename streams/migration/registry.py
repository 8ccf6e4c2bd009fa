"""All migrations of a cluster, as rows, with what limits count by.

A migration is in the registry while it is live, and after its end as long as a command of it may
still be carried out: until then there must be no other command for its pod, and it counts in its
limits. A pod has at most one migration.

The numbers that limits need are counted as rows come and go: a question costs the same with ten
migrations as with two thousand.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from schemas.messages.migrations import LIVE, MigrationRow
from streams.stage.tracked_rows import TrackedRows

#: Most migrations of a cluster at a time.
MIGRATIONS_MAX = 2_000


def live(row: MigrationRow) -> bool:
    """The migration goes on."""
    return row.phase in LIVE


def moving(row: MigrationRow) -> bool:
    """It has passed arbitration, or a command of it may still be carried out."""
    return row.phase != "Pending"


def commanded(row: MigrationRow) -> bool:
    """A command of it may still be carried out, or its pod has been evicted."""
    return row.command_expires_at_ms is not None or row.evicted_at_ms is not None


@dataclass(slots=True)
class MigrationGroup:
    """Migrations that leave one node or namespace, or are of one owner."""

    uids: dict[str, str] = field(default_factory=dict)
    """uids of their pods, by id of the migration."""
    moving: dict[str, str] = field(default_factory=dict)
    """Those of them that are `moving`."""
    untried: dict[str, str] = field(default_factory=dict)
    """Those of them without a command so far."""
    version: int = 0
    """The registry's when one of these became another one last: no two groups share one, not even
    one after the other of the same name."""

    def put(self, row: MigrationRow, version: int) -> None:
        """A migration is there, or has become another one; `version` is the registry's."""
        before = len(self.uids), len(self.moving), len(self.untried)
        self.uids[row.migration_id] = row.pod.uid
        for member, named in ((moving(row), self.moving), (not row.attempts, self.untried)):
            if member:
                named[row.migration_id] = row.pod.uid
            else:
                named.pop(row.migration_id, None)
        if before != (len(self.uids), len(self.moving), len(self.untried)):
            self.version = version

    def drop(self, row: MigrationRow, version: int) -> None:
        """A migration is forgotten; `version` is the registry's."""
        for named in (self.uids, self.moving, self.untried):
            named.pop(row.migration_id, None)
        self.version = version

    def counted(self, *, waiting_too: bool) -> dict[str, str]:
        """Those that limits count: all, or those that are moving."""
        return self.uids if waiting_too else self.moving


_EMPTY = MigrationGroup()


class Registry(TrackedRows[str, MigrationRow]):
    """The migrations of a cluster by their ids, in the order of their creation."""

    def __init__(self) -> None:
        super().__init__("migrations", lambda row: row.migration_id)
        self._by_uid: dict[str, str] = {}
        self._at_node: dict[str, MigrationGroup] = {}
        self._in_namespace: dict[str, MigrationGroup] = {}
        self._of_owner: dict[str, MigrationGroup] = {}
        self._by_replacement: dict[str, str] = {}
        self.moving = 0
        """How many have passed arbitration, or have a command that may still be carried out."""
        self.version = 0
        """Grows with every change."""

    def __iter__(self) -> Iterator[MigrationRow]:
        """In the order of creation; the registry may change meanwhile."""
        return iter(list(self.rows.values()))

    def get(self, migration_id: str) -> MigrationRow | None:
        """A migration by its id."""
        return self.rows.get(migration_id)

    def of_pod(self, uid: str) -> MigrationRow | None:
        """The migration of a pod."""
        return self.rows.get(self._by_uid.get(uid, ""))

    def of_replacement(self, uid: str) -> MigrationRow | None:
        """The migration that a pod replaces the pod of."""
        return self.rows.get(self._by_replacement.get(uid, ""))

    def at_node(self, name: str) -> list[MigrationRow]:
        """Migrations of pods that leave a node, in the order of creation."""
        return self._all(self.node_group(name))

    def of_owner(self, owner: str) -> list[MigrationRow]:
        """Migrations of pods of one owner, in the order of creation."""
        return self._all(self.owner_group(owner))

    def node_group(self, name: str) -> MigrationGroup:
        """What is counted of a node."""
        return self._at_node.get(name, _EMPTY)

    def namespace_group(self, namespace: str) -> MigrationGroup:
        """What is counted of a namespace."""
        return self._in_namespace.get(namespace, _EMPTY)

    def owner_group(self, owner: str) -> MigrationGroup:
        """What is counted of an owner."""
        return self._of_owner.get(owner, _EMPTY)

    def _all(self, group: MigrationGroup) -> list[MigrationRow]:
        return sorted((self.rows[each] for each in group.uids), key=lambda row: row.sequence)

    def put(self, row: MigrationRow) -> None:
        """Keep a new migration, or a known one as it is now."""
        before = self.rows.get(row.migration_id)
        super().put(row)
        self.version += 1
        self.moving += moving(row) - (before is not None and moving(before))
        if before is not None and before.owner != row.owner:
            self._leave(before)
        for index, key in self._keys(row):
            index.setdefault(key, MigrationGroup()).put(row, self.version)
        if before is None:
            self._by_uid[row.pod.uid] = row.migration_id
        elif before.replacement is not None and before.replacement != row.replacement:
            self._by_replacement.pop(before.replacement.uid, None)
        if row.replacement is not None:
            self._by_replacement[row.replacement.uid] = row.migration_id

    def forget(self, row: MigrationRow) -> None:
        """A migration is over, and none of its commands can be carried out."""
        self.moving -= moving(self.rows[row.migration_id])
        self.drop(row.migration_id)
        self.version += 1
        self._leave(row)
        del self._by_uid[row.pod.uid]
        if row.replacement is not None:
            self._by_replacement.pop(row.replacement.uid, None)

    def _leave(self, row: MigrationRow) -> None:
        for index, key in self._keys(row):
            index[key].drop(row, self.version)
            if not index[key].uids:
                del index[key]

    def restore(self, rows: Iterable[MigrationRow]) -> None:
        """Take over table rows."""
        super().restore(sorted(rows, key=lambda row: row.sequence))

    def _keys(self, row: MigrationRow) -> Iterator[tuple[dict[str, MigrationGroup], str]]:
        yield self._at_node, row.source_node
        yield self._in_namespace, row.pod.namespace
        yield self._of_owner, row.owner
