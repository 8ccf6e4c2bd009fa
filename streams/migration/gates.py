"""What holds a migration back: for good, or until something changes.

The gates in their order, as features.md 1.7 has them, with loadstream's own where they cost least:

    for good  protections of the pod, age, node selector, fit elsewhere, replicas, budgets that must be there
    for now   maintenance windows, limits on what moves at once, rates per workload and namespace, budgets

A pod with the evict annotation passes the upstream gates among them, as upstream, and no others.
"""

from functools import lru_cache

from schemas.migrations import Mode
from schemas.pods import Pod
from schemas.policy import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.selectors import LabelSelector, parse_selector
from streams.cluster.inventory import Inventory
from streams.cluster.node import Held, Node
from streams.cluster.owners import controller
from streams.cluster.plugins.unsupported import refusal
from streams.migration.book import Book
from streams.migration.budgets import Budgets, left
from streams.migration.candidate import Wish
from streams.migration.limiters import Limiters
from streams.migration.limits import Gate, Limits
from streams.migration.protections import Protections, insists
from streams.migration.rooms import Rooms
from streams.migration.workloads import Replicas, Workloads

#: Gate of pods for whose replacement no room can be reserved anywhere.
UNRESERVABLE = "Unreservable"


class Gates:
    """The gates of one cluster under its policy."""

    def __init__(
        self,
        policy: Policy,
        inventory: Inventory,
        book: Book,
        workloads: Workloads,
        budgets: Budgets,
        limiters: Limiters,
        rooms: Rooms,
        protections: Protections,
    ) -> None:
        self.inventory = inventory
        self.book = book
        self.workloads = workloads
        self.budgets = budgets
        self.limiters = limiters
        self.rooms = rooms
        self.protections = protections
        self.limits = Limits(policy, book, inventory.owners)
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy."""
        self.policy = policy
        self.protections.set_policy(policy)
        self.limits.set_policy(policy)
        self._skipped = frozenset(policy.migration.skip_eviction_gates)
        self._protections = frozenset(policy.evictor.protections)
        self._pools = frozenset(pool.name for pool in policy.rebalance.pools(policy.compat))
        args, evictor = policy.migration, policy.evictor
        selectors = (("migration", args.node_selector), ("evictor", evictor.node_selector))
        self._selectors = tuple((whose, text) for whose, text in selectors if text)

    # --- for good -------------------------------------------------------------------------------

    def forbidden(self, held: Held, node: str, now_ms: int) -> Gate | None:
        """Why a pod must not be evicted at all, as things are; None: it may be."""
        why = self.protections.verdict(held)
        if why is not None:
            return Gate("Protection", why)
        pod = held.pod
        if insists(pod):
            return None
        replicas = self.workloads.of(pod)
        return (
            self._age(pod, now_ms)
            or self._node(node)
            or self._replicas(pod, replicas)
            or self.limits.too_few(replicas)
            or self._fit(pod, node)
        )

    def _age(self, pod: Pod, now_ms: int) -> Gate | None:
        least_ms = self.policy.evictor.min_pod_age_ms
        if least_ms is None:
            return None
        least = format_duration_ms(least_ms)
        if pod.created_at_ms is None:
            return Gate("MinPodAge", f"the pod's age is not known; minPodAge is {least}")
        age_ms = now_ms - pod.created_at_ms
        if age_ms >= least_ms:
            return None
        return Gate(
            "MinPodAge", f"the pod is {format_duration_ms(age_ms)} old; minPodAge is {least}"
        )

    def _node(self, name: str) -> Gate | None:
        if "NodeSelector" in self._skipped:
            return None
        for whose, text in self._selectors:
            node = self.inventory.nodes.get(name)
            labels = node.state.labels if node is not None and node.state is not None else {}
            if not _selector(text).matches(labels):
                return Gate("NodeSelector", f"node {name} does not match {whose}.nodeSelector")
        return None

    def _replicas(self, pod: Pod, replicas: Replicas | None) -> Gate | None:
        evictor = self.policy.evictor
        least = evictor.min_replicas
        if replicas is not None and least > 1 and replicas.count < least:
            return Gate("MinReplicas", f"{replicas}; minReplicas is {least}")
        names = self._protections
        if "PodsWithoutPDB" in names and not self.budgets.covering(pod):
            return Gate("PodsWithoutPDB", "no disruption budget covers the pod")
        if "PodsWithPDBBlockingSingleReplicaOwner" in names:
            single = replicas is not None and replicas.count == 1
            if single and any(left(row) <= 0 for row in self.budgets.covering_rows(pod)):
                text = f"{replicas}, and a disruption budget allows none to go"
                return Gate("PodsWithPDBBlockingSingleReplicaOwner", text)
        return None

    def _fit(self, pod: Pod, node: str) -> Gate | None:
        wanted = self.policy.migration.node_fit or self.policy.evictor.node_fit
        if not wanted or "NodeFit" in self._skipped or self.rooms.find(pod, node) is not None:
            return None
        return Gate("NodeFit", "no other node takes the pod; nodeFit is true")

    # --- for now --------------------------------------------------------------------------------

    def held_back(self, pod: Pod, wish: Wish, now_ms: int, *, waiting_too: bool) -> Gate | None:
        """What holds a pod's migration back for now; None: nothing does.

        Args:
            pod: as it is now.
            wish: its node, pool, and whether windows hold.
            now_ms: the log's time.
            waiting_too: a new migration is asked for; those that wait count as if they came first.
        """
        if not wish.ignore_windows:
            why = self.closed(wish.pool, wish.node, pod.namespace, now_ms)
            if why is not None:
                return Gate("MaintenanceWindow", why)
        replicas = self.workloads.of(pod)
        if not insists(pod):
            gate = self.limits.gate(pod, wish.node, replicas, waiting_too=waiting_too)
            if gate is not None:
                return gate
        return self.exhausted(pod, replicas, now_ms, waiting_too=waiting_too)

    def closed(self, pool: str, node: str, namespace: str, now_ms: int) -> str | None:
        """Which windows are closed for a pod of a namespace on a node; None: those that hold are open.

        A pool that the policy does not know any more is the one that the node belongs to now: a migration that waits does
        not slip through because its pool has got another name.
        """
        if pool not in self._pools:
            pool = pool_of(self.policy, self.inventory.nodes.get(node))
        return self.policy.maintenance.closed(pool, namespace, now_ms)

    def exhausted(
        self, pod: Pod, replicas: Replicas | None, now_ms: int, *, waiting_too: bool
    ) -> Gate | None:
        """Which rate or budget allows no further eviction; None: all do."""
        uid = "" if replicas is None else replicas.owner_uid
        ahead = sum(row.pod.uid != pod.uid and not row.attempts for row in self.book.of_owner(uid))
        gate = self.limiters.exhausted(pod, replicas, now_ms, ahead=ahead if waiting_too else 0)
        if gate is not None:
            return gate
        why = self.budgets.exhausted(pod)
        if why is None and waiting_too and self.budgets.covering(pod):
            why = self._spoken_for(pod)
        return None if why is None else Gate("DisruptionBudget", why)

    def _spoken_for(self, pod: Pod) -> str | None:
        """Why what a budget has left will be taken by migrations that wait; None: it will not."""
        (row,) = self.budgets.covering_rows(pod)
        waiting = 0
        for other in self.book.in_namespace(pod.namespace):
            found = self.inventory.held(other.pod.uid)
            if other.pod.uid != pod.uid and not other.attempts and found is not None:
                selector = row.budget.selector
                waiting += selector is not None and selector.matches(found[1].pod.labels)
        if left(row) > waiting:
            return None
        budget = row.budget
        return (
            f"disruption budget {budget.namespace}/{budget.name} has {left(row)} left, for which "
            f"{waiting} migrations wait"
        )

    # --- mode -----------------------------------------------------------------------------------

    def mode_of(self, held: Held, wanted: Mode | None) -> Mode | Gate:
        """How a pod would be migrated, or why it would not be.

        Room is reserved only for pods that loadstream places again: of a scheduler of
        `schedulerNames`, or placed by a decision of ours before. Nobody replaces a bare pod, and for a pod
        that asks for what no filter evaluates no node is known to be right.
        """
        mode = wanted or self.policy.migration.default_job_mode
        if mode == "EvictDirectly" or controller(held.pod) is None:
            return "EvictDirectly"
        names = self.policy.migration.scheduler_names
        if held.pod.scheduler in names or held.decision_id is not None:
            return self.unreservable(held.pod) or mode
        if self.policy.other_schedulers == "evictDirectly":
            return "EvictDirectly"
        scheduler = held.pod.scheduler or "default-scheduler"
        named = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return Gate(
            "OtherScheduler",
            f"the pod is of scheduler {scheduler}, which is not among migration.schedulerNames "
            f"({named}); otherSchedulers is refuse",
        )

    def unreservable(self, pod: Pod) -> Gate | None:
        """Why no room can be reserved for a pod's replacement on any node; None: it can."""
        why = refusal(pod)
        if why is None:
            return None
        return Gate(
            UNRESERVABLE,
            f"{why}, so no room can be reserved for a replacement; mode EvictDirectly does without",
        )


def pool_of(policy: Policy, node: Node | None) -> str:
    """The pool that a node belongs to: the first that selects it."""
    labels = node.state.labels if node is not None and node.state is not None else {}
    for pool in policy.rebalance.pools("loadstream"):
        if pool.node_selector is None or pool.node_selector.matches(labels):
            return pool.name
    return ""


@lru_cache(maxsize=64)
def _selector(text: str) -> LabelSelector:
    return parse_selector(text)
