"""Which waiting migrations may begin, and in which order they are checked.

The order results from four stable sorts, the most important sort last:

1. newest migration first,
2. the order of eviction of the pods,
3. pods of one Job next to each other,
4. Jobs with most migrations under way first.

A migration begins unless a gate stops it. Source: docs/reference/upstream.md M9, M10.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from streams.migration.lifecycle import MigrationLifecycle
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate
from streams.rebalance.eviction_keys import compute_eviction_keys
from streams.stage.budget import Budget
from streams.stage.cause import Cause

#: Most waiting migrations that one tick checks, which takes a twentieth of a second.
ARBITRATED_PER_TICK_MAX = 800


class Arbitration:
    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle

    def run(self, cause: Cause) -> None:
        """Check the waiting migrations in order, or some of them if there are too many for one tick."""
        waiting = []
        for row in self.lifecycle.registry:
            node_and_held = self.lifecycle.inventory.find_held(row.pod.uid)
            if row.phase == "Pending" and not row.paused and node_and_held is not None:
                waiting.append((row, node_and_held[1]))
        blocked: dict[str, Gate] = {}
        ordered = self._sort(waiting)
        costs = [self.lifecycle.gates.check_cost] * len(ordered)
        for index in Budget(ARBITRATED_PER_TICK_MAX, cause.now_ms).choose(costs):
            self._arbitrate(*ordered[index], blocked, cause)

    def _arbitrate(
        self, row: MigrationRow, held: HeldPod, blocked: dict[str, Gate], cause: Cause
    ) -> None:
        """Let a migration begin, fail or wait.

        `blocked` has the gates of nodes from which no further pod may leave at this tick. Key "" blocks
        all nodes.
        """
        lifecycle = self.lifecycle
        gate = lifecycle.gates.check_lasting(held, row.source_node, cause.now_ms)
        if gate is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", gate.text)
            return
        gate = blocked.get("") or blocked.get(row.source_node)
        if gate is not None and not lifecycle.gates.protections.has_evict_annotation(held.pod):
            lifecycle.record_gate(row, gate, cause)
            return
        gate = lifecycle.gates.check_temporary(
            held.pod,
            row.source_node,
            cause.now_ms,
            by_round=row.trigger == "rebalance",
            ignore_windows=row.ignore_windows,
            include_waiting=False,
        )
        if gate is None:
            counts = lifecycle.counts
            counts.passed += 1
            lifecycle.advance(
                row, cause,
                phase="Running", message="passed arbitration", gate="", turn=counts.passed,
            )  # fmt: skip
        else:
            if gate.scope == "round":
                blocked[""] = gate
            elif gate.scope == "node":
                blocked[row.source_node] = gate
            lifecycle.record_gate(row, gate, cause)

    def _sort(
        self, waiting: list[tuple[MigrationRow, HeldPod]]
    ) -> list[tuple[MigrationRow, HeldPod]]:
        order = sorted(waiting, key=lambda item: -item[0].created_at_ms)
        order.sort(key=lambda item: _build_sort_key(item[1]))
        jobs = [_get_job_uid(held.pod) for _, held in order]
        first_index = {job: index for index, job in reversed(list(enumerate(jobs))) if job}
        position = {
            row.migration_id: first_index[job] if job else index
            for index, ((row, _), job) in enumerate(zip(order, jobs, strict=True))
        }
        order.sort(key=lambda item: position[item[0].migration_id])
        moving_counts = {
            job: len(self.lifecycle.registry.get_owner_group(job).moving) for job in first_index
        }
        order.sort(key=lambda item: -moving_counts.get(_get_job_uid(item[1].pod), 0))
        return order


def _build_sort_key(held: HeldPod) -> tuple[int, ...]:
    return (*compute_eviction_keys(held.pod, held.kind), -(held.pod.created_at_ms or 0))


def _get_job_uid(pod: Pod) -> str:
    """Return the uid of the Job that controls a pod; empty without a Job."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind == "Job" else ""
