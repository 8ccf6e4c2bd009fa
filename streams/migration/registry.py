"""The migrations of a cluster as rows, their groups for limits, and proposals of migrations.

A pod has at most one migration. A migration that has ended stays in the registry while its command may still
be executed: the pod must not get another command, and the migration counts for limits. Groups are updated
with each row, so the cost of a limit does not grow with the number of migrations.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from schemas.messages.migrations import LIVE, MigrationRow, Mode, Trigger, Watched
from schemas.messages.pods import Pod
from streams.stage.tracked_rows import TrackedRows

#: Most migrations of a cluster at a time.
MIGRATIONS_MAX = 2_000


def is_live(row: MigrationRow) -> bool:
    return row.phase in LIVE


def is_moving(row: MigrationRow) -> bool:
    """Whether the migration has passed arbitration, or its command may still be executed."""
    return row.phase != "Pending"


def is_commanded(row: MigrationRow) -> bool:
    """Whether a command may still be executed, or the pod was evicted."""
    return row.command_expires_at_ms is not None or row.evicted_at_ms is not None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A pod that a round, a user or a drain wants to move."""

    pod: Pod
    node: str
    reason: str
    trigger: Trigger
    pool: str = ""
    """Node pool of the round that proposes the move."""
    target: str | None = None
    watched: Watched = "node"
    mode: Mode | None = None
    """None for the policy's default."""
    ttl_ms: int | None = None
    """Time until the deadline; None for the policy's default."""
    ignore_windows: bool = False
    source_hot: bool = False
    """Whether the source node is above its high thresholds."""
    dry_run: bool = False
    """Whether the migration is dry even if the policy's evictions are not dry."""


@dataclass(slots=True)
class MigrationGroup:
    """Pods that migrate in the cluster, from a node, in a namespace, or of an owner: their uids."""

    pods: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)
    """Pods for whose migration `is_moving` is true."""
    without_command: set[str] = field(default_factory=set)

    def put(self, row: MigrationRow) -> None:
        self.drop(row.pod.uid)
        self.pods.add(row.pod.uid)
        if is_moving(row):
            self.moving.add(row.pod.uid)
        if not row.attempts:
            self.without_command.add(row.pod.uid)

    def drop(self, uid: str) -> None:
        for uids in (self.pods, self.moving, self.without_command):
            uids.discard(uid)

    def select(self, *, include_waiting: bool) -> set[str]:
        """Return all pods, or those whose migration is moving."""
        return self.pods if include_waiting else self.moving

    def count_others(self, uid: str, *, include_waiting: bool) -> int:
        """Return the number of selected pods without one."""
        return count_others(self.select(include_waiting=include_waiting), uid)


def count_others(uids: Collection[str], uid: str) -> int:
    return len(uids) - (uid in uids)


_EMPTY = MigrationGroup()


class Registry(TrackedRows[str, MigrationRow]):
    """The migrations of a cluster by their ids, in the order of their creation."""

    def __init__(self) -> None:
        super().__init__("migrations", lambda row: row.migration_id)
        self._by_pod: dict[str, str] = {}
        self._by_node: dict[str, MigrationGroup] = {}
        self._by_namespace: dict[str, MigrationGroup] = {}
        self._by_owner: dict[str, MigrationGroup] = {}
        self._by_replacement: dict[str, str] = {}
        self.all = MigrationGroup()
        self.version = 0
        """Grows with every change."""

    def __iter__(self) -> Iterator[MigrationRow]:
        """Iterate in the order of creation; the registry may change meanwhile."""
        return iter(list(self.rows.values()))

    def get(self, migration_id: str) -> MigrationRow | None:
        return self.rows.get(migration_id)

    def find_by_pod(self, uid: str) -> MigrationRow | None:
        return self.rows.get(self._by_pod.get(uid, ""))

    def find_by_replacement(self, uid: str) -> MigrationRow | None:
        """Return the migration in which the pod is the replacement."""
        return self.rows.get(self._by_replacement.get(uid, ""))

    def list_by_node(self, name: str) -> list[MigrationRow]:
        """Return the migrations from a node, in the order of creation."""
        return self._list_rows(self.get_node_group(name))

    def list_by_owner(self, owner: str) -> list[MigrationRow]:
        """Return the migrations of an owner's pods, in the order of creation."""
        return self._list_rows(self.get_owner_group(owner))

    def get_node_group(self, name: str) -> MigrationGroup:
        return self._by_node.get(name, _EMPTY)

    def get_namespace_group(self, namespace: str) -> MigrationGroup:
        return self._by_namespace.get(namespace, _EMPTY)

    def get_owner_group(self, owner: str) -> MigrationGroup:
        return self._by_owner.get(owner, _EMPTY)

    def _list_rows(self, group: MigrationGroup) -> list[MigrationRow]:
        rows = (self.rows[self._by_pod[uid]] for uid in group.pods)
        return sorted(rows, key=lambda row: row.sequence)

    def put(self, row: MigrationRow) -> None:
        before = self.rows.get(row.migration_id)
        super().put(row)
        self.version += 1
        self.all.put(row)
        if before is not None and before.owner != row.owner:
            self._leave_groups(before)
        for index, key in self._list_group_keys(row):
            index.setdefault(key, MigrationGroup()).put(row)
        if before is None:
            self._by_pod[row.pod.uid] = row.migration_id
        elif before.replacement is not None and before.replacement != row.replacement:
            self._by_replacement.pop(before.replacement.uid, None)
        if row.replacement is not None:
            self._by_replacement[row.replacement.uid] = row.migration_id

    def forget(self, row: MigrationRow) -> None:
        self.all.drop(row.pod.uid)
        self.drop(row.migration_id)
        self.version += 1
        self._leave_groups(row)
        del self._by_pod[row.pod.uid]
        if row.replacement is not None:
            self._by_replacement.pop(row.replacement.uid, None)

    def _leave_groups(self, row: MigrationRow) -> None:
        for index, key in self._list_group_keys(row):
            index[key].drop(row.pod.uid)
            if not index[key].pods:
                del index[key]

    def restore(self, rows: Iterable[MigrationRow]) -> None:
        super().restore(sorted(rows, key=lambda row: row.sequence))

    def _list_group_keys(self, row: MigrationRow) -> list[tuple[dict[str, MigrationGroup], str]]:
        return [
            (self._by_node, row.source_node),
            (self._by_namespace, row.pod.namespace),
            (self._by_owner, row.owner),
        ]
