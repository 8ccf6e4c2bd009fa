"""The migrations of one cluster: wishes, requests, outcomes and time in, commands and reports out.

`ClusterState` owns one and tells it of every record that can matter, in the order of the log. Nothing is
said at once: `take` answers with what has been said since it was asked last.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from schemas.base import Message
from schemas.migrations import (
    DisruptionBudgetRow,
    DrainRow,
    EvictionLimiterRow,
    MigrationRequest,
    MigrationRow,
    MigrationStateRow,
    Watched,
    WorkloadRow,
)
from schemas.namespaces import (
    NamespaceRow,
    NamespaceState,
    PriorityClassRow,
    PriorityClassState,
)
from schemas.outcomes import CommandOutcome
from schemas.pods import Pod, PodLifecycle
from schemas.policy import Policy
from schemas.refusals import Refusal
from schemas.workloads import DisruptionBudget, WorkloadState
from streams.inventory.cause import Cause
from streams.inventory.inventory import Inventory
from streams.inventory.node import Held
from streams.migration.arbitration import Arbitration
from streams.migration.concurrency_limits import Gate
from streams.migration.drains import Drains
from streams.migration.execution import Execution
from streams.migration.lifecycle import Desk, Said
from streams.migration.proposal import Candidate, Wish, wish_of
from streams.migration.registry import MIGRATIONS_MAX, live
from streams.migration.requests import Requests
from streams.migration.reservations import Rooms
from streams.migration.round_limits import Cycle
from streams.migration.tracking import Following
from streams.placement.placement import Placement
from streams.rebalance.outcome import EndOfRound


class Migrations:
    """Who leaves, when, and what came of it."""

    def __init__(
        self, cluster: str, policy: Policy, inventory: Inventory, placement: Placement
    ) -> None:
        self.desk = Desk(cluster, policy, inventory, Rooms(inventory, placement))
        self.policy = policy
        self.paused = False
        """The cluster is paused: no command leaves."""
        self.cycle = Cycle(policy)
        self.drains = Drains(self.desk)
        self._arbitration = Arbitration(self.desk)
        self._execution = Execution(self.desk)
        self._following = Following(self.desk)
        self._requests = Requests(self.desk, self.drains)
        self._arbitrated_at_ms = 0

    # --- wishes -----------------------------------------------------------------------------------

    def begin_cycle(self) -> None:
        """A round begins: the limits per round count from 0."""
        self.cycle.begin()

    def forbidden(self, held: Held) -> str | None:
        """Why a pod may not be evicted, by what it is and what the policy says; None: it may."""
        return self.desk.gates.protections.verdict(held)

    def propose(self, candidate: Candidate, cause: Cause) -> str | None:
        """Let a pod of a round leave; answers with the first gate that stops it.

        `EndOfNode` and `EndOfRound` say that no other pod of the node, or no other at all, would pass.
        """
        wish = wish_of(candidate)
        gate = self._first_gate(wish, cause.now_ms)
        if gate is not None:
            return gate.text
        found = self.desk.inventory.held(wish.pod.uid)
        mode = self.desk.gates.mode_of(candidate.held if found is None else found[1], wish.mode)
        if isinstance(mode, Gate):
            return mode.text
        version = self.desk.book.version
        self.desk.create(wish, mode, cause)
        self.desk.gates.created(wish.pod, version)
        self.cycle.let_through(wish.node, wish.pod.namespace)
        return None

    def _first_gate(self, wish: Wish, now_ms: int) -> Gate | None:
        desk = self.desk
        if self.paused:
            return Gate("Paused", EndOfRound("the cluster is paused"))
        found = desk.inventory.held(wish.pod.uid)
        if found is None or found[0].name != wish.node:
            return Gate("MissingPod", f"the pod is not on {wish.node} any more")
        under_way = desk.book.of_pod(wish.pod.uid)
        if under_way is not None:
            text = f"migration {under_way.migration_id} of it is under way ({under_way.phase})"
            return Gate("UnderWay", text)
        following = desk.book.of_replacement(wish.pod.uid)
        if following is not None:
            text = f"it replaces a pod of migration {following.migration_id}, which is under way"
            return Gate("UnderWay", text)
        if len(desk.book) >= MIGRATIONS_MAX:
            text = f"{MIGRATIONS_MAX} migrations are under way; no more may be"
            return Gate("MigrationsMax", EndOfRound(text))
        pod = found[1].pod
        return (
            desk.gates.forbidden(found[1], wish.node, now_ms)
            or self.cycle.gate(wish.node, pod.namespace)
            or desk.gates.held_back(pod, wish, now_ms, waiting_too=True)
        )

    @property
    def empty(self) -> bool:
        """There is nothing to decide, to count or to limit by."""
        desk = self.desk
        rows, limiters = desk.workloads.rows, desk.limiters
        named = desk.namespaces.rows, desk.classes.rows
        kept: tuple[Sized, ...] = (
            desk.book,
            self.drains.rows,
            limiters,
            rows,
            desk.budgets,
            *named,
        )
        return not any(map(len, kept))

    def cooled(self, look: Callable[[str, Watched], str | None], cause: Cause) -> None:
        """A round has judged the nodes: give up what would leave one that is hot no more.

        Args:
            look: says of a node, by what is watched there, how cool it is; None: it is hot, or was not judged.
            cause: the round's.
        """
        for row in self.desk.book:
            out = row.command_expires_at_ms is not None or row.evicted_at_ms is not None
            if row.trigger != "rebalance" or out or not live(row):
                continue
            cool = look(row.source_node, row.watched)
            if cool is not None:
                self.desk.finish(row, cause, "Aborted", "NodeCooled", cool)

    def of_pod(self, uid: str) -> MigrationRow | None:
        """The migration of a pod, also one that is over while its command may still be carried out."""
        return self.desk.book.of_pod(uid)

    def leaving(self, node: str) -> list[MigrationRow]:
        """Migrations of pods that are on their way from a node."""
        return [row for row in self.desk.book.at_node(node) if live(row)]

    # --- records ----------------------------------------------------------------------------------

    def request(self, request: MigrationRequest, cause: Cause) -> Refusal | None:
        """A user asks for something."""
        return self._requests.apply(request, cause)

    def outcome(self, outcome: CommandOutcome, cause: Cause) -> None:
        """Something came of a command."""
        if outcome.command == "evict":
            self._following.outcome(outcome, cause)

    def lifecycle(self, lifecycle: PodLifecycle, cause: Cause) -> None:
        """Something happened to a pod; call before the inventory knows."""
        if self.desk.book:
            self._following.lifecycle(lifecycle, cause)

    def gone(self, uid: str, cause: Cause) -> None:
        """A pod is there no more, by a full list."""
        self._following.gone(uid, cause)

    def forget(self, uid: str) -> None:
        """A pod is not held any more."""
        self.desk.gates.protections.forget(uid)

    def workload(self, state: WorkloadState, sequence: int) -> Refusal | None:
        """What controls pods is there, or gone."""
        why = self.desk.workloads.apply(state, sequence)
        return None if why is None else Refusal("limit", why)

    def budget(self, budget: DisruptionBudget, sequence: int) -> Refusal | None:
        """A disruption budget's status."""
        why = self.desk.budgets.apply(budget, sequence)
        return None if why is None else Refusal("limit", why)

    def namespace(self, state: NamespaceState, sequence: int) -> Refusal | None:
        """A namespace is there, or gone."""
        why = self.desk.namespaces.apply(state, sequence)
        return None if why is None else Refusal("limit", why)

    def priority_class(self, state: PriorityClassState, sequence: int) -> Refusal | None:
        """A priority class is there, or gone."""
        why = self.desk.classes.apply(state, sequence)
        return None if why is None else Refusal("limit", why)

    def end_list(self, list_id: str, begin: int) -> None:
        """A full list of pods has ended."""
        self.desk.namespaces.end_list(list_id, begin)
        self.desk.classes.end_list(list_id, begin)
        self.desk.workloads.end_list(list_id, begin)
        self.desk.budgets.end_list(list_id, begin)

    def awaits(self, pod: Pod) -> bool:
        """Whether room is held for a pod that asks for a node."""
        return bool(self.desk.book) and self._following.awaits(pod)

    def claim(self, pod: Pod, cause: Cause) -> str | None:
        """The node at which room was held for a pod that asks for one; the room is free now."""
        return self._following.claim(pod, cause) if self.desk.book else None

    # --- time -------------------------------------------------------------------------------------

    def tick(self, cause: Cause, passed_ms: int, *, busy: bool = False) -> None:
        """It is later, so much since the last tick: what is over ends, what may begin begins, commands leave.

        At a tick that is `busy` with all nodes drains begin nothing; they do at the next one.
        """
        self.desk.limiters.passed(passed_ms)
        self._following.tick(cause)
        self.desk.limiters.tidy(cause.now_ms)
        if self.paused:
            return
        if not busy:
            self.drains.tick(cause)
        interval_ms = self.policy.migration.arbitration_args.interval_ms
        if self.desk.book and cause.now_ms - self._arbitrated_at_ms >= interval_ms:
            self._arbitrated_at_ms = cause.now_ms
            self.desk.changed = True
            self._arbitration.run(cause)
        self._execution.run(cause)

    def take(self) -> list[Said]:
        """What there is to say since the last call, in order."""
        return self.desk.take()

    def set_policy(self, policy: Policy) -> None:
        """Decide by another policy: commands that are out stay out, all else is judged anew."""
        self.policy = policy
        self.desk.set_policy(policy)
        self.cycle.limits = policy.descheduling

    # --- rows -------------------------------------------------------------------------------------

    def changed_rows(self) -> Iterator[tuple[str, str, Message | None]]:
        """Table, key below the cluster's and row of what has changed; None: it is gone."""
        desk = self.desk
        for migration in desk.book.changed:
            yield "migrations", migration, desk.book.get(migration)
        for node in self.drains.changed:
            yield "drains", node, self.drains.rows.get(node)
        for limiter in desk.limiters.changed:
            yield "eviction_limiters", "/".join(limiter), desk.limiters.row(limiter)
        for uid in desk.workloads.changed:
            yield "workloads", uid, desk.workloads.rows.get(uid)
        for budget in desk.budgets.changed:
            yield "disruption_budgets", "/".join(budget), desk.budgets.get(budget)
        for namespace in desk.namespaces.changed:
            yield "namespaces", namespace, desk.namespaces.rows.get(namespace)
        for name in desk.classes.changed:
            yield "priority_classes", name, desk.classes.rows.get(name)
        if desk.changed:
            yield "migration_state", "", self._state_row()
        self._clear()

    def touch(self) -> None:
        """Count everything as changed."""
        desk = self.desk
        desk.book.changed.update(dict.fromkeys(row.migration_id for row in desk.book))
        self.drains.changed.update(dict.fromkeys(self.drains.rows))
        desk.limiters.touch()
        desk.workloads.changed.update(dict.fromkeys(desk.workloads.rows))
        desk.budgets.touch()
        desk.namespaces.touch()
        desk.classes.touch()
        desk.changed = True

    def _state_row(self) -> MigrationStateRow:
        return MigrationStateRow(
            cluster=self.desk.cluster,
            arbitrated_at_ms=self._arbitrated_at_ms,
            created=self.desk.created,
            passed=self.desk.passed,
            drain_next=self.drains.next_node or None,
        )

    def _clear(self) -> None:
        desk = self.desk
        for changed in (
            desk.book.changed,
            self.drains.changed,
            desk.limiters.changed,
            desk.workloads.changed,
            desk.budgets.changed,
            desk.namespaces.changed,
            desk.classes.changed,
        ):
            changed.clear()
        desk.changed = False

    def restore(self, table: str, rows: Iterable[Any]) -> None:
        """Take over the rows of a table of `ROWS`; nodes and pods are there already."""
        if table == "migration_state":
            for row in rows:
                self._arbitrated_at_ms = row.arbitrated_at_ms
                self.desk.created, self.desk.passed = row.created, row.passed
                self.drains.next_node = row.drain_next or ""
            return
        parts: dict[str, Any] = {
            "drains": self.drains,
            "workloads": self.desk.workloads,
            "disruption_budgets": self.desk.budgets,
            "namespaces": self.desk.namespaces,
            "priority_classes": self.desk.classes,
            "eviction_limiters": self.desk.limiters,
            "migrations": self.desk.book,
        }
        parts[table].restore(rows)


#: Tables that `Migrations` keeps and their rows, in the order in which they are written and restored.
ROWS: dict[str, type[Message]] = {
    "drains": DrainRow,
    "workloads": WorkloadRow,
    "disruption_budgets": DisruptionBudgetRow,
    "namespaces": NamespaceRow,
    "priority_classes": PriorityClassRow,
    "eviction_limiters": EvictionLimiterRow,
    "migrations": MigrationRow,
    "migration_state": MigrationStateRow,
}
