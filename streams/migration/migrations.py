"""The migrations of one cluster.

Proposals, requests, outcomes and time come in; commands and reports go out.

`ClusterState` owns one and hands on every record that can matter, in the order of the log. Nothing
is published at once: `take` answers with the messages since it was called last.
"""

from collections.abc import Collection
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.migrations import (
    MigrationRequest,
    MigrationRow,
)
from schemas.messages.namespaces import (
    NamespaceState,
    PriorityClassState,
)
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Pod
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import PodChange
from streams.migration.arbitration import Arbitration
from streams.migration.drains import Drains
from streams.migration.execution import Execution
from streams.migration.gates.round_limits import RoundLimits
from streams.migration.lifecycle import MigrationLifecycle
from streams.migration.move_events import MoveEvents
from streams.migration.proposal import Proposal, proposal_of
from streams.migration.registry import MIGRATIONS_MAX, commanded, live
from streams.migration.requests import Requests
from streams.migration.reservations import HeldRoom
from streams.migration.tracking import Tracking
from streams.moves.memory import MoveMemory
from streams.placement.exclusions import Exclusions
from streams.placement.placer import Placer
from streams.pods.held import Held
from streams.rebalance.candidates import Candidate, Gate
from streams.stage.arrays import BoolArray
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows


class Migrations:
    """Which pods leave, when, and with which result."""

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
            HeldRoom(inventory, placer, exclusions),
            MoveEvents(inventory, memory),
        )
        self.round_limits = RoundLimits(inventory.policy)
        self.drains = Drains(self.lifecycle)
        self._arbitration = Arbitration(self.lifecycle)
        self._execution = Execution(self.lifecycle)
        self._tracking = Tracking(self.lifecycle)
        self._requests = Requests(self.lifecycle, self.drains)
        of = self.lifecycle
        self.tracked_rows: tuple[TrackedRows[Any, Any], ...] = (
            of.registry,
            self.drains,
            of.limiters,
            of.workloads,
            of.budgets,
            of.namespaces,
            of.classes,
            of.progress,
        )
        """What is kept in rows, in the order in which they are written."""

    # --- proposals --------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """A round begins: the limits per round count from 0."""
        self.round_limits.begin()

    def forbidden(self, held: Held) -> str | None:
        """Why a pod may not be evicted, by what it is and what the policy says; None: it may."""
        return self.lifecycle.gates.protections.verdict(held)

    def refused(self, pod: Pod) -> BoolArray:
        """Which nodes placement refuses a pod like this, by their rows."""
        return self.lifecycle.held_room.refused(pod)

    def propose(self, candidate: Candidate, cause: Cause) -> Gate | None:
        """Let a pod of a round leave that nothing holds back; return what stops it all the same."""
        proposal = proposal_of(candidate)
        found = self.lifecycle.inventory.held(proposal.pod.uid)
        mode = self.lifecycle.gates.mode_of(
            candidate.held if found is None else found[1], proposal.mode
        )
        if isinstance(mode, Gate):
            return mode
        version = self.lifecycle.registry.version
        self.lifecycle.create(proposal, mode, cause)
        self.lifecycle.gates.created(proposal.pod, version)
        self.round_limits.let_through(proposal.node, proposal.pod.namespace)
        return None

    def hold_back(self, held: Held, node: str, pool: str, now_ms: int) -> Gate | None:
        """The first gate that stops a pod of a round, whatever its target; None: none does."""
        proposal = Proposal(held.pod, node, pool, reason="", trigger="rebalance")
        lifecycle = self.lifecycle
        if self.lifecycle.inventory.context.paused:
            return Gate("Paused", "the cluster is paused", "round")
        found = lifecycle.inventory.held(proposal.pod.uid)
        if found is None or found[0].name != proposal.node:
            return Gate("MissingPod", f"the pod is not on {proposal.node} any more")
        under_way = lifecycle.registry.of_pod(proposal.pod.uid)
        if under_way is not None:
            text = f"migration {under_way.migration_id} of it is under way ({under_way.phase})"
            return Gate("UnderWay", text)
        replaced = lifecycle.registry.of_replacement(proposal.pod.uid)
        if replaced is not None:
            text = f"it replaces a pod of migration {replaced.migration_id}, which is under way"
            return Gate("UnderWay", text)
        if len(lifecycle.registry) >= MIGRATIONS_MAX:
            text = f"{MIGRATIONS_MAX} migrations are under way; no more may be"
            return Gate("MigrationsMax", text, "round")
        pod = found[1].pod
        return (
            lifecycle.gates.forbidden(found[1], proposal.node, now_ms)
            or self.round_limits.gate(proposal.node, pod.namespace)
            or lifecycle.gates.held_back(pod, proposal, now_ms, waiting_too=True)
        )

    def list_uncommanded_moves(self) -> list[MigrationRow]:
        """Migrations that a round wanted and for which no command is out."""
        return [
            row
            for row in self.lifecycle.registry
            if row.trigger == "rebalance" and live(row) and not commanded(row)
        ]

    def abort_cooled(self, row: MigrationRow, text: str, cause: Cause) -> None:
        """Give up a move from a node that has cooled; `text` says how cool it is."""
        self.lifecycle.finish(row, cause, "Aborted", "NodeCooled", text)

    def of_pod(self, uid: str) -> MigrationRow | None:
        """The migration of a pod, also one that is over while its command may still be carried out."""
        return self.lifecycle.registry.of_pod(uid)

    def leaving(self, node: str) -> list[MigrationRow]:
        """Migrations of pods that are on their way from a node."""
        return [row for row in self.lifecycle.registry.at_node(node) if live(row)]

    # --- records ----------------------------------------------------------------------------------

    def request(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        """A user asks for something."""
        return self._requests.apply(request, cause)

    def outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        """The outcome of a command came."""
        if outcome.command == "evict":
            self._tracking.outcome(outcome, cause)

    def pod_changed(self, change: PodChange, cause: Cause) -> None:
        """A record of a pod came."""
        if self.lifecycle.registry:
            self._tracking.pod_changed(change, cause)
        if change.over:
            self.lifecycle.gates.protections.forget(change.after.uid)

    def gone(self, uid: str, cause: Cause) -> None:
        """A pod is gone, by a full list or by what its binding found."""
        self._tracking.gone(uid, cause)
        self.lifecycle.gates.protections.forget(uid)

    def nodes_gone(self, cause: Cause) -> None:
        """Nodes are gone."""
        self.drains.forget_gone(cause)

    def withdrawn(self, uid: str, cause: Cause) -> None:
        """A pod wants no node any more."""
        if self.lifecycle.registry:
            self._tracking.withdrawn(uid, cause)

    def workload(self, state: WorkloadState, sequence: int, now_ms: int) -> Refusal | None:
        """What controls pods is there, or gone."""
        why = self.lifecycle.workloads.apply(state, sequence, now_ms)
        return None if why is None else Refusal("limit", why)

    def budget(self, budget: DisruptionBudget, sequence: int) -> Refusal | None:
        """A disruption budget's status."""
        why = self.lifecycle.budgets.apply(budget, sequence)
        return None if why is None else Refusal("limit", why)

    def namespace(self, state: NamespaceState, sequence: int) -> Refusal | None:
        """A namespace is there, or gone."""
        why = self.lifecycle.namespaces.apply(state, sequence)
        return None if why is None else Refusal("limit", why)

    def priority_class(self, state: PriorityClassState, sequence: int) -> Refusal | None:
        """A priority class is there, or gone."""
        why = self.lifecycle.classes.apply(state, sequence)
        return None if why is None else Refusal("limit", why)

    def end_list(self, list_id: str, begin: int, kinds: Collection[str] = ()) -> None:
        """A full list of pods has ended; of `kinds` it has all that there are."""
        lifecycle = self.lifecycle
        lifecycle.namespaces.end_list(list_id, begin, complete="namespace" in kinds)
        lifecycle.classes.end_list(list_id, begin, complete="priority-class" in kinds)
        lifecycle.workloads.end_list(list_id, begin, complete="workload" in kinds)
        lifecycle.budgets.end_list(list_id, begin, complete="disruption-budget" in kinds)

    def awaits(self, pod: Pod) -> bool:
        """Whether room is held for a pod that asks for a node."""
        return bool(self.lifecycle.registry) and self._tracking.awaits(pod)

    def claim(self, pod: Pod, cause: Cause) -> str | None:
        """The node at which room was held for a pod that asks for one; the room is free now."""
        return self._tracking.claim(pod, cause) if self.lifecycle.registry else None

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause, passed_ms: int) -> None:
        """It is later, so much since the last tick: what is over ends, what may begin begins,
        commands leave.
        """
        self.lifecycle.limiters.passed(passed_ms, cause.now_ms)
        self._tracking.tick(cause)
        self.lifecycle.limiters.tidy(cause.now_ms)
        if self.lifecycle.inventory.context.paused:
            return
        self.drains.tick(cause)
        interval_ms = self.lifecycle.policy.migration.arbitration_args.interval_ms
        progress = self.lifecycle.progress
        if self.lifecycle.registry and cause.now_ms - progress.arbitrated_at_ms >= interval_ms:
            progress.arbitrated_at_ms = cause.now_ms
            progress.note()
            self._arbitration.run(cause)
        self._execution.run(cause)

    def take(self) -> list[OutputMessage]:
        """What there is to say since the last call, in order; the memory of moves is told meanwhile."""
        return self.lifecycle.take()

    def set_policy(self, policy: Policy) -> None:
        """Decide by another policy: commands that are out stay out, all else is judged anew."""
        self.lifecycle.set_policy(policy)
        self._execution.shorten_backoffs(policy)
        self.round_limits.limits = policy.descheduling
