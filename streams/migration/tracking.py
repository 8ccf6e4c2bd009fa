"""Follows commands, pods and replacements until a migration ends.

    command ──▶ done ──▶ pod gone ──▶ replacement bound ──▶ replacement ready ──▶ Succeeded
       │                     └ EvictDirectly: Succeeded
       │ failed, refused, expired: another command after a back-off
       └ dry: Succeeded

A replacement is a pod of the same controller that requests a node, or is bound to one, after the command.
New pods of an owner replace its migrating pods in the order of the migrations, and get the reserved room.
At its deadline a migration fails with reason Timeout, and its room is released. A pause extends the
deadline, but the reservation may expire meanwhile (ReservationExpired).
"""

from schemas.messages.commands import CommandOutcome
from schemas.messages.migrations import ConditionType, MigrationRow, Reason
from schemas.messages.pods import Pod, PodRef
from streams.inventory.pod_events import PodChange
from streams.migration.lifecycle import MigrationLifecycle, build_condition, is_evicted
from streams.migration.registry import is_commanded, is_live
from streams.placement.pending import compute_backoff_ms
from streams.stage.budget import Budget
from streams.stage.cause import Cause

#: A pause extends a migration's deadline by this much at most.
PAUSED_MAX_MS = 24 * 3_600_000
#: Conditions of a replacement. They become false again if the replacement is deleted.
REPLACEMENT_CONDITIONS: tuple[ConditionType, ...] = (
    "PodBoundReservation", "PodScheduled", "ReservationBound", "BoundPodReady",
)  # fmt: skip
#: Most migrations that one tick changes because a time has expired, or a pod or node is gone.
ENDED_PER_TICK_MAX = 150


class Tracking:
    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle

    # --- outcomes ---------------------------------------------------------------------------------

    def handle_outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        row = self.lifecycle.registry.find_by_pod(outcome.pod.uid)
        if row is None or row.command_id != outcome.command_id:
            return
        if row.command_expires_at_ms is None:
            return
        if outcome.result == "done" and not row.command_dry:
            self._handle_accepted(row, cause)
        elif row.command_dry:
            self._finish_dry(row, cause, f"reported as {outcome.result}")
        elif outcome.result == "dry":
            self._finish_dry(row, cause, "the evictor runs in dry mode")
        else:
            self._handle_failed(row, outcome, cause)

    def _handle_accepted(self, row: MigrationRow, cause: Cause) -> None:
        text = "the eviction was accepted; waiting for the pod to terminate"
        row = self.lifecycle.advance(
            row, cause, command_expires_at_ms=None, evicted_at_ms=cause.now_ms, message=text
        )
        if not is_live(row):
            self.lifecycle.forget(row)
        elif self.lifecycle.inventory.find_held(row.pod.uid) is None:
            self._complete_eviction(row, cause)

    def _finish_dry(self, row: MigrationRow, cause: Cause, outcome: str) -> None:
        if not is_live(row):
            self.lifecycle.forget(self.lifecycle.advance(row, cause, command_expires_at_ms=None))
            return
        if not row.dry_run:
            self.lifecycle.record_became_dry(row)
        row = self.lifecycle.advance(row, cause, command_expires_at_ms=None, dry_run=True)
        text = f"dry run: {outcome}; the pod stays where it is"
        evicted = build_condition("Eviction", True, cause, "EvictComplete", text)
        self.lifecycle.finish(row, cause, "Succeeded", "EvictComplete", text, evicted)

    def _handle_failed(self, row: MigrationRow, outcome: CommandOutcome, cause: Cause) -> None:
        lifecycle = self.lifecycle
        wait_ms = compute_backoff_ms(lifecycle.policy, row.attempts)
        result = f"{outcome.result}: {outcome.reason}" if outcome.reason else outcome.result
        text = f"command {row.attempts} {result}"
        lifecycle.budgets.discharge(row.pod.uid, gone=False)
        row = lifecycle.advance(
            row, cause,
            build_condition("Eviction", False, cause, "FailedEvict", text) if is_live(row) else None,
            command_expires_at_ms=None, retry_at_ms=cause.now_ms + wait_ms,
        )  # fmt: skip
        if is_live(row):
            lifecycle.advance(row, cause, reason="FailedEvict", message=text)
        else:
            lifecycle.forget(row)

    # --- pods -------------------------------------------------------------------------------------

    def handle_pod_change(self, change: PodChange, cause: Cause) -> None:
        pod = change.after
        if change.is_over:
            self.handle_gone(pod.uid, cause)
            return
        row = self.lifecycle.registry.find_by_pod(pod.uid)
        if row is not None and pod.node not in (None, row.source_node) and is_live(row):
            text = f"the pod is on {pod.node}, no longer on {row.source_node}"
            self.lifecycle.finish(row, cause, "Failed", "PodMoved", text)
        elif row is not None:
            # Another controller may have adopted the pod.
            self.lifecycle.advance(row, cause, owner=pod.owner_key)
        if pod.node is None:
            return
        migration = self.lifecycle.registry.find_by_replacement(pod.uid)
        if migration is None and change.before is None:
            migration = self._assign_replacement(pod, cause)
        if migration is not None and is_live(migration):
            self._handle_bound_replacement(migration, pod, cause)

    def handle_gone(self, uid: str, cause: Cause) -> None:
        row = self.lifecycle.registry.find_by_pod(uid)
        if row is not None:
            self._handle_pod_gone(row, cause)
        self._drop_replacement(uid, "the replacement is gone; waiting for another one", cause)

    def handle_withdrawn(self, uid: str, cause: Cause) -> None:
        """Handle the withdrawal of a pod's request, unless another scheduler has bound the pod."""
        node_and_held = self.lifecycle.inventory.find_held(uid)
        if node_and_held is None or node_and_held[1].pod.node is None:
            text = "the request of the replacement was withdrawn; waiting for another one"
            self._drop_replacement(uid, text, cause)

    def _drop_replacement(self, uid: str, text: str, cause: Cause) -> None:
        row = self.lifecycle.registry.find_by_replacement(uid)
        if row is None or not is_live(row):
            return
        reason: Reason = "WaitForPodBindReservation"
        reported = {"PodBoundReservation", *(item.type for item in row.conditions)}
        self.lifecycle.advance(
            row, cause,
            *(build_condition(kind, False, cause, reason, text)
              for kind in REPLACEMENT_CONDITIONS if kind in reported),
            replacement=None, reason=reason, message=text,
        )  # fmt: skip

    def _handle_pod_gone(self, row: MigrationRow, cause: Cause) -> None:
        if is_commanded(row) and not row.command_dry:
            row = self.lifecycle.advance(
                row, cause, command_expires_at_ms=None,
                evicted_at_ms=row.evicted_at_ms or cause.now_ms,
            )  # fmt: skip
        else:
            row = self.lifecycle.advance(row, cause, command_expires_at_ms=None)
        if not is_live(row):
            self.lifecycle.forget(row)
        elif row.evicted_at_ms is not None:
            self._complete_eviction(row, cause)
        else:
            text = "the pod was gone before it was evicted"
            self.lifecycle.finish(row, cause, "Failed", "MissingPod", text)

    def _complete_eviction(self, row: MigrationRow, cause: Cause) -> None:
        self.lifecycle.budgets.discharge(row.pod.uid, gone=True)
        evicted = build_condition("Eviction", True, cause, "EvictComplete", "the pod is gone")
        if row.mode == "EvictDirectly":
            self.lifecycle.finish(
                row, cause, "Succeeded", "EvictComplete", "the pod is gone", evicted
            )
            return
        row = self.lifecycle.advance(row, cause, evicted)
        text = "waiting for the replacement to be bound"
        if row.replacement is None:
            self.lifecycle.advance(
                row, cause,
                build_condition("PodBoundReservation", False, cause, "WaitForPodBindReservation", text),
                reason="WaitForPodBindReservation", message=text,
            )  # fmt: skip
            return
        replacement = self.lifecycle.inventory.find_held(row.replacement.uid)
        if replacement is not None and replacement[1].pod.node is not None:
            self._handle_bound_replacement(row, replacement[1].pod, cause)

    # --- replacements -----------------------------------------------------------------------------

    def claim_room(self, pod: Pod, cause: Cause) -> str | None:
        """Release the room that is reserved for a pod, and return its node; None without reserved room."""
        row = self.lifecycle.registry.find_by_replacement(pod.uid)
        row = row or self._assign_replacement(pod, cause)
        if row is None or row.reserved is None:
            return None
        self.lifecycle.rooms.release(row)
        self.lifecycle.advance(row, cause, reserved=None)
        return row.target_node

    def has_room_for(self, pod: Pod) -> bool:
        row = self.lifecycle.registry.find_by_replacement(pod.uid) or self._find_migration_for(pod)
        return row is not None and row.reserved is not None

    def _assign_replacement(self, pod: Pod, cause: Cause) -> MigrationRow | None:
        """Make a new pod the replacement in the first migration of its owner that waits for one."""
        row = self._find_migration_for(pod)
        if row is None:
            return None
        return self.lifecycle.advance(
            row,
            cause,
            replacement=PodRef(**pod.ref_fields),
            message=f"pod {pod.name} is the replacement",
        )

    def _find_migration_for(self, pod: Pod) -> MigrationRow | None:
        owner = pod.controller
        if owner is None or self.lifecycle.registry.find_by_pod(pod.uid) is not None:
            return None
        for row in self.lifecycle.registry.list_by_owner(owner.uid):
            is_waiting = is_live(row) and row.mode == "ReservationFirst" and row.replacement is None
            if is_waiting and is_commanded(row) and not row.command_dry and row.pod.uid != pod.uid:
                return row
        return None

    def _handle_bound_replacement(self, row: MigrationRow, pod: Pod, cause: Cause) -> None:
        lifecycle = self.lifecycle
        lifecycle.rooms.release(row)
        as_planned = pod.node == row.target_node
        text = f"bound to {pod.node}"
        text += "" if as_planned else f", not to {row.target_node}, where room was reserved"
        row = lifecycle.advance(
            row, cause, build_condition("PodScheduled", True, cause, message=text), reserved=None
        )
        bound = build_condition(
            "PodBoundReservation", as_planned, cause, "" if as_planned else "MissingReservation",
            text,
        )  # fmt: skip
        row = lifecycle.advance(row, cause, bound)
        if as_planned:
            row = lifecycle.advance(
                row, cause, build_condition("ReservationBound", True, cause, message=text)
            )
        if not is_evicted(row):
            return
        if pod.ready:
            ready = build_condition("BoundPodReady", True, cause, message=text)
            done = f"the replacement is ready on {pod.node}"
            lifecycle.finish(row, cause, "Succeeded", "", done, ready)
            return
        not_ready = build_condition("BoundPodReady", False, cause, "WaitForBoundPodReady", text)
        lifecycle.advance(row, cause, not_ready, reason="WaitForBoundPodReady", message=text)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> None:
        """End migrations that have expired, or whose pod or node is gone.

        If there are too many for one tick, some wait for a later tick.
        """
        budget = Budget(ENDED_PER_TICK_MAX)
        for row in self.lifecycle.registry:
            if budget.is_spent:
                return
            version = self.lifecycle.registry.version
            after: MigrationRow | None = row
            if row.command_expires_at_ms is not None and row.command_expires_at_ms <= cause.now_ms:
                after = self._expire_command(row, cause)
            if after is not None and is_live(after):
                self._end_if_over(after, cause)
            budget.spend(self.lifecycle.registry.version != version)

    def _expire_command(self, row: MigrationRow, cause: Cause) -> MigrationRow | None:
        if row.command_dry and is_live(row):
            self._finish_dry(row, cause, "no outcome was reported")
            return None
        row = self.lifecycle.advance(row, cause, command_expires_at_ms=None)
        if not is_live(row):
            self.lifecycle.forget(row)
            return None
        self.lifecycle.budgets.discharge(row.pod.uid, gone=False)
        text = (
            f"command {row.attempts} expired without an outcome; check that an evictor runs "
            "(loadstream kubernetes evict)"
        )
        return self.lifecycle.advance(row, cause, message=text)

    def _end_if_over(self, row: MigrationRow, cause: Cause) -> None:
        lifecycle = self.lifecycle
        deadline_ms = row.deadline_ms
        if row.paused_at_ms is not None:
            deadline_ms += min(cause.now_ms - row.paused_at_ms, PAUSED_MAX_MS)
        if cause.now_ms >= deadline_ms:
            duration_s = (cause.now_ms - row.created_at_ms) // 1000
            text = f"timed out after {duration_s} s; last message: {row.message}"
            lifecycle.finish(row, cause, "Failed", "Timeout", text)
            return
        if lifecycle.rooms.is_expired(row, cause.now_ms):
            row = self._expire_room(row, cause)
        if is_commanded(row):
            return
        node_and_held = lifecycle.inventory.find_held(row.pod.uid)
        if node_and_held is None:
            lifecycle.finish(row, cause, "Failed", "MissingPod", "the pod no longer exists")
            return
        node = node_and_held[0]
        if node.name != row.source_node:
            text = f"the pod is on {node.name}, no longer on {row.source_node}"
            lifecycle.finish(row, cause, "Failed", "PodMoved", text)
        elif node.state is None:
            text = f"node {row.source_node} no longer exists"
            lifecycle.finish(row, cause, "Failed", "MissingNode", text)

    def _expire_room(self, row: MigrationRow, cause: Cause) -> MigrationRow:
        """Release an expired reservation. A migration without a command reserves room again later."""
        lifecycle = self.lifecycle
        lifecycle.rooms.release(row)
        text = f"the reservation on {row.target_node} has expired"
        ended = build_condition("ReservationScheduled", False, cause, "ReservationExpired", text)
        if row.attempts:
            return lifecycle.advance(row, cause, ended, reserved=None)
        return lifecycle.advance(
            row, cause, ended, reserved=None, reason="ReservationExpired", message=text
        )
