"""Follows commands, pods and replacements until a migration ends.

    command ──▶ done ──▶ pod gone ──▶ replacement bound ──▶ replacement ready ──▶ Succeeded
       │ failed, refused, expired: again after a back-off           (EvictDirectly: Succeeded here: pod gone)
       └ dry: Succeeded

A replacement is a pod of the same controller that asks for a node, or is seen on one, after the
command; pods of an owner replace its migrating pods in the order of the migrations. It is given the
room that is held. Deadlines end everything: the room is given back, and the reason is Timeout.
While a migration is paused its deadline does not run, but the time for which room is held does:
ReservationExpired.
"""

from schemas.messages.migrations import ConditionType, MigrationRow, Reason
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Pod
from streams.inventory.pod_events import PodChange
from streams.migration.lifecycle import MigrationLifecycle, condition
from streams.migration.registry import commanded, live
from streams.placement.pending import backoff_ms
from streams.stage.budget import Budget
from streams.stage.cause import Cause, reference

#: Longest time that a user's pause keeps a migration from its deadline.
PAUSED_MAX_MS = 24 * 3_600_000
#: Steps that are taken with a replacement, and taken back if it goes.
STEPS_OF_REPLACEMENT: tuple[ConditionType, ...] = (
    "PodBoundReservation", "PodScheduled", "ReservationBound", "BoundPodReady",
)  # fmt: skip
#: Most migrations that one tick changes because a time is over or something is gone.
ENDED_PER_TICK_MAX = 150


class Tracking:
    """Follows the migrations of a cluster."""

    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle

    # --- outcomes ---------------------------------------------------------------------------------

    def outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        """The outcome of an eviction command came."""
        row = self.lifecycle.registry.of_pod(outcome.pod.uid)
        if row is None or row.command_id != outcome.command_id:
            return
        if row.command_expires_at_ms is None:
            return
        if outcome.result == "done" and not row.command_dry:
            self._accepted(row, cause)
        elif row.command_dry:
            self._dry(row, cause, f"reported as {outcome.result}")
        elif outcome.result == "dry":
            self._dry(row, cause, "the evictor only took note of it")
        else:
            self._failed(row, outcome, cause)

    def _accepted(self, row: MigrationRow, cause: Cause) -> None:
        text = "the eviction was accepted; the pod is to go"
        row = self.lifecycle.advance(
            row, cause, command_expires_at_ms=None, evicted_at_ms=cause.now_ms, message=text
        )
        if not live(row):
            self.lifecycle.forget(row)
        elif self.lifecycle.inventory.held(row.pod.uid) is None:
            self._evicted(row, cause)

    def _dry(self, row: MigrationRow, cause: Cause, how: str) -> None:
        if not live(row):
            self.lifecycle.forget(self.lifecycle.advance(row, cause, command_expires_at_ms=None))
            return
        if not row.dry_run:
            self.lifecycle.turns_dry(row)
        row = self.lifecycle.advance(row, cause, command_expires_at_ms=None, dry_run=True)
        text = f"dry run: {how}; the pod stays where it is"
        done = condition("Eviction", True, cause, "EvictComplete", text)
        self.lifecycle.finish(row, cause, "Succeeded", "EvictComplete", text, done)

    def _failed(self, row: MigrationRow, outcome: CommandOutcome, cause: Cause) -> None:
        lifecycle = self.lifecycle
        wait_ms = backoff_ms(lifecycle.policy, row.attempts)
        why = f"{outcome.result}: {outcome.reason}" if outcome.reason else outcome.result
        text = f"command {row.attempts} {why}"
        lifecycle.budgets.discharge(row.pod.uid, gone=False)
        row = lifecycle.advance(
            row, cause,
            condition("Eviction", False, cause, "FailedEvict", text) if live(row) else None,
            command_expires_at_ms=None, retry_at_ms=cause.now_ms + wait_ms,
        )  # fmt: skip
        if live(row):
            lifecycle.advance(row, cause, reason="FailedEvict", message=text)
        else:
            lifecycle.forget(row)

    # --- pods -------------------------------------------------------------------------------------

    def pod_changed(self, change: PodChange, cause: Cause) -> None:
        """A record of a pod came."""
        pod = change.after
        if change.over:
            self.gone(pod.uid, cause)
            return
        row = self.lifecycle.registry.of_pod(pod.uid)
        if row is not None and pod.node not in (None, row.source_node) and live(row):
            text = f"the pod is on {pod.node}, not on {row.source_node} any more"
            self.lifecycle.finish(row, cause, "Failed", "PodMoved", text)
        elif row is not None:
            self._owned(row, pod, cause)
        if pod.node is None:
            return
        replaced = self.lifecycle.registry.of_replacement(pod.uid)
        if replaced is None and change.before is None:
            replaced = self._adopt(pod, cause)
        if replaced is not None and live(replaced):
            self._arrived(replaced, pod, cause)

    def _owned(self, row: MigrationRow, pod: Pod, cause: Cause) -> None:
        """Another controller may have taken the pod over: it limits, and replaces, from now on."""
        self.lifecycle.advance(row, cause, owner=pod.owner_key)

    def gone(self, uid: str, cause: Cause) -> None:
        """A pod is gone."""
        row = self.lifecycle.registry.of_pod(uid)
        if row is not None:
            self._gone(row, cause)
        self._replacement_gone(uid, "the replacement is gone as well; waiting for another", cause)

    def withdrawn(self, uid: str, cause: Cause) -> None:
        """A pod wants no node any more; one that has a node has been bound by another program."""
        found = self.lifecycle.inventory.held(uid)
        if found is None or found[1].pod.node is None:
            text = "the replacement wants no node any more; waiting for another"
            self._replacement_gone(uid, text, cause)

    def _replacement_gone(self, uid: str, text: str, cause: Cause) -> None:
        replaced = self.lifecycle.registry.of_replacement(uid)
        if replaced is None or not live(replaced):
            return
        reason: Reason = "WaitForPodBindReservation"
        begun = {"PodBoundReservation", *(each.type for each in replaced.conditions)}
        self.lifecycle.advance(
            replaced, cause,
            *(condition(step, False, cause, reason, text)
              for step in STEPS_OF_REPLACEMENT if step in begun),
            replacement=None, reason=reason, message=text,
        )  # fmt: skip

    def _gone(self, row: MigrationRow, cause: Cause) -> None:
        if commanded(row) and not row.command_dry:
            row = self.lifecycle.advance(
                row, cause, command_expires_at_ms=None,
                evicted_at_ms=row.evicted_at_ms or cause.now_ms,
            )  # fmt: skip
        else:
            row = self.lifecycle.advance(row, cause, command_expires_at_ms=None)
        if not live(row):
            self.lifecycle.forget(row)
        elif row.evicted_at_ms is not None:
            self._evicted(row, cause)
        else:
            text = "the pod has gone of its own accord"
            self.lifecycle.finish(row, cause, "Failed", "MissingPod", text)

    def _evicted(self, row: MigrationRow, cause: Cause) -> None:
        """The pod is gone because a command took it."""
        self.lifecycle.budgets.discharge(row.pod.uid, gone=True)
        done = condition("Eviction", True, cause, "EvictComplete", "the pod is gone")
        if row.mode == "EvictDirectly":
            self.lifecycle.finish(row, cause, "Succeeded", "EvictComplete", "the pod is gone", done)
            return
        row = self.lifecycle.advance(row, cause, done)
        text = "waiting for the replacement to be bound"
        if row.replacement is None:
            self.lifecycle.advance(
                row, cause,
                condition("PodBoundReservation", False, cause, "WaitForPodBindReservation", text),
                reason="WaitForPodBindReservation", message=text,
            )  # fmt: skip
            return
        found = self.lifecycle.inventory.held(row.replacement.uid)
        if found is not None and found[1].pod.node is not None:
            self._arrived(row, found[1].pod, cause)

    # --- replacements -----------------------------------------------------------------------------

    def claim(self, pod: Pod, cause: Cause) -> str | None:
        """The node at which room was held for a pod that asks for one; the room is free now."""
        row = self.lifecycle.registry.of_replacement(pod.uid) or self._adopt(pod, cause)
        if row is None or row.reserved is None:
            return None
        self.lifecycle.held_room.give_back(row)
        self.lifecycle.advance(row, cause, reserved=None)
        return row.target_node

    def awaits(self, pod: Pod) -> bool:
        """Whether room is held that a pod that asks for a node may have."""
        row = self.lifecycle.registry.of_replacement(pod.uid) or self._first_for(pod)
        return row is not None and row.reserved is not None

    def _adopt(self, pod: Pod, cause: Cause) -> MigrationRow | None:
        """Let a new pod replace the first pod of its owner that has none yet."""
        row = self._first_for(pod)
        if row is None:
            return None
        return self.lifecycle.advance(
            row, cause, replacement=reference(pod), message=f"pod {pod.name} replaces it"
        )

    def _first_for(self, pod: Pod) -> MigrationRow | None:
        owner = pod.controller
        if owner is None or self.lifecycle.registry.of_pod(pod.uid) is not None:
            return None
        for row in self.lifecycle.registry.of_owner(owner.uid):
            waits = live(row) and row.mode == "ReservationFirst" and row.replacement is None
            if waits and commanded(row) and not row.command_dry and row.pod.uid != pod.uid:
                return row
        return None

    def _arrived(self, row: MigrationRow, pod: Pod, cause: Cause) -> None:
        """A replacement is bound, and may be ready."""
        lifecycle = self.lifecycle
        lifecycle.held_room.give_back(row)
        as_planned = pod.node == row.target_node
        where = f"bound to {pod.node}"
        where += "" if as_planned else f", not to {row.target_node}, where room was held"
        row = lifecycle.advance(
            row, cause, condition("PodScheduled", True, cause, message=where), reserved=None
        )
        bound = condition(
            "PodBoundReservation", as_planned, cause, "" if as_planned else "MissingReservation",
            where,
        )  # fmt: skip
        row = lifecycle.advance(row, cause, bound)
        if as_planned:
            row = lifecycle.advance(
                row, cause, condition("ReservationBound", True, cause, message=where)
            )
        if not any(each.type == "Eviction" and each.status for each in row.conditions):
            return
        if pod.ready:
            ready = condition("BoundPodReady", True, cause, message=where)
            text = f"the replacement is ready on {pod.node}"
            lifecycle.finish(row, cause, "Succeeded", "", text, ready)
            return
        waiting = condition("BoundPodReady", False, cause, "WaitForBoundPodReady", where)
        lifecycle.advance(row, cause, waiting, reason="WaitForBoundPodReady", message=where)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> None:
        """End what is over, and what has lost its pod or its node.

        What is left over ends at the next tick.
        """
        budget = Budget(ENDED_PER_TICK_MAX)
        for row in self.lifecycle.registry:
            if budget.is_spent:
                return
            version = self.lifecycle.registry.version
            after: MigrationRow | None = row
            if row.command_expires_at_ms is not None and row.command_expires_at_ms <= cause.now_ms:
                after = self._over(row, cause)
            if after is not None and live(after):
                self._look(after, cause)
            budget.spend(self.lifecycle.registry.version != version)

    def _over(self, row: MigrationRow, cause: Cause) -> MigrationRow | None:
        """A command has expired."""
        if row.command_dry and live(row):
            self._dry(row, cause, "nobody reported on it")
            return None
        row = self.lifecycle.advance(row, cause, command_expires_at_ms=None)
        if not live(row):
            self.lifecycle.forget(row)
            return None
        self.lifecycle.budgets.discharge(row.pod.uid, gone=False)
        text = (
            f"nobody reported on command {row.attempts}; does an evictor run "
            "(loadstream kubernetes evict)?"
        )
        return self.lifecycle.advance(row, cause, message=text)

    def _look(self, row: MigrationRow, cause: Cause) -> None:
        lifecycle = self.lifecycle
        deadline_ms = row.deadline_ms
        if row.paused_at_ms is not None:
            deadline_ms += min(cause.now_ms - row.paused_at_ms, PAUSED_MAX_MS)
        if cause.now_ms >= deadline_ms:
            why = row.message or "waiting for arbitration"
            text = f"not done after {(cause.now_ms - row.created_at_ms) // 1000} s; last: {why}"
            lifecycle.finish(row, cause, "Failed", "Timeout", text)
            return
        if lifecycle.held_room.over(row, cause.now_ms):
            row = self._expired(row, cause)
        if commanded(row):
            return
        found = lifecycle.inventory.held(row.pod.uid)
        if found is None:
            lifecycle.finish(row, cause, "Failed", "MissingPod", "the pod is not there any more")
        elif found[0].name != row.source_node:
            text = f"the pod is on {found[0].name}, not on {row.source_node} any more"
            lifecycle.finish(row, cause, "Failed", "PodMoved", text)
        elif found[0].state is None:
            text = f"node {row.source_node} is not there any more"
            lifecycle.finish(row, cause, "Failed", "MissingNode", text)

    def _expired(self, row: MigrationRow, cause: Cause) -> MigrationRow:
        """Release the room.

        Without a command, other room is looked for when the migration goes on.
        """
        lifecycle = self.lifecycle
        lifecycle.held_room.give_back(row)
        text = f"the time for which room was held on {row.target_node} is over"
        ended = condition("ReservationScheduled", False, cause, "ReservationExpired", text)
        if row.attempts:
            return lifecycle.advance(row, cause, ended, reserved=None)
        return lifecycle.advance(
            row, cause, ended, reserved=None, reason="ReservationExpired", message=text
        )
