"""From a migration that may begin to its eviction command, and to another one if that failed.

    Running ──▶ room held (ReservationFirst) ──▶ budget and rate allow it ──▶ command
                     ▲                                                          │
                     └──── back-off ◀── refused, failed, not carried out ◀──────┘

A command may be carried out until its migration's deadline, so a migration has one command at a
time. A dry migration asks for the same room and takes the same tokens; it holds no room, because
pods that are really placed need it.
"""

import json
from typing import Any, Literal

from schemas.messages.evictions import SOFT_EVICTION_ANNOTATION
from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from schemas.policy import OVERUTILIZATION_RISK, Policy
from schemas.policy.sections.migration import DeleteOptions
from streams.migration.lifecycle import MigrationLifecycle, command_id, condition
from streams.migration.registry import commanded
from streams.placement.pending import backoff_ms
from streams.pods.held import Held
from streams.stage.budget import Budget
from streams.stage.cause import Cause, reference_fields
from streams.stage.records import OutputMessage

EvictionPolicy = Literal["Eviction", "Delete", "SoftEviction"]
#: Label of a pod that says how it is to be evicted.
EVICT_POLICY_LABEL = "koordinator.sh/evict-policy"
_POLICIES: dict[str, EvictionPolicy] = {
    "Eviction": "Eviction",
    "Delete": "Delete",
    "SoftEviction": "SoftEviction",
}
#: A dry command counts as under way for this long if its outcome is not reported.
DRY_LASTS_MS = 60_000
#: Gate of migrations for which no node has room.
UNSCHEDULABLE = "Unschedulable"
#: Most migrations that one tick tries to take further: each may ask all nodes for room.
STEPS_PER_TICK_MAX = 400
#: Most commands that one tick decides, each with its reports and rows: a twentieth of a second.
COMMANDS_PER_TICK_MAX = 100


class Execution:
    """Carries out the migrations of a cluster."""

    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle
        self._commands = 0
        """Commands of this tick."""

    def run(self, cause: Cause) -> None:
        """Take every migration that has begun as far as it may go now, in the order of its passing.

        Where there are too many for one tick, the budget chooses.
        """
        ready = []
        for row in sorted(self.lifecycle.registry, key=lambda row: row.turn):
            if row.phase != "Running" or row.paused or row.retry_at_ms > cause.now_ms:
                continue
            if commanded(row):
                continue
            found = self.lifecycle.inventory.held(row.pod.uid)
            # What is over may have to wait for a later tick to end.
            if found is not None and found[0].state is not None and cause.now_ms < row.deadline_ms:
                ready.append((row, found[1]))
        self._commands = 0
        for place in Budget(STEPS_PER_TICK_MAX, cause.now_ms).choose([1] * len(ready)):
            self._step(*ready[place], cause)
            if self._commands >= COMMANDS_PER_TICK_MAX:
                break

    def shorten_backoffs(self, policy: Policy) -> None:
        """No command waits for longer than a policy says from now on."""
        context, registry = self.lifecycle.inventory.context, self.lifecycle.registry
        if not context.begun:
            return
        for row in list(registry):
            if row.retry_at_ms <= context.now_ms:
                continue
            latest_ms = context.now_ms + backoff_ms(policy, row.attempts)
            if row.retry_at_ms > latest_ms:
                registry.put(row.model_copy(update={"retry_at_ms": latest_ms}))

    def _step(self, row: MigrationRow, held: Held, cause: Cause) -> None:
        lifecycle = self.lifecycle
        why = lifecycle.gates.protections.verdict(held)
        if why is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", why)
            return
        closed = lifecycle.gates.closed(row.pool, row.source_node, row.pod.namespace, cause.now_ms)
        if closed is not None and not row.ignore_windows:
            self._wait(row, "MaintenanceWindow", closed, cause)
            return
        if row.mode == "ReservationFirst":
            with_room = self._reserve(row, held.pod, cause)
            if with_room is None:
                return
            row = with_room
        replicas = lifecycle.workloads.of(held.pod)
        gate = lifecycle.gates.exhausted(held.pod, replicas, cause.now_ms, waiting_too=False)
        too_fast = lifecycle.limiters.too_fast(cause.now_ms)
        if gate is not None:
            self._wait(row, gate.name, gate.text, cause)
        elif too_fast is not None:
            self._wait(row, "EvictQPS", too_fast, cause)
        else:
            lifecycle.limiters.spend(held.pod, replicas, cause.now_ms)
            self._commands += 1
            self._command(row, held.pod, 1 if replicas is None else replicas.count, cause)

    def _wait(self, row: MigrationRow, gate: str, text: str, cause: Cause) -> None:
        if row.gate != gate:
            self.lifecycle.advance(row, cause, gate=gate, message=text)

    # --- room -------------------------------------------------------------------------------------

    def _reserve(self, row: MigrationRow, pod: Pod, cause: Cause) -> MigrationRow | None:
        """The migration with room for its replacement; None: there is none."""
        lifecycle, held_room, planned = self.lifecycle, self.lifecycle.held_room, row.target_node
        never = lifecycle.gates.unreservable(pod)
        if never is not None:
            failed = condition(
                "ReservationCreated", False, cause, "FailedCreateReservation", never.text
            )
            lifecycle.finish(row, cause, "Failed", "FailedCreateReservation", never.text, failed)
            return None
        if held_room.lost(row):
            held_room.give_back(row)
            node = row.target_node
            row = lifecycle.advance(
                row, cause,
                condition("ReservationScheduled", False, cause, "MissingReservation",
                          f"the room on {node} is lost"),
                reserved=None, target_node=None,
            )  # fmt: skip
        dry = row.dry_run or lifecycle.policy.is_dry_for(row.trigger)
        if row.reserved is not None:
            if not dry:
                return row
            held_room.give_back(row)
            row = lifecycle.advance(row, cause, reserved=None)
        node = held_room.find(pod, row.source_node, row.target_node)
        if self._by_risk(row) and (node is None or node != planned):
            self._give_up(row, planned, cause)
            return None
        if node is None:
            text = f"no node but {row.source_node} takes the pod"
            lifecycle.advance(
                row, cause, condition("ReservationScheduled", False, cause, "Unschedulable", text),
                reason="Unschedulable", message=text, gate=UNSCHEDULABLE,
            )  # fmt: skip
            return None
        reserved = None if dry else held_room.hold(pod, row, node, cause.now_ms)
        text = f"{'dry: there is room' if dry else 'room is held'} on {node}"
        # What waits with room, as a dry one does without, goes on saying what it waits for.
        waits = row.gate not in ("", UNSCHEDULABLE)
        row = lifecycle.advance(
            row, cause, condition("ReservationCreated", True, cause, message=text),
            reserved=reserved, target_node=node, reason="", message=row.message if waits else text,
        )  # fmt: skip
        return lifecycle.advance(
            row, cause, condition("ReservationScheduled", True, cause, message=text)
        )

    def _by_risk(self, row: MigrationRow) -> bool:
        """A round wanted it for what the move to its target gains."""
        named = row.trigger == "rebalance" and row.pool == OVERUTILIZATION_RISK
        return named and self.lifecycle.policy.plugins.balances(OVERUTILIZATION_RISK)

    def _give_up(self, row: MigrationRow, planned: str | None, cause: Cause) -> None:
        """End a move by risk whose planned target does not take the pod: it was wanted for what it
        gains there, and somewhere else it may gain nothing."""
        text = f"{planned or 'its planned target'} does not take the pod any more; the next round plans anew"
        failed = condition("ReservationScheduled", False, cause, "Unschedulable", text)
        self.lifecycle.finish(row, cause, "Failed", "Unschedulable", text, failed)

    # --- commands ---------------------------------------------------------------------------------

    def _command(self, row: MigrationRow, pod: Pod, replicas: int, cause: Cause) -> None:
        lifecycle = self.lifecycle
        args = lifecycle.policy.migration
        attempt = row.attempts + 1
        dry = row.dry_run or lifecycle.policy.is_dry_for(row.trigger)
        end_ms = min(row.deadline_ms, cause.now_ms + DRY_LASTS_MS) if dry else row.deadline_ms
        policy = _POLICIES.get(pod.labels.get(EVICT_POLICY_LABEL, ""), args.eviction_policy)
        soft = policy == "SoftEviction"
        command = command_id(row, attempt)
        fields = {
            "schema_version": 1,
            "command_id": command,
            "cluster": lifecycle.cluster,
            "pod": reference_fields(pod),
            "node": row.source_node,
            "reason": row.cause or f"asked for by a {row.trigger}",
            "dry_run": dry,
            "policy": policy,
            "decided_at_ms": cause.now_ms,
            "expires_at_ms": end_ms,
            "migration_id": row.migration_id,
            "attempt": attempt,
            "trigger": row.trigger,
            "retry_until_ms": row.deadline_ms,
            "annotations": {SOFT_EVICTION_ANNOTATION: _soft(row, cause)} if soft else {},
            "as_of": cause.as_of,
            **_delete_options(args.default_delete_options),
        }
        lifecycle.budgets.charge(pod)
        lifecycle.said.append(OutputMessage("eviction-commands", fields))
        if dry and row.attempts and not row.dry_run:
            lifecycle.turns_dry(row)
        text = f"{'dry ' if dry else ''}command {attempt} is out"
        row = lifecycle.advance(
            row, cause, condition("Eviction", False, cause, "Evicting", text),
            reason="Evicting", message=text, gate="", attempts=attempt, command_dry=dry,
            command_id=command, command_expires_at_ms=end_ms, dry_run=dry,
        )  # fmt: skip
        lifecycle.commanded(row, replicas)


def _delete_options(given: DeleteOptions | None) -> dict[str, Any]:
    """What a command says of the policy's options."""
    if given is None:
        return {}
    preconditions = given.preconditions
    options = {
        "propagation_policy": given.propagation_policy,
        "orphan_dependents": given.orphan_dependents,
        "resource_version": None if preconditions is None else preconditions.resource_version,
        "server_dry_run": bool(given.dry_run),
        "ignore_store_read_error": given.ignore_store_read_error_with_cluster_breaking_potential,
    }
    fields = {
        "grace_period_s": given.grace_period_seconds,
        "delete_options": _without_none(options),
    }
    return _without_none(fields)


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _soft(row: MigrationRow, cause: Cause) -> str:
    """What the annotation of a soft eviction says; no wall clock, so a replay says the same."""
    annotation = {
        "timestamp": cause.now_ms // 1000,
        "initiator": "loadstream",
        "reason": row.cause,
    }
    return json.dumps(annotation, sort_keys=True)
