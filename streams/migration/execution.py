"""Reserves room for migrations that have passed arbitration, and sends their eviction commands.

    Running ──▶ room reserved (ReservationFirst) ──▶ budget and rate allow it ──▶ command
                     ▲                                                              │
                     └──── back-off ◀──── refused, failed, no outcome ◀─────────────┘

A command may be carried out until its migration's deadline, so a migration has one command at a time.
A dry migration checks for the same room and takes the same tokens. It reserves no room, because pods
that are really placed need it.
"""

import json
from typing import Literal

from schemas.messages.commands import SOFT_EVICTION_ANNOTATION
from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from schemas.policy import OVERUTILIZATION_RISK, Policy
from schemas.policy.sections.migration import DeleteOptions
from streams.migration.lifecycle import MigrationLifecycle, command_id, condition
from streams.migration.registry import is_commanded
from streams.placement.pending import compute_backoff_ms
from streams.pods.held import HeldPod
from streams.stage.budget import Budget
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

EvictionPolicy = Literal["Eviction", "Delete", "SoftEviction"]
#: Label of a pod with the way to evict it.
EVICT_POLICY_LABEL = "koordinator.sh/evict-policy"
_POLICIES: dict[str, EvictionPolicy] = {
    "Eviction": "Eviction",
    "Delete": "Delete",
    "SoftEviction": "SoftEviction",
}
#: A dry command without an outcome counts as under way for this long.
DRY_LASTS_MS = 60_000
#: Gate of migrations for which no node has room.
UNSCHEDULABLE = "Unschedulable"
#: Most migrations that one tick executes: each may have to rank all nodes.
STEPS_PER_TICK_MAX = 400
#: Most commands that one tick sends, each with its reports and rows: a twentieth of a second.
COMMANDS_PER_TICK_MAX = 100


class Execution:
    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle
        self._commands = 0
        """Number of commands of this tick."""

    def run(self, cause: Cause) -> None:
        """Execute running migrations in the order in which they passed arbitration.

        If there are too many for one tick, some wait for a later tick.
        """
        ready = []
        for row in sorted(self.lifecycle.registry, key=lambda row: row.turn):
            if row.phase != "Running" or row.paused or row.retry_at_ms > cause.now_ms:
                continue
            if is_commanded(row):
                continue
            node_and_held = self.lifecycle.inventory.find_held(row.pod.uid)
            if node_and_held is None or node_and_held[0].state is None:
                continue
            # `tracking` ends a limited number of expired migrations per tick.
            if cause.now_ms < row.deadline_ms:
                ready.append((row, node_and_held[1]))
        self._commands = 0
        for index in Budget(STEPS_PER_TICK_MAX, cause.now_ms).choose([1] * len(ready)):
            self._execute(*ready[index], cause)
            if self._commands >= COMMANDS_PER_TICK_MAX:
                break

    def shorten_backoffs(self, policy: Policy) -> None:
        """Shorten back-offs to a policy's limit."""
        context, registry = self.lifecycle.inventory.context, self.lifecycle.registry
        if not context.begun:
            return
        for row in list(registry):
            if row.retry_at_ms <= context.now_ms:
                continue
            latest_ms = context.now_ms + compute_backoff_ms(policy, row.attempts)
            if row.retry_at_ms > latest_ms:
                registry.put(row.model_copy(update={"retry_at_ms": latest_ms}))

    def _execute(self, row: MigrationRow, held: HeldPod, cause: Cause) -> None:
        lifecycle = self.lifecycle
        protection = lifecycle.gates.protections.explain(held)
        if protection is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", protection)
            return
        closed = lifecycle.gates.check_windows(row.pod.namespace, cause.now_ms)
        if closed is not None and not row.ignore_windows:
            self._wait(row, "MaintenanceWindow", closed, cause)
            return
        if row.mode == "ReservationFirst":
            with_room = self._reserve(row, held.pod, cause)
            if with_room is None:
                return
            row = with_room
        replicas = lifecycle.workloads.find_replicas(held.pod)
        gate = lifecycle.gates.check_rates_and_budgets(
            held.pod, replicas, cause.now_ms, waiting_too=False
        )
        rate_limit = lifecycle.limiters.explain_rate(cause.now_ms)
        if gate is not None:
            self._wait(row, gate.name, gate.text, cause)
        elif rate_limit is not None:
            self._wait(row, "EvictQPS", rate_limit, cause)
        else:
            lifecycle.limiters.spend(held.pod, replicas, cause.now_ms)
            self._commands += 1
            self._command(row, held.pod, 1 if replicas is None else replicas.count, cause)

    def _wait(self, row: MigrationRow, gate: str, text: str, cause: Cause) -> None:
        if row.gate != gate:
            self.lifecycle.advance(row, cause, gate=gate, message=text)

    # --- room -------------------------------------------------------------------------------------

    def _reserve(self, row: MigrationRow, pod: Pod, cause: Cause) -> MigrationRow | None:
        """Reserve room for the replacement; return the changed migration, or None without room."""
        lifecycle, rooms, planned = self.lifecycle, self.lifecycle.rooms, row.target_node
        gate = lifecycle.gates.check_reservable(pod)
        if gate is not None:
            failed = condition(
                "ReservationCreated", False, cause, "FailedCreateReservation", gate.text
            )
            lifecycle.finish(row, cause, "Failed", "FailedCreateReservation", gate.text, failed)
            return None
        if rooms.is_lost(row):
            rooms.release(row)
            node = row.target_node
            row = lifecycle.advance(
                row, cause,
                condition("ReservationScheduled", False, cause, "MissingReservation",
                          f"the reservation on {node} is lost"),
                reserved=None, target_node=None,
            )  # fmt: skip
        dry = row.dry_run or lifecycle.policy.is_dry_for(row.trigger)
        if row.reserved is not None:
            if not dry:
                return row
            rooms.release(row)
            row = lifecycle.advance(row, cause, reserved=None)
        node = rooms.find_node(pod, row.source_node, row.target_node)
        if self._is_by_risk(row) and (node is None or node != planned):
            self._give_up(row, planned, cause)
            return None
        if node is None:
            text = f"no node besides {row.source_node} accepts the pod"
            lifecycle.advance(
                row, cause, condition("ReservationScheduled", False, cause, "Unschedulable", text),
                reason="Unschedulable", message=text, gate=UNSCHEDULABLE,
            )  # fmt: skip
            return None
        reserved = None if dry else rooms.reserve(pod, row, node, cause.now_ms)
        text = f"{'dry run: there is room' if dry else 'room is reserved'} on {node}"
        # A migration that waits at a later gate keeps the message of this gate.
        waits = row.gate not in ("", UNSCHEDULABLE)
        row = lifecycle.advance(
            row, cause, condition("ReservationCreated", True, cause, message=text),
            reserved=reserved, target_node=node, reason="", message=row.message if waits else text,
        )  # fmt: skip
        return lifecycle.advance(
            row, cause, condition("ReservationScheduled", True, cause, message=text)
        )

    def _is_by_risk(self, row: MigrationRow) -> bool:
        is_risk_round = row.trigger == "rebalance" and row.pool == OVERUTILIZATION_RISK
        return is_risk_round and self.lifecycle.policy.plugins.balances(OVERUTILIZATION_RISK)

    def _give_up(self, row: MigrationRow, planned: str | None, cause: Cause) -> None:
        """End a move by risk whose planned target refuses the pod; elsewhere it may gain nothing."""
        text = (
            f"{planned or 'the planned target'} no longer accepts the pod; the next round makes "
            "another plan"
        )
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
            "pod": pod.ref_fields,
            "node": row.source_node,
            "reason": row.cause or f"requested by a {row.trigger}",
            "dry_run": dry,
            "policy": policy,
            "decided_at_ms": cause.now_ms,
            "expires_at_ms": end_ms,
            "migration_id": row.migration_id,
            "attempt": attempt,
            "trigger": row.trigger,
            "retry_until_ms": row.deadline_ms,
            "annotations": {SOFT_EVICTION_ANNOTATION: _build_annotation(row, cause)}
            if soft
            else {},
            "as_of": cause.as_of,
            **_grace_period(args.default_delete_options),
        }
        lifecycle.budgets.charge(pod)
        lifecycle.messages.append(OutputMessage("eviction-commands", fields))
        if dry and row.attempts and not row.dry_run:
            lifecycle.record_became_dry(row)
        text = f"{'dry ' if dry else ''}eviction command {attempt} was sent"
        row = lifecycle.advance(
            row, cause, condition("Eviction", False, cause, "Evicting", text),
            reason="Evicting", message=text, gate="", attempts=attempt, command_dry=dry,
            command_id=command, command_expires_at_ms=end_ms, dry_run=dry,
        )  # fmt: skip
        lifecycle.record_command(row, replicas)


def _grace_period(options: DeleteOptions | None) -> dict[str, int]:
    seconds = options.grace_period_seconds if options else None
    return {} if seconds is None else {"grace_period_s": seconds}


def _build_annotation(row: MigrationRow, cause: Cause) -> str:
    """Return the annotation of a soft eviction; its time is log time, so that replays are equal."""
    annotation = {
        "timestamp": cause.now_ms // 1000,
        "initiator": "loadstream",
        "reason": row.cause,
    }
    return json.dumps(annotation, sort_keys=True)
