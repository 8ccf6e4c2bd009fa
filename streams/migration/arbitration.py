"""Which of the waiting migrations may begin, and in which order they are checked.

The order results from four stable sorts, of which the last counts most:

1. newest migration first,
2. the order of eviction of the pods,
3. pods of one Job next to each other,
4. Jobs with most migrations under way first.

A migration begins unless a gate stops it. Source: docs/reference/upstream.md M9, M10.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.registry import Proposal
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate
from streams.rebalance.eviction_keys import compute_eviction_keys
from streams.stage.budget import Budget
from streams.stage.cause import Cause

#: Most waiting migrations that one tick checks: a twentieth of a second.
ARBITRATED_PER_TICK_MAX = 800


def rebuild_proposal(row: MigrationRow, pod: Pod) -> Proposal:
    """Return the proposal of a waiting migration, with the current state of its pod."""
    return Proposal(
        pod=pod,
        node=row.source_node,
        reason=row.cause,
        trigger=row.trigger,
        target=row.target_node,
        mode=row.mode,
        ignore_windows=row.ignore_windows,
    )


class Arbitration:
    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle

    def run(self, cause: Cause) -> None:
        """Check the waiting migrations in order; if there are too many for one tick, check some."""
        waiting = []
        for row in self.lifecycle.registry:
            node_and_held = self.lifecycle.inventory.find_held(row.pod.uid)
            if row.phase == "Pending" and not row.paused and node_and_held is not None:
                waiting.append((row, node_and_held[1]))
        full: dict[str, Gate] = {}
        ordered = self._sort(waiting)
        sizes = [self.lifecycle.gates.effort] * len(ordered)
        for index in Budget(ARBITRATED_PER_TICK_MAX, cause.now_ms).choose(sizes):
            self._arbitrate(*ordered[index], full, cause)

    def _arbitrate(
        self, row: MigrationRow, held: HeldPod, full: dict[str, Gate], cause: Cause
    ) -> None:
        """Let a migration begin, fail or wait.

        `full` has the gates of nodes from which no further pod may leave at this tick; "" stands for
        all nodes.
        """
        lifecycle = self.lifecycle
        gate = lifecycle.gates.check_lasting(held, row.source_node, cause.now_ms)
        if gate is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", gate.text)
            return
        full_gate = full.get("") or full.get(row.source_node)
        if full_gate is not None and not lifecycle.gates.protections.has_evict_annotation(held.pod):
            self._hold_back(row, full_gate, cause)
            return
        proposal = rebuild_proposal(row, held.pod)
        gate = lifecycle.gates.check_temporary(held.pod, proposal, cause.now_ms, waiting_too=False)
        if gate is None:
            progress = lifecycle.progress
            progress.passed += 1
            lifecycle.advance(
                row, cause,
                phase="Running", message="passed arbitration", gate="", turn=progress.passed,
            )  # fmt: skip
        else:
            if gate.scope == "round":
                full[""] = gate
            elif gate.scope == "node":
                full[row.source_node] = gate
            self._hold_back(row, gate, cause)

    def _hold_back(self, row: MigrationRow, gate: Gate, cause: Cause) -> None:
        # Numbers in the text change often; the row is written only when the gate changes.
        if gate.name != row.gate:
            self.lifecycle.advance(row, cause, gate=gate.name, message=gate.text)

    def _sort(
        self, waiting: list[tuple[MigrationRow, HeldPod]]
    ) -> list[tuple[MigrationRow, HeldPod]]:
        order = sorted(waiting, key=lambda item: -item[0].created_at_ms)
        order.sort(key=lambda item: _pod_key(item[1]))
        jobs = [_job(held.pod) for _, held in order]
        first_index = {job: index for index, job in reversed(list(enumerate(jobs))) if job}
        position = {
            row.migration_id: first_index[job] if job else index
            for index, ((row, _), job) in enumerate(zip(order, jobs, strict=True))
        }
        order.sort(key=lambda item: position[item[0].migration_id])
        under_way = {
            job: len(self.lifecycle.registry.owner_group(job).moving) for job in first_index
        }
        order.sort(key=lambda item: -under_way.get(_job(item[1].pod), 0))
        return order


def _pod_key(held: HeldPod) -> tuple[int, ...]:
    return (*compute_eviction_keys(held.pod, held.kind), -(held.pod.created_at_ms or 0))


def _job(pod: Pod) -> str:
    """Return the uid of the Job that a pod belongs to, or an empty text."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind == "Job" else ""
