"""Where migrations are changed: one place, so that every change is in a row and reported once.

A report is published when a phase, a reason, a condition or a pause has changed, and when a waiting
migration begins to wait for something else.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

from schemas.base.message import EPOCH_MS_MAX
from schemas.messages.migrations import (
    Condition,
    ConditionType,
    Migration,
    MigrationRow,
    MigrationStateRow,
    Mode,
    Phase,
    Reason,
)
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.migration.gates.budgets import Budgets
from streams.migration.gates.checks import Gates
from streams.migration.gates.named import NamespaceRows, PriorityClasses
from streams.migration.gates.protections import Protections
from streams.migration.gates.rate_limits import Limiters
from streams.migration.gates.workloads import Workloads
from streams.migration.move_events import MoveEvents
from streams.migration.proposal import Proposal
from streams.migration.registry import Registry
from streams.migration.reservations import HeldRoom
from streams.stage.cause import Cause, reference
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows

_REPORTED = set(Migration.model_fields)
#: What is reported as soon as it changes.
_REPORTED_AT_ONCE = frozenset(
    ("phase", "reason", "paused", "conditions", "replacement", "command_id")
)
#: Steps whose words name the node with the room: they are others for another node.
_OF_ROOM = ("ReservationCreated", "ReservationScheduled")
#: What a migration waits for as it begins.
WAITS = "waiting for arbitration"
_TEXT_MAX = 2_000
#: Longest time that a migration may take, whatever it is given; 0, which upstream takes for no end,
#: too.
TTL_MAX_MS = 7 * 86_400_000


def migration_id(cause: Cause, uid: str) -> str:
    """Id of the migration of a pod that an input causes."""
    return f"m-{cause.decision_id(uid)}"


def command_id(row: MigrationRow, attempt: int) -> str:
    """Id of one of the commands of a migration."""
    text = f"{row.migration_id}\0{attempt}"
    return f"e-{blake2b(text.encode(), digest_size=12).hexdigest()}"


class MigrationLifecycle:
    """The migrations of one cluster, and everything that they depend on."""

    def __init__(
        self,
        cluster: str,
        inventory: Inventory,
        held_room: HeldRoom,
        move_events: MoveEvents,
    ) -> None:
        policy = inventory.policy
        self.cluster = cluster
        self.inventory = inventory
        self.held_room = held_room
        self.registry = Registry()
        self.workloads = Workloads(cluster, inventory.owners)
        self.budgets = Budgets(cluster)
        self.namespaces = NamespaceRows(cluster)
        self.classes = PriorityClasses(cluster)
        self.limiters = Limiters(cluster, policy)
        self.gates = Gates(
            inventory,
            self.registry,
            self.workloads,
            self.budgets,
            self.limiters,
            held_room,
            Protections(policy, self.namespaces, self.classes),
        )
        self.said: list[OutputMessage] = []
        """What is to be said, in order."""
        self._move_events = move_events
        self._events: list[Callable[[], None]] = []
        """What the memory of moves is to be told, in order."""
        self.progress = Progress(cluster)

    @property
    def policy(self) -> Policy:
        """By which pods leave."""
        return self.inventory.policy

    def set_policy(self, policy: Policy) -> None:
        """Decide by another policy."""
        self.limiters.set_policy(policy)
        self.gates.set_policy(policy)

    def take(self) -> list[OutputMessage]:
        """Return what is to be said since the last call, and tell the memory of moves.

        Told earlier, it would show in later steps of the same record.
        """
        said, self.said = self.said, []
        events, self._events = self._events, []
        for event in events:
            event()
        return said

    # --- a migration's life -----------------------------------------------------------------------

    def new(
        self, proposal: Proposal, mode: Mode, cause: Cause, *, phase: Phase = "Pending"
    ) -> MigrationRow:
        """A migration as it begins; it stands nowhere yet."""
        pod = proposal.pod
        ttl_ms = proposal.ttl_ms or self.policy.migration.default_job_ttl_ms or TTL_MAX_MS
        ttl_ms = min(ttl_ms, TTL_MAX_MS)
        return MigrationRow(
            cluster=self.cluster,
            migration_id=migration_id(cause, pod.uid),
            pod=reference(pod),
            source_node=proposal.node,
            target_node=proposal.target,
            mode=mode,
            phase=phase,
            trigger=proposal.trigger,
            cause=proposal.reason[:_TEXT_MAX],
            dry_run=proposal.dry_run or self.policy.is_dry_for(proposal.trigger),
            deadline_ms=min(cause.now_ms + ttl_ms, EPOCH_MS_MAX),
            created_at_ms=cause.now_ms,
            changed_at_ms=cause.now_ms,
            sequence=self.progress.created + 1,
            pool=proposal.pool,
            watched=proposal.watched,
            owner=pod.owner_key,
            ignore_windows=proposal.ignore_windows,
            ttl_ms=ttl_ms,
            source_hot_before=proposal.source_hot,
        )

    def create(self, proposal: Proposal, mode: Mode, cause: Cause) -> MigrationRow:
        """Take in a migration, which waits for arbitration."""
        row = self.new(proposal, mode, cause).model_copy(update={"message": WAITS})
        self.progress.created += 1
        self.progress.note()
        self.registry.put(row)
        self.report(row, cause)
        return row

    def advance(
        self,
        row: MigrationRow,
        cause: Cause,
        *steps: Condition | None,
        **fields: Any,
    ) -> MigrationRow:
        """Change a migration, and how its steps stand.

        Report it if its phase, reason, pause, a condition or its gate is another one now.
        """
        conditions = row.conditions
        for step in steps:
            conditions = _with(conditions, step)
        if "message" in fields:
            fields["message"] = fields["message"][:_TEXT_MAX]
        changed = {name: value for name, value in fields.items() if getattr(row, name) != value}
        if conditions is not row.conditions:
            changed["conditions"] = conditions
        if not changed:
            return row
        news = not _REPORTED_AT_ONCE.isdisjoint(changed)
        if news:
            changed["changed_at_ms"] = cause.now_ms
        after = row.model_copy(update=changed)
        self.registry.put(after)
        if news or changed.get("gate"):
            self.report(after, cause)
        if "conditions" in changed and _evicted(after) and not _evicted(row):
            self._events.append(partial(self._move_events.evicted, after, _eviction_ms(row)))
        return after

    def commanded(self, row: MigrationRow, replicas: int) -> None:
        """A command of a migration is out; its owner has this many pods."""
        self._events.append(partial(self._move_events.commanded, row, replicas))

    def finish(
        self,
        row: MigrationRow,
        cause: Cause,
        phase: Phase,
        reason: Reason,
        message: str,
        condition: Condition | None = None,
    ) -> None:
        """End a migration; it is forgotten when none of its commands can still be carried out."""
        self.held_room.give_back(row)
        after = self.advance(
            row, cause, condition,
            phase=phase, reason=reason, message=message, reserved=None, gate="", paused=False,
        )  # fmt: skip
        if after.command_expires_at_ms is None:
            self.forget(after)

    def turns_dry(self, row: MigrationRow) -> None:
        """After a command that was meant, a migration is only taken note of."""
        found = self.inventory.held(row.pod.uid)
        replicas = None if found is None else self.workloads.of(found[1].pod)
        count = 1 if replicas is None else replicas.count
        self._events.append(partial(self._move_events.turned_dry, row, count))

    def forget(self, row: MigrationRow) -> None:
        """A migration can have no further effect."""
        if row.attempts and not _evicted(row):
            if row.evicted_at_ms is None:
                self._events.append(partial(self._move_events.abandoned, row))
            else:
                self._events.append(partial(self._move_events.evicted, row, _eviction_ms(row)))
        self.budgets.discharge(row.pod.uid, gone=row.evicted_at_ms is not None)
        self.registry.forget(row)

    def report(self, row: MigrationRow, cause: Cause) -> None:
        """Report the state of a migration."""
        fields = row.model_dump(include=_REPORTED, exclude_none=True)
        fields |= {
            "schema_version": 1,
            "kind": "migration",
            "message": row.message[:_TEXT_MAX],
            "happened_at_ms": cause.now_ms,
            "as_of": cause.as_of,
        }
        self.said.append(OutputMessage("status", fields))


def condition(
    of: ConditionType, status: bool, cause: Cause, reason: Reason = "", message: str = ""
) -> Condition:
    """How a step stands now."""
    return Condition(
        type=of,
        status=status,
        reason=reason,
        message=message[:_TEXT_MAX],
        changed_at_ms=cause.now_ms,
    )


def _eviction_ms(row: MigrationRow) -> int:
    """When the newest command left, of a pod that is not known to be gone."""
    times = [each.changed_at_ms for each in row.conditions if each.type == "Eviction"]
    return times[0] if times else row.created_at_ms


def _evicted(row: MigrationRow) -> bool:
    return any(each.type == "Eviction" and each.status for each in row.conditions)


def _with(conditions: tuple[Condition, ...], new: Condition | None) -> tuple[Condition, ...]:
    """Conditions with one of them as it is now; one that says the same keeps its time and words."""
    if new is None:
        return conditions
    for index, old in enumerate(conditions):
        if old.type == new.type:
            same = (old.status, old.reason) == (new.status, new.reason)
            if same and (old.message == new.message or new.type not in _OF_ROOM):
                return conditions
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)


class Progress(TrackedRows[str, MigrationStateRow]):
    """One row; it is the cluster's own, so its key is empty."""

    def __init__(self, cluster: str) -> None:
        super().__init__("migration_state")
        self.cluster = cluster
        self.arbitrated_at_ms = 0
        """The log's time at which arbitration ran last."""
        self.created = 0
        """How many migrations have been created."""
        self.passed = 0
        """How many have passed arbitration."""

    def note(self) -> None:
        """Something of it has changed."""
        self.changed[""] = None

    def row(self, key: str) -> MigrationStateRow:
        """The row as it is now."""
        return MigrationStateRow(
            cluster=self.cluster,
            arbitrated_at_ms=self.arbitrated_at_ms,
            created=self.created,
            passed=self.passed,
        )

    def take(self, row: MigrationStateRow) -> None:
        """Take over the row as it was written."""
        self.arbitrated_at_ms = row.arbitrated_at_ms
        self.created, self.passed = row.created, row.passed
