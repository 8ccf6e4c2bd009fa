"""What becomes of commands, pods and replacements.

    command ──▶ done ──▶ pod gone ──▶ replacement bound ──▶ replacement ready ──▶ Succeeded
       │ failed, refused, expired: again after a back-off           (EvictDirectly: Succeeded here: pod gone)
       └ dry: Succeeded

A replacement is a pod of the same controller that asks for a node, or is seen on one, after the command;
pods of an owner replace its migrating pods in the order of the migrations. It is given the room that is
held. Deadlines end everything: the room is given back, and the reason is Timeout. While a migration is paused
its deadline waits, and the time for which room is held does not: ReservationExpired.
"""

from schemas.migrations import MigrationRow
from schemas.outcomes import CommandOutcome
from schemas.pods import Pod, PodLifecycle
from streams.inventory.cause import Cause, reference
from streams.inventory.load import terminated
from streams.inventory.owners import controller
from streams.migration.lifecycle import Desk, condition
from streams.migration.registry import live
from streams.placement.pending import backoff_ms

#: Longest time that a user's pause keeps a migration from its deadline.
PAUSED_MAX_MS = 24 * 3_600_000
#: Most migrations that one tick changes because a time is over or something is gone.
ENDED_PER_TICK_MAX = 150


class Following:
    """Follows the migrations of a cluster."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    # --- outcomes ---------------------------------------------------------------------------------

    def outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        """Something came of an eviction command."""
        row = self.desk.book.of_pod(outcome.pod.uid)
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
        text = "the eviction was accepted; the pod is terminating"
        row = self.desk.advance(
            row, cause, command_expires_at_ms=None, evicted_at_ms=cause.now_ms, message=text
        )
        if not live(row):
            self.desk.forget(row)
        elif self.desk.inventory.held(row.pod.uid) is None:
            self._evicted(row, cause)

    def _dry(self, row: MigrationRow, cause: Cause, how: str) -> None:
        row = self.desk.advance(row, cause, command_expires_at_ms=None)
        if not live(row):
            self.desk.forget(row)
            return
        text = f"dry run: {how}; the pod stays where it is"
        done = condition("Eviction", True, cause, "EvictComplete", text)
        self.desk.finish(row, cause, "Succeeded", "EvictComplete", text, done)

    def _failed(self, row: MigrationRow, outcome: CommandOutcome, cause: Cause) -> None:
        desk = self.desk
        wait_ms = backoff_ms(desk.policy, row.attempts)
        why = f"{outcome.result}: {outcome.reason}" if outcome.reason else outcome.result
        text = f"command {row.attempts} {why}"
        desk.budgets.discharge(row.pod.uid, gone=False)
        row = desk.advance(
            row, cause,
            condition("Eviction", False, cause, "FailedEvict", text) if live(row) else None,
            command_expires_at_ms=None, retry_at_ms=cause.now_ms + wait_ms,
        )  # fmt: skip
        if live(row):
            desk.advance(row, cause, reason="FailedEvict", message=text)
        else:
            desk.forget(row)

    # --- pods -------------------------------------------------------------------------------------

    def lifecycle(self, lifecycle: PodLifecycle, cause: Cause) -> None:
        """Something happened to a pod; call before the inventory knows."""
        pod = lifecycle.pod
        if lifecycle.event in ("deleted", "finished") or terminated(pod):
            self.gone(pod.uid, cause)
            return
        row = self.desk.book.of_pod(pod.uid)
        if row is not None and pod.node not in (None, row.source_node) and live(row):
            text = f"the pod is on {pod.node}, not on {row.source_node} any more"
            self.desk.finish(row, cause, "Failed", "PodMoved", text)
        if pod.node is None:
            return
        following = self.desk.book.of_replacement(pod.uid)
        if following is None and pod.uid not in self.desk.inventory.where:
            following = self._adopt(pod, cause)
        if following is not None and live(following):
            self._arrived(following, pod, cause)

    def gone(self, uid: str, cause: Cause) -> None:
        """A pod is there no more."""
        row = self.desk.book.of_pod(uid)
        if row is not None:
            self._gone(row, cause)
        following = self.desk.book.of_replacement(uid)
        if following is not None and live(following):
            text = "the replacement is gone as well; waiting for another"
            self.desk.advance(
                following, cause,
                condition("PodBoundReservation", False, cause, "WaitForPodBindReservation", text),
                replacement=None, reason="WaitForPodBindReservation", message=text,
            )  # fmt: skip

    def _gone(self, row: MigrationRow, cause: Cause) -> None:
        commanded = row.command_expires_at_ms is not None or row.evicted_at_ms is not None
        if commanded and not row.command_dry:
            row = self.desk.advance(
                row, cause, command_expires_at_ms=None,
                evicted_at_ms=row.evicted_at_ms or cause.now_ms,
            )  # fmt: skip
        else:
            row = self.desk.advance(row, cause, command_expires_at_ms=None)
        if not live(row):
            self.desk.forget(row)
        elif row.evicted_at_ms is not None:
            self._evicted(row, cause)
        else:
            text = "the pod has gone of its own accord"
            self.desk.finish(row, cause, "Failed", "MissingPod", text)

    def _evicted(self, row: MigrationRow, cause: Cause) -> None:
        """The pod is gone because a command took it."""
        self.desk.budgets.discharge(row.pod.uid, gone=True)
        done = condition("Eviction", True, cause, "EvictComplete", "the pod is gone")
        if row.mode == "EvictDirectly":
            self.desk.finish(row, cause, "Succeeded", "EvictComplete", "the pod is gone", done)
            return
        row = self.desk.advance(row, cause, done)
        text = "waiting for the replacement to be bound"
        if row.replacement is None:
            self.desk.advance(
                row, cause,
                condition("PodBoundReservation", False, cause, "WaitForPodBindReservation", text),
                reason="WaitForPodBindReservation", message=text,
            )  # fmt: skip
            return
        found = self.desk.inventory.held(row.replacement.uid)
        if found is not None and found[1].pod.node is not None:
            self._arrived(row, found[1].pod, cause)

    # --- replacements -----------------------------------------------------------------------------

    def claim(self, pod: Pod, cause: Cause) -> str | None:
        """The node at which room was held for a pod that asks for one; the room is free now."""
        row = self.desk.book.of_replacement(pod.uid) or self._adopt(pod, cause)
        if row is None or row.reserved is None:
            return None
        self.desk.rooms.give_back(row)
        self.desk.advance(row, cause, reserved=None)
        return row.target_node

    def awaits(self, pod: Pod) -> bool:
        """Whether room is held that a pod that asks for a node may have."""
        row = self.desk.book.of_replacement(pod.uid) or self._first_for(pod)
        return row is not None and row.reserved is not None

    def _adopt(self, pod: Pod, cause: Cause) -> MigrationRow | None:
        """Let a new pod replace the first pod of its owner that has none yet."""
        row = self._first_for(pod)
        if row is None:
            return None
        return self.desk.advance(
            row, cause, replacement=reference(pod), message=f"pod {pod.name} replaces it"
        )

    def _first_for(self, pod: Pod) -> MigrationRow | None:
        owner = controller(pod)
        if owner is None or self.desk.book.of_pod(pod.uid) is not None:
            return None
        for row in self.desk.book.of_owner(owner.uid):
            waits = live(row) and row.mode == "ReservationFirst" and row.replacement is None
            commanded = row.command_expires_at_ms is not None or row.evicted_at_ms is not None
            if waits and commanded and not row.command_dry and row.pod.uid != pod.uid:
                return row
        return None

    def _arrived(self, row: MigrationRow, pod: Pod, cause: Cause) -> None:
        """A replacement is bound, and may be ready."""
        desk = self.desk
        desk.rooms.give_back(row)
        as_planned = pod.node == row.target_node
        where = f"bound to {pod.node}"
        where += "" if as_planned else f", not to {row.target_node}, where room was held"
        row = desk.advance(
            row, cause, condition("PodScheduled", True, cause, message=where), reserved=None
        )
        bound = condition(
            "PodBoundReservation", as_planned, cause, "" if as_planned else "MissingReservation",
            where,
        )  # fmt: skip
        row = desk.advance(row, cause, bound)
        if as_planned:
            row = desk.advance(
                row, cause, condition("ReservationBound", True, cause, message=where)
            )
        if not any(each.type == "Eviction" and each.status for each in row.conditions):
            return
        if pod.ready:
            ready = condition("BoundPodReady", True, cause, message=where)
            text = f"the replacement is ready on {pod.node}"
            desk.finish(row, cause, "Succeeded", "", text, ready)
            return
        waiting = condition("BoundPodReady", False, cause, "WaitForBoundPodReady", where)
        desk.advance(row, cause, waiting, reason="WaitForBoundPodReady", message=where)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> None:
        """End what is over, and what has lost its pod or its node; what is left over ends at the next tick."""
        left = ENDED_PER_TICK_MAX
        for row in self.desk.book:
            if left <= 0:
                return
            version = self.desk.book.version
            after: MigrationRow | None = row
            if row.command_expires_at_ms is not None and row.command_expires_at_ms <= cause.now_ms:
                after = self._over(row, cause)
            if after is not None and live(after):
                self._look(after, cause)
            left -= self.desk.book.version != version

    def _over(self, row: MigrationRow, cause: Cause) -> MigrationRow | None:
        """A command can be carried out no more."""
        if row.command_dry and live(row):
            self._dry(row, cause, "nobody reported on it")
            return None
        row = self.desk.advance(row, cause, command_expires_at_ms=None)
        if not live(row):
            self.desk.forget(row)
            return None
        return row

    def _look(self, row: MigrationRow, cause: Cause) -> None:
        desk = self.desk
        deadline_ms = row.deadline_ms
        if row.paused_at_ms is not None:
            deadline_ms += min(cause.now_ms - row.paused_at_ms, PAUSED_MAX_MS)
        if cause.now_ms >= deadline_ms:
            why = row.message or "waiting for arbitration"
            text = f"not done after {(cause.now_ms - row.created_at_ms) // 1000} s; last: {why}"
            desk.finish(row, cause, "Failed", "Timeout", text)
            return
        if desk.rooms.over(row, cause.now_ms):
            row = self._expired(row, cause)
        if row.evicted_at_ms is not None or row.command_expires_at_ms is not None:
            return
        found = desk.inventory.held(row.pod.uid)
        if found is None:
            desk.finish(row, cause, "Failed", "MissingPod", "the pod is not there any more")
        elif found[0].name != row.source_node:
            text = f"the pod is on {found[0].name}, not on {row.source_node} any more"
            desk.finish(row, cause, "Failed", "PodMoved", text)
        elif found[0].state is None:
            text = f"node {row.source_node} is not there any more"
            desk.finish(row, cause, "Failed", "MissingNode", text)

    def _expired(self, row: MigrationRow, cause: Cause) -> MigrationRow:
        """Hold room no longer; without a command it is looked for anew when the migration goes on."""
        desk = self.desk
        desk.rooms.give_back(row)
        text = f"the time for which room was held on {row.target_node} is over"
        ended = condition("ReservationScheduled", False, cause, "ReservationExpired", text)
        if row.attempts:
            return desk.advance(row, cause, ended, reserved=None)
        return desk.advance(
            row, cause, ended, reserved=None, reason="ReservationExpired", message=text
        )
