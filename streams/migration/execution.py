"""Reserves room for migrations that have passed arbitration, and sends their eviction commands.

    Running ──▶ room reserved (ReservationFirst) ──▶ budget and rate allow it ──▶ command
                     ▲                                                              │
                     └──── back-off ◀──── refused, failed, no outcome ◀─────────────┘

An evictor may execute a command until the deadline of the migration, so a migration has at most one command
at a time. A dry migration looks for room and takes tokens like others. It reserves no room, because pods that
are really placed need the room.
"""

import json

from schemas.messages.commands import SOFT_EVICTION_ANNOTATION
from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from schemas.policy import OVERUTILIZATION_RISK, Policy
from schemas.policy.sections.migration import DeleteOptions
from streams.migration.lifecycle import MigrationLifecycle, build_condition, compute_command_id
from streams.migration.registry import is_commanded
from streams.placement.pending import compute_backoff_ms
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate
from streams.stage.budget import Budget
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Pod label that selects how the pod is evicted.
EVICT_POLICY_LABEL = "koordinator.sh/evict-policy"
_POLICIES = ("Eviction", "Delete", "SoftEviction")
#: A dry command expires after this time, if no outcome is reported.
DRY_COMMAND_MS = 60_000
#: Gate of migrations for which no node has room.
UNSCHEDULABLE = "Unschedulable"
#: Most migrations that one tick executes. Each may have to rank all nodes.
EXECUTED_PER_TICK_MAX = 400
#: Most commands that one tick sends, which takes a twentieth of a second with their reports and rows.
COMMANDS_PER_TICK_MAX = 100


class Execution:
    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle
        self._commands = 0
        """Number of commands that this tick has sent."""

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
        for index in Budget(EXECUTED_PER_TICK_MAX, cause.now_ms).choose([1] * len(ready)):
            self._execute(*ready[index], cause)
            if self._commands >= COMMANDS_PER_TICK_MAX:
                break

    def shorten_backoffs(self, policy: Policy) -> None:
        """Shorten back-offs to the limit of a policy."""
        inventory, registry = self.lifecycle.inventory, self.lifecycle.registry
        if not inventory.has_time:
            return
        for row in list(registry):
            if row.retry_at_ms <= inventory.now_ms:
                continue
            latest_ms = inventory.now_ms + compute_backoff_ms(policy, row.attempts)
            if row.retry_at_ms > latest_ms:
                registry.put(row.model_copy(update={"retry_at_ms": latest_ms}))

    def _execute(self, row: MigrationRow, held: HeldPod, cause: Cause) -> None:
        lifecycle = self.lifecycle
        protection = lifecycle.gates.protections.explain(held)
        if protection is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", protection)
            return
        gate = lifecycle.gates.check_windows(row.pod.namespace, cause.now_ms)
        if gate is not None and not row.ignore_windows:
            lifecycle.record_gate(row, gate, cause)
            return
        if row.mode == "ReservationFirst":
            row_with_room = self._reserve(row, held.pod, cause)
            if row_with_room is None:
                return
            row = row_with_room
        replicas = lifecycle.workloads.find_replicas(held.pod)
        gate = lifecycle.gates.check_rates_and_budgets(
            held.pod, replicas, cause.now_ms, include_waiting=False
        )
        rate_limit = lifecycle.limiters.explain_rate(cause.now_ms)
        if gate is not None:
            lifecycle.record_gate(row, gate, cause)
        elif rate_limit is not None:
            lifecycle.record_gate(row, Gate("EvictQPS", rate_limit), cause)
        else:
            lifecycle.limiters.spend(held.pod, replicas, cause.now_ms)
            self._commands += 1
            self._send_command(row, held.pod, 1 if replicas is None else replicas.count, cause)

    # --- room -------------------------------------------------------------------------------------

    def _reserve(self, row: MigrationRow, pod: Pod, cause: Cause) -> MigrationRow | None:
        """Reserve room for the replacement; return the changed migration, or None without room."""
        lifecycle, rooms, planned = self.lifecycle, self.lifecycle.rooms, row.target_node
        gate = lifecycle.gates.check_reservable(pod)
        if gate is not None:
            failed = build_condition(
                "ReservationCreated", False, cause, "FailedCreateReservation", gate.text
            )
            lifecycle.finish(row, cause, "Failed", "FailedCreateReservation", gate.text, failed)
            return None
        if rooms.is_lost(row):
            rooms.release(row)
            node = row.target_node
            row = lifecycle.advance(
                row, cause,
                build_condition("ReservationScheduled", False, cause, "MissingReservation",
                          f"the reservation on {node} is lost"),
                reserved=None, target_node=None,
            )  # fmt: skip
        is_dry = row.dry_run or lifecycle.policy.is_dry_for(row.trigger)
        if row.reserved is not None:
            if not is_dry:
                return row
            rooms.release(row)
            row = lifecycle.advance(row, cause, reserved=None)
        node = rooms.find_node(pod, row.source_node, row.target_node)
        if self._is_by_risk(row) and (node is None or node != planned):
            self._fail_planned(row, planned, cause)
            return None
        if node is None:
            text = f"no node besides {row.source_node} accepts the pod"
            lifecycle.advance(
                row, cause, build_condition("ReservationScheduled", False, cause, "Unschedulable", text),
                reason="Unschedulable", message=text, gate=UNSCHEDULABLE,
            )  # fmt: skip
            return None
        reserved = None if is_dry else rooms.reserve(pod, row, node, cause.now_ms)
        text = f"{'dry run: there is room' if is_dry else 'room is reserved'} on {node}"
        # A migration that waits at a later gate keeps the message of that gate.
        keeps_message = row.gate not in ("", UNSCHEDULABLE)
        row = lifecycle.advance(
            row, cause, build_condition("ReservationCreated", True, cause, message=text),
            reserved=reserved, target_node=node, reason="", message=row.message if keeps_message else text,
        )  # fmt: skip
        return lifecycle.advance(
            row, cause, build_condition("ReservationScheduled", True, cause, message=text)
        )

    def _is_by_risk(self, row: MigrationRow) -> bool:
        is_risk_round = row.trigger == "rebalance" and row.pool == OVERUTILIZATION_RISK
        return is_risk_round and self.lifecycle.policy.plugins.balances(OVERUTILIZATION_RISK)

    def _fail_planned(self, row: MigrationRow, planned: str | None, cause: Cause) -> None:
        """End a move by risk when its planned target refuses the pod. Another target may gain nothing."""
        text = (
            f"{planned or 'the planned target'} no longer accepts the pod; the next round makes "
            "another plan"
        )
        failed = build_condition("ReservationScheduled", False, cause, "Unschedulable", text)
        self.lifecycle.finish(row, cause, "Failed", "Unschedulable", text, failed)

    # --- commands ---------------------------------------------------------------------------------

    def _send_command(self, row: MigrationRow, pod: Pod, replicas: int, cause: Cause) -> None:
        lifecycle = self.lifecycle
        args = lifecycle.policy.migration
        attempt = row.attempts + 1
        is_dry = row.dry_run or lifecycle.policy.is_dry_for(row.trigger)
        end_ms = min(row.deadline_ms, cause.now_ms + DRY_COMMAND_MS) if is_dry else row.deadline_ms
        label = pod.labels.get(EVICT_POLICY_LABEL, "")
        policy = label if label in _POLICIES else args.eviction_policy
        command = compute_command_id(row, attempt)
        fields = {
            "schema_version": 1,
            "command_id": command,
            "cluster": lifecycle.cluster,
            "pod": pod.ref_fields,
            "node": row.source_node,
            "reason": row.cause or f"requested by a {row.trigger}",
            "dry_run": is_dry,
            "policy": policy,
            "decided_at_ms": cause.now_ms,
            "expires_at_ms": end_ms,
            "migration_id": row.migration_id,
            "attempt": attempt,
            "trigger": row.trigger,
            "retry_until_ms": row.deadline_ms,
            "annotations": {SOFT_EVICTION_ANNOTATION: _build_annotation(row, cause)}
            if policy == "SoftEviction"
            else {},
            "as_of": cause.as_of,
            **_build_grace_period(args.default_delete_options),
        }
        lifecycle.budgets.charge(pod)
        lifecycle.messages.append(OutputMessage("eviction-commands", fields))
        if is_dry and row.attempts and not row.dry_run:
            lifecycle.record_became_dry(row)
        text = f"{'dry ' if is_dry else ''}eviction command {attempt} was sent"
        row = lifecycle.advance(
            row, cause, build_condition("Eviction", False, cause, "Evicting", text),
            reason="Evicting", message=text, gate="", attempts=attempt, command_dry=is_dry,
            command_id=command, command_expires_at_ms=end_ms, dry_run=is_dry,
        )  # fmt: skip
        lifecycle.record_command(row, replicas)


def _build_grace_period(options: DeleteOptions | None) -> dict[str, int]:
    seconds = options.grace_period_seconds if options else None
    return {} if seconds is None else {"grace_period_s": seconds}


def _build_annotation(row: MigrationRow, cause: Cause) -> str:
    """Return the annotation of a soft eviction, with log time, so that a replay gives the same text."""
    annotation = {
        "timestamp": cause.now_ms // 1000,
        "initiator": "loadstream",
        "reason": row.cause,
    }
    return json.dumps(annotation, sort_keys=True)
