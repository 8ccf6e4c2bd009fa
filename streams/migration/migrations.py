"""The migrations of one cluster, from proposals, requests, outcomes and ticks to commands and reports.

`ClusterState` passes the records that may concern migrations, in the order of the log.
`MigrationLifecycle.take_messages` returns the commands and reports.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.commands import CommandOutcome
from schemas.messages.migrations import MigrationRequest, MigrationRow
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceState,
    PriorityClassState,
    WorkloadState,
)
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import PodChange
from streams.migration.arbitration import Arbitration
from streams.migration.drains import Drains
from streams.migration.execution import Execution
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.limits.objects import ObjectRows
from streams.migration.limits.round_limits import RoundLimits
from streams.migration.move_events import MoveEvents
from streams.migration.registry import MIGRATIONS_MAX, Proposal, is_commanded, is_live
from streams.migration.replacement_rooms import ReplacementRooms
from streams.migration.requests import UserRequests
from streams.migration.tracking import Tracking
from streams.moves.memory import MoveMemory
from streams.placement.placer import Exclusions, Placer
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Candidate, Gate, RoundRules
from streams.stage.cause import Cause
from streams.stage.tracked_rows import TrackedRows


class Migrations:
    def __init__(
        self,
        cluster: str,
        inventory: Inventory,
        placer: Placer,
        exclusions: Exclusions,
        memory: MoveMemory,
    ) -> None:
        self.lifecycle = MigrationLifecycle(
            cluster,
            inventory,
            ReplacementRooms(inventory, placer, exclusions),
            MoveEvents(inventory, memory),
        )
        self._moves = memory.moves
        self.round_limits = RoundLimits(inventory.policy)
        self.drains = Drains(self.lifecycle)
        self._arbitration = Arbitration(self.lifecycle)
        self._execution = Execution(self.lifecycle)
        self.tracking = Tracking(self.lifecycle)
        self._requests = UserRequests(self.lifecycle, self.drains)
        lifecycle = self.lifecycle
        self._objects: dict[str, ObjectRows[Any, Any, Any]] = {
            "namespace": lifecycle.namespaces,
            "priority-class": lifecycle.classes,
            "workload": lifecycle.workloads,
            "disruption-budget": lifecycle.budgets,
        }
        self.tracked_rows: tuple[TrackedRows[Any, Any], ...] = (
            lifecycle.registry,
            self.drains,
            lifecycle.limiters,
            lifecycle.workloads,
            lifecycle.budgets,
            lifecycle.namespaces,
            lifecycle.classes,
            lifecycle.counts,
        )
        """All rows, in the order of writing and restoring."""

    # --- proposals --------------------------------------------------------------------------------

    def begin_round(self, cause: Cause) -> RoundRules:
        """Return the rules for the pods of a new round."""
        self.round_limits.begin()
        lifecycle = self.lifecycle
        return RoundRules(
            leaving=frozenset(row.pod.uid for row in lifecycle.registry if is_live(row)),
            explain_protection=lifecycle.gates.protections.explain,
            find_refusing_nodes=lifecycle.rooms.find_refusing_nodes,
            check_pod=partial(self.check_pod, now_ms=cause.now_ms),
            propose=partial(self.propose, cause=cause),
        )

    def propose(self, candidate: Candidate, cause: Cause) -> Gate | None:
        """Create the migration of a pod that passed `check_pod`; return the gate that stops it, else None."""
        proposal = Proposal(
            pod=candidate.held.pod,
            node=candidate.node,
            pool=candidate.pool,
            reason=candidate.reason,
            trigger="rebalance",
            target=candidate.target,
            watched=candidate.phase,
            mode=candidate.mode,
            source_hot=candidate.source_hot,
        )
        node_and_held = self.lifecycle.inventory.find_held(proposal.pod.uid)
        mode = self.lifecycle.gates.choose_mode(
            candidate.held if node_and_held is None else node_and_held[1], proposal.mode
        )
        if isinstance(mode, Gate):
            return mode
        version = self.lifecycle.registry.version
        self.lifecycle.create(proposal, mode, cause)
        self.lifecycle.gates.count_created(proposal.pod, version)
        self.round_limits.count(proposal.node, proposal.pod.namespace)
        return None

    def check_pod(self, held: HeldPod, node: str, now_ms: int) -> Gate | None:
        """Return the first gate that stops a pod of a round for any target; None if there is none.

        The round has already checked protections (`RoundRules.explain_protection`).
        """
        lifecycle, uid = self.lifecycle, held.pod.uid
        freeze = self._moves.explain_freeze(held.pod.owner_key, now_ms)
        if freeze is not None:
            return Gate("RecentMoves", freeze)
        if lifecycle.inventory.paused:
            return Gate("Paused", "the cluster is paused", "round")
        node_and_held = lifecycle.inventory.find_held(uid)
        if node_and_held is None or node_and_held[0].name != node:
            return Gate("MissingPod", f"the pod is no longer on {node}")
        migration = lifecycle.registry.find_by_pod(uid)
        if migration is not None:
            text = f"migration {migration.migration_id} of the pod is under way ({migration.phase})"
            return Gate("UnderWay", text)
        migration = lifecycle.registry.find_by_replacement(uid)
        if migration is not None:
            text = f"the pod is the replacement in migration {migration.migration_id}, which is under way"
            return Gate("UnderWay", text)
        if len(lifecycle.registry) >= MIGRATIONS_MAX:
            text = f"{MIGRATIONS_MAX} migrations are under way, which is the limit"
            return Gate("MigrationsMax", text, "round")
        pod = node_and_held[1].pod
        return (
            lifecycle.gates.check_unprotected(node_and_held[1], node, now_ms)
            or self.round_limits.check(node, pod.namespace)
            or lifecycle.gates.check_temporary(
                pod, node, now_ms, by_round=True, ignore_windows=False, include_waiting=True
            )
        )

    def list_uncommanded_moves(self) -> list[MigrationRow]:
        """Return the live migrations of rounds for which no command was sent."""
        return [
            row
            for row in self.lifecycle.registry
            if row.trigger == "rebalance" and is_live(row) and not is_commanded(row)
        ]

    # --- records ----------------------------------------------------------------------------------

    def handle_request(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        return self._requests.apply(request, cause)

    def handle_outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        if outcome.command == "evict":
            self.tracking.handle_outcome(outcome, cause)

    def handle_pod_change(self, change: PodChange, cause: Cause) -> None:
        if self.lifecycle.registry:
            self.tracking.handle_pod_change(change, cause)
        if change.is_over:
            self.lifecycle.gates.protections.forget(change.after.uid)

    def handle_gone(self, uid: str, cause: Cause) -> None:
        """Handle a pod that is missing from a full list, or that did not exist when it was bound."""
        self.tracking.handle_gone(uid, cause)
        self.lifecycle.gates.protections.forget(uid)

    def apply_object(
        self,
        state: WorkloadState | DisruptionBudget | NamespaceState | PriorityClassState,
        sequence: int,
    ) -> Refusal | None:
        """Store an object that migrations depend on."""
        problem = self._objects[state.kind].apply(state, sequence)
        return None if problem is None else Refusal("limit", problem)

    def end_list(self, list_id: str, begin: int, kinds: Collection[str] = ()) -> None:
        """Remove objects that a full list lacks. The list is complete for the `kinds`."""
        for kind, objects in self._objects.items():
            objects.end_list(list_id, begin, complete=kind in kinds)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause, passed_ms: int) -> None:
        """End, arbitrate and execute migrations; `passed_ms` is the log time since the last tick."""
        self.lifecycle.limiters.advance(passed_ms, cause.now_ms)
        self.tracking.tick(cause)
        self.lifecycle.limiters.drop_full(cause.now_ms)
        if self.lifecycle.inventory.paused:
            return
        self.drains.tick(cause)
        interval_ms = self.lifecycle.policy.migration.arbitration_args.interval_ms
        counts = self.lifecycle.counts
        if self.lifecycle.registry and cause.now_ms - counts.arbitrated_at_ms >= interval_ms:
            counts.arbitrated_at_ms = cause.now_ms
            counts.mark_changed()
            self._arbitration.run(cause)
        self._execution.run(cause)

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy. It does not revoke commands that were sent."""
        self.lifecycle.gates.protections.set_policy(policy)
        self._execution.shorten_backoffs(policy)
        self.round_limits.limits = policy.descheduling
