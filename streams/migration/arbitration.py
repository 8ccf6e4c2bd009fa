"""Which of the waiting migrations may begin, and in which order they are asked.

Four stable sorts, one after the other, so that the last one counts most: newest migration first;
the pods' own order of eviction; pods of one Job side by side; Jobs of which most is moving already
first. Then each is let through unless a gate holds it back. Source: docs/reference/upstream.md M9, M10.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.proposal import Proposal
from streams.pods.held import Held
from streams.rebalance.candidates import Gate
from streams.rebalance.costs import eviction_keys
from streams.stage.budget import Budget
from streams.stage.cause import Cause

#: Most waiting migrations that one tick asks: a twentieth of a second.
ARBITRATED_PER_TICK_MAX = 800


def proposed_again(row: MigrationRow, pod: Pod) -> Proposal:
    """What a migration was wanted for, of the pod as it is now."""
    return Proposal(
        pod=pod,
        node=row.source_node,
        pool=row.pool,
        reason=row.cause,
        trigger=row.trigger,
        target=row.target_node,
        mode=row.mode,
        ignore_windows=row.ignore_windows,
    )


class Arbitration:
    """Lets waiting migrations of a cluster begin."""

    def __init__(self, lifecycle: MigrationLifecycle) -> None:
        self.lifecycle = lifecycle

    def run(self, cause: Cause) -> None:
        """Ask the waiting migrations in order.

        Where there are too many for one tick, the budget chooses.
        """
        waiting = []
        for row in self.lifecycle.registry:
            found = self.lifecycle.inventory.held(row.pod.uid)
            if row.phase == "Pending" and not row.paused and found is not None:
                waiting.append((row, found[1]))
        ended: dict[str, Gate] = {}
        ordered = self._ordered(waiting)
        sizes = [self.lifecycle.gates.effort] * len(ordered)
        for place in Budget(ARBITRATED_PER_TICK_MAX, cause.now_ms).choose(sizes):
            self._ask(*ordered[place], ended, cause)

    def _ask(self, row: MigrationRow, held: Held, ended: dict[str, Gate], cause: Cause) -> None:
        """Ask one.

        `ended` holds nodes, or "" for all, of which no further one may begin at this tick.
        """
        lifecycle = self.lifecycle
        gate = lifecycle.gates.forbidden(held, row.source_node, cause.now_ms)
        if gate is not None:
            lifecycle.finish(row, cause, "Failed", "ForbiddenMigratePod", gate.text)
            return
        known = ended.get("") or ended.get(row.source_node)
        if known is not None and not lifecycle.gates.protections.insists(held.pod):
            self._hold_back(row, known, cause)
            return
        proposal = proposed_again(row, held.pod)
        gate = lifecycle.gates.held_back(held.pod, proposal, cause.now_ms, waiting_too=False)
        if gate is None:
            progress = lifecycle.progress
            progress.passed += 1
            lifecycle.advance(
                row, cause,
                phase="Running", message="passed arbitration", gate="", turn=progress.passed,
            )  # fmt: skip
        else:
            if gate.scope == "round":
                ended[""] = gate
            elif gate.scope == "node":
                ended[row.source_node] = gate
            self._hold_back(row, gate, cause)

    def _hold_back(self, row: MigrationRow, gate: Gate, cause: Cause) -> None:
        # Numbers in the text change all the time; the row is written when the gate changes.
        if gate.name != row.gate:
            self.lifecycle.advance(row, cause, gate=gate.name, message=gate.text)

    def _ordered(self, waiting: list[tuple[MigrationRow, Held]]) -> list[tuple[MigrationRow, Held]]:
        order = sorted(waiting, key=lambda item: -item[0].created_at_ms)
        order.sort(key=lambda item: _pod_key(item[1]))
        jobs = [_job(held.pod) for _, held in order]
        first = {job: index for index, job in reversed(list(enumerate(jobs))) if job}
        place = {
            row.migration_id: first[job] if job else index
            for index, ((row, _), job) in enumerate(zip(order, jobs, strict=True))
        }
        order.sort(key=lambda item: place[item[0].migration_id])
        under_way = {job: len(self.lifecycle.registry.owner_group(job).moving) for job in first}
        order.sort(key=lambda item: -under_way.get(_job(item[1].pod), 0))
        return order


def _pod_key(held: Held) -> tuple[int, ...]:
    """The pods' order of eviction; usage is a matter of the round that wanted them."""
    return (*eviction_keys(held.pod, held.demand), -(held.pod.created_at_ms or 0))


def _job(pod: Pod) -> str:
    """uid of the Job that a pod belongs to; empty: none."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind == "Job" else ""
