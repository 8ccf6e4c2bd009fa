"""Changes and reports migrations. All changes are made here, so each change is stored and reported once.

A migration is reported when its phase, reason, conditions or pause change, and when a waiting migration
begins to wait at another gate.
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
from schemas.messages.pods import PodRef
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.migration.checks import Gates
from streams.migration.limits.budgets import Budgets
from streams.migration.limits.objects import NamespaceRows, PriorityClasses
from streams.migration.limits.rate_limits import Limiters
from streams.migration.limits.workloads import Workloads
from streams.migration.move_events import MoveEvents
from streams.migration.protections import Protections
from streams.migration.registry import Proposal, Registry
from streams.migration.replacement_rooms import ReplacementRooms
from streams.rebalance.candidates import Gate
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows

_REPORTED_FIELDS = set(Migration.model_fields)
#: Fields whose changes are reported.
_REPORTED_CHANGES = frozenset(
    ("phase", "reason", "paused", "conditions", "replacement", "command_id")
)
#: Conditions that change when their message changes, because it names the reserved node.
_ROOM_CONDITIONS = ("ReservationCreated", "ReservationScheduled")
WAITING_MESSAGE = "waiting for arbitration"
_TEXT_MAX = 2_000
#: Longest time that a migration may take. It also replaces 0, which means no deadline upstream.
TTL_MAX_MS = 7 * 86_400_000


def compute_command_id(row: MigrationRow, attempt: int) -> str:
    text = f"{row.migration_id}\0{attempt}"
    return f"e-{blake2b(text.encode(), digest_size=12).hexdigest()}"


class MigrationLifecycle:
    """The migrations of one cluster, with the state that they depend on."""

    def __init__(
        self,
        cluster: str,
        inventory: Inventory,
        rooms: ReplacementRooms,
        move_events: MoveEvents,
    ) -> None:
        policy = inventory.policy
        self.cluster = cluster
        self.inventory = inventory
        self.rooms = rooms
        self.registry = Registry()
        self.workloads = Workloads(cluster, inventory)
        self.budgets = Budgets(cluster)
        self.namespaces = NamespaceRows(cluster)
        self.classes = PriorityClasses(cluster)
        self.limiters = Limiters(cluster, inventory, self.registry)
        self.gates = Gates(
            inventory,
            self.registry,
            self.workloads,
            self.budgets,
            self.limiters,
            rooms,
            Protections(policy, self.namespaces, self.classes),
        )
        self.messages: list[OutputMessage] = []
        """Messages to publish, in order."""
        self._move_events = move_events
        self._events: list[Callable[[], None]] = []
        """Calls of `move_events`, which `take_messages` makes after the record is applied."""
        self.counts = MigrationCounts(cluster)

    @property
    def policy(self) -> Policy:
        return self.inventory.policy

    def take_messages(self) -> list[OutputMessage]:
        """Return the messages since the last call, and update the history of moves.

        The history is updated last, so that it does not affect later steps of the same record.
        """
        messages, self.messages = self.messages, []
        events, self._events = self._events, []
        for event in events:
            event()
        return messages

    # --- changes ----------------------------------------------------------------------------------

    def build_row(
        self, proposal: Proposal, mode: Mode, cause: Cause, *, phase: Phase = "Pending"
    ) -> MigrationRow:
        """Return the row of a new migration, without storing it."""
        pod = proposal.pod
        ttl_ms = proposal.ttl_ms or self.policy.migration.default_job_ttl_ms or TTL_MAX_MS
        ttl_ms = min(ttl_ms, TTL_MAX_MS)
        return MigrationRow(
            cluster=self.cluster,
            migration_id=f"m-{cause.build_decision_id(pod.uid)}",
            pod=PodRef(**pod.ref_fields),
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
            sequence=self.counts.created + 1,
            pool=proposal.pool,
            watched=proposal.watched,
            owner=pod.owner_key,
            ignore_windows=proposal.ignore_windows,
            ttl_ms=ttl_ms,
            source_hot_before=proposal.source_hot,
        )

    def create(self, proposal: Proposal, mode: Mode, cause: Cause) -> MigrationRow:
        """Store and report a new migration, which waits for arbitration."""
        row = self.build_row(proposal, mode, cause).model_copy(update={"message": WAITING_MESSAGE})
        self.counts.created += 1
        self.counts.mark_changed()
        self.registry.put(row)
        self.report(row, cause)
        return row

    def advance(
        self,
        row: MigrationRow,
        cause: Cause,
        *new_conditions: Condition | None,
        **fields: Any,
    ) -> MigrationRow:
        """Change fields and conditions of a migration, and report the migration if necessary."""
        conditions = row.conditions
        for new in new_conditions:
            conditions = _replace_condition(conditions, new)
        if "message" in fields:
            fields["message"] = fields["message"][:_TEXT_MAX]
        changed = {name: value for name, value in fields.items() if getattr(row, name) != value}
        if conditions is not row.conditions:
            changed["conditions"] = conditions
        if not changed:
            return row
        is_reported = not _REPORTED_CHANGES.isdisjoint(changed)
        if is_reported:
            changed["changed_at_ms"] = cause.now_ms
        after = row.model_copy(update=changed)
        self.registry.put(after)
        if is_reported or changed.get("gate"):
            self.report(after, cause)
        if "conditions" in changed and is_evicted(after) and not is_evicted(row):
            self._events.append(
                partial(self._move_events.record_eviction, after, _get_command_ms(row))
            )
        return after

    def record_gate(self, row: MigrationRow, gate: Gate, cause: Cause) -> None:
        """Note the gate that delays a migration, and report it if it is another gate than before."""
        # Numbers in the text change often; the row is written only when the gate changes.
        if gate.name != row.gate:
            self.advance(row, cause, gate=gate.name, message=gate.text)

    def record_command(self, row: MigrationRow, replicas: int) -> None:
        self._events.append(partial(self._move_events.record_command, row, replicas))

    def finish(
        self,
        row: MigrationRow,
        cause: Cause,
        phase: Phase,
        reason: Reason,
        message: str,
        condition: Condition | None = None,
    ) -> None:
        """End a migration. It stays in the registry while its command may still be executed."""
        self.rooms.release(row)
        after = self.advance(
            row, cause, condition,
            phase=phase, reason=reason, message=message, reserved=None, gate="", paused=False,
        )  # fmt: skip
        if after.command_expires_at_ms is None:
            self.forget(after)

    def record_became_dry(self, row: MigrationRow) -> None:
        """Record that a migration became dry after a command that was not dry."""
        node_and_held = self.inventory.find_held(row.pod.uid)
        replicas = node_and_held and self.workloads.find_replicas(node_and_held[1].pod)
        count = 1 if replicas is None else replicas.count
        self._events.append(partial(self._move_events.record_became_dry, row, count))

    def forget(self, row: MigrationRow) -> None:
        """Remove a migration that can have no further effect."""
        if row.attempts and not is_evicted(row):
            if row.evicted_at_ms is None:
                self._events.append(partial(self._move_events.record_stay, row))
            else:
                self._events.append(
                    partial(self._move_events.record_eviction, row, _get_command_ms(row))
                )
        self.budgets.discharge(row.pod.uid, gone=row.evicted_at_ms is not None)
        self.registry.forget(row)

    def report(self, row: MigrationRow, cause: Cause) -> None:
        fields = row.model_dump(include=_REPORTED_FIELDS, exclude_none=True)
        fields |= {
            "schema_version": 1,
            "kind": "migration",
            "message": row.message[:_TEXT_MAX],
            "happened_at_ms": cause.now_ms,
            "as_of": cause.as_of,
        }
        self.messages.append(OutputMessage("status", fields))


def build_condition(
    kind: ConditionType, status: bool, cause: Cause, reason: Reason = "", message: str = ""
) -> Condition:
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message[:_TEXT_MAX],
        changed_at_ms=cause.now_ms,
    )


def _get_command_ms(row: MigrationRow) -> int:
    """Return the time of the last command of a migration whose pod is not known to be gone."""
    times = [item.changed_at_ms for item in row.conditions if item.type == "Eviction"]
    return times[0] if times else row.created_at_ms


def is_evicted(row: MigrationRow) -> bool:
    return any(item.type == "Eviction" and item.status for item in row.conditions)


def _replace_condition(
    conditions: tuple[Condition, ...], new: Condition | None
) -> tuple[Condition, ...]:
    """Set a condition. A condition with the same status and reason keeps its time and message."""
    if new is None:
        return conditions
    for index, old in enumerate(conditions):
        if old.type == new.type:
            is_same = (old.status, old.reason) == (new.status, new.reason)
            if is_same and (old.message == new.message or new.type not in _ROOM_CONDITIONS):
                return conditions
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)


class MigrationCounts(TrackedRows[str, MigrationStateRow]):
    """Counters of one cluster, in a single row with an empty key."""

    def __init__(self, cluster: str) -> None:
        super().__init__("migration_state")
        self.cluster = cluster
        self.arbitrated_at_ms = 0
        """Log time of the last arbitration."""
        self.created = 0
        self.passed = 0
        """Number of migrations that passed arbitration."""

    def mark_changed(self) -> None:
        self.changed[""] = None

    def build_row(self, key: str) -> MigrationStateRow:
        return MigrationStateRow(
            cluster=self.cluster,
            arbitrated_at_ms=self.arbitrated_at_ms,
            created=self.created,
            passed=self.passed,
        )

    def restore_row(self, row: MigrationStateRow) -> None:
        self.arbitrated_at_ms = row.arbitrated_at_ms
        self.created, self.passed = row.created, row.passed
