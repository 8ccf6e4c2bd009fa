"""What holds a migration back: for good, or until something changes.

The gates in their order (docs/reference/upstream.md M11 to M15), with loadstream's own where they cost least:

    for good  protections of the pod, age, node selector, fit elsewhere, replicas, failures of Jobs, budgets that must be there
    for now   maintenance windows, workloads that are scaled down, limits on what moves at once, rates per workload and namespace, budgets

A pod with the evict annotation passes the upstream gates among them, as upstream, and no others.
"""

from collections import Counter
from functools import lru_cache

from schemas.messages.migrations import Mode
from schemas.messages.pods import Pod
from schemas.policy import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.selectors import LabelSelector, parse_selector
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.migration.gates.budgets import Budgets, left
from streams.migration.gates.concurrency_limits import ConcurrencyLimits
from streams.migration.gates.protections import Protections
from streams.migration.gates.rate_limits import Limiters
from streams.migration.gates.workloads import Replicas, Workloads
from streams.migration.proposal import Proposal
from streams.migration.registry import Registry
from streams.migration.reservations import HeldRoom
from streams.placement.filters.unsupported import refusal
from streams.pods.held import Held
from streams.rebalance.candidates import Gate

#: Gate of pods for whose replacement no room can be reserved anywhere.
UNRESERVABLE = "Unreservable"
#: A question that asks all nodes about a pod takes as long as this many that do not.
FIT_EFFORT = 5


class Gates:
    """The gates of one cluster under its policy."""

    def __init__(
        self,
        inventory: Inventory,
        registry: Registry,
        workloads: Workloads,
        budgets: Budgets,
        limiters: Limiters,
        held_room: HeldRoom,
        protections: Protections,
    ) -> None:
        self.inventory = inventory
        self.registry = registry
        self.workloads = workloads
        self.budgets = budgets
        self.limiters = limiters
        self.held_room = held_room
        self.protections = protections
        self.limits = ConcurrencyLimits(inventory, registry)
        self._waiting: dict[str, Counter[str]] = {}
        """How many migrations wait for each budget, by namespace and the budget's name."""
        self._waited_at = (-1, -1, -1)
        """The state at which that was so."""
        self.asked = 0
        """How many migrations have been asked for the budgets that they wait for."""
        self.set_policy(inventory.policy)

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy."""
        self.protections.set_policy(policy)
        self.limits.set_policy(policy)
        self._as_koordinator = policy.compat == "koordinator"
        self._skipped = frozenset(policy.migration.skip_eviction_gates)
        self._protections = frozenset(policy.evictor.protections)
        self._pools = frozenset(pool.name for pool in policy.rebalance.pools(policy.compat))
        args, evictor = policy.migration, policy.evictor
        self._fits = (args.node_fit or evictor.node_fit) and "NodeFit" not in self._skipped
        selectors = (("migration", args.node_selector), ("evictor", evictor.node_selector))
        self._selectors = tuple((whose, text) for whose, text in selectors if text)

    @property
    def effort(self) -> int:
        """Units of a budget that the check of one pod takes.

        With nodeFit each kind of pods is compared with all nodes.
        """
        return FIT_EFFORT if self._fits else 1

    # --- for good -------------------------------------------------------------------------------

    def forbidden(self, held: Held, node: str, now_ms: int) -> Gate | None:
        """Why a pod must not be evicted at all, as things are; None: it may be."""
        why = self.protections.verdict(held)
        if why is not None:
            return Gate("Protection", why)
        pod = held.pod
        if self.protections.insists(pod):
            return None
        replicas = self.workloads.of(pod)
        return (
            self._age(pod, now_ms)
            or self._node(node)
            or self._replicas(pod, replicas)
            or self.limits.too_few(replicas)
            or self._job_failure(replicas, 0)
            or self._fit(pod, node)
        )

    def _age(self, pod: Pod, now_ms: int) -> Gate | None:
        least_ms = self.inventory.policy.evictor.min_pod_age_ms
        if least_ms is None:
            return None
        least = format_duration_ms(least_ms)
        if pod.created_at_ms is None:
            return Gate("MinPodAge", f"the pod's age is not known; minPodAge is {least}")
        age_ms = max(0, now_ms - pod.created_at_ms)  # the log's time may be behind
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
        evictor = self.inventory.policy.evictor
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

    def _job_failure(self, replicas: Replicas | None, moving: int) -> Gate | None:
        if replicas is None or self._as_koordinator or "JobFailures" in self._skipped:
            return None
        why = replicas.failure_counts(moving)
        return None if why is None else Gate("JobFailures", why)

    def _scaling_down(self, replicas: Replicas | None, now_ms: int) -> Gate | None:
        """A round leaves pods to the controller that is choosing some of them itself."""
        if replicas is None or self._as_koordinator or "ScalingDown" in self._skipped:
            return None
        why = replicas.scaling_down(now_ms)
        return None if why is None else Gate("ScalingDown", why)

    def _fit(self, pod: Pod, node: str) -> Gate | None:
        if not self._fits or self.held_room.find(pod, node) is not None:
            return None
        return Gate("NodeFit", "no other node takes the pod; nodeFit is true")

    # --- for now --------------------------------------------------------------------------------

    def held_back(
        self, pod: Pod, proposal: Proposal, now_ms: int, *, waiting_too: bool
    ) -> Gate | None:
        """What holds a pod's migration back for now; None: nothing does.

        Args:
            pod: as it is now.
            proposal: its node, pool, and whether windows hold.
            now_ms: the log's time.
            waiting_too: a new migration is asked for; those that wait count as if they came first.
        """
        if not proposal.ignore_windows:
            why = self.closed(proposal.pool, proposal.node, pod.namespace, now_ms)
            if why is not None:
                return Gate("MaintenanceWindow", why)
        replicas = self.workloads.of(pod)
        if proposal.trigger == "rebalance":
            gate = self._scaling_down(replicas, now_ms)
            if gate is not None:
                return gate
        if not self.protections.insists(pod):
            gate = self.limits.gate(pod, proposal.node, replicas, waiting_too=waiting_too)
            if gate is None and replicas is not None and replicas.evictions_allowed is not None:
                group = self.registry.owner_group(replicas.owner)
                uids = group.counted(waiting_too=waiting_too).values()
                gate = self._job_failure(replicas, len(uids) - (pod.uid in uids))
            if gate is not None:
                return gate
        return self.exhausted(pod, replicas, now_ms, waiting_too=waiting_too)

    def closed(self, pool: str, node: str, namespace: str, now_ms: int) -> str | None:
        """Which windows are closed for a pod of a namespace on a node; None: those that hold are
        open.

        A pool that the policy no longer names is replaced by the one that the node belongs to now:
        a migration that waits does not slip through because its pool has got another name.
        """
        if pool not in self._pools:
            pool = pool_of(self.inventory.policy, self.inventory.nodes.get(node))
        return self.inventory.policy.maintenance.explain_closed(pool, namespace, now_ms)

    def exhausted(
        self, pod: Pod, replicas: Replicas | None, now_ms: int, *, waiting_too: bool
    ) -> Gate | None:
        """Which rate or budget allows no further eviction; None: all do."""
        gate = self.limiters.exhausted(
            pod, replicas, now_ms, self._ahead(pod, replicas) if waiting_too else {}
        )
        if gate is not None:
            return gate
        why = self.budgets.exhausted(pod)
        if why is None and waiting_too:
            why = self._spoken_for(pod)
        return None if why is None else Gate("DisruptionBudget", why)

    def _ahead(self, pod: Pod, replicas: Replicas | None) -> dict[str, int]:
        """How many evictions are to come before that of a pod, by what a limiter counts."""
        own = self.registry.of_pod(pod.uid)
        own_id = "" if own is None else own.migration_id
        groups = {
            "workload": self.registry.owner_group("" if replicas is None else replicas.owner),
            "namespace": self.registry.namespace_group(pod.namespace),
        }
        return {
            scope: len(group.untried) - (own_id in group.untried) for scope, group in groups.items()
        }

    def _spoken_for(self, pod: Pod) -> str | None:
        """Why what a budget has left will be taken by migrations that wait; None: it will not."""
        row = self.budgets.find_charged(pod)
        if row is None:
            return None
        own = self.registry.of_pod(pod.uid)
        waiting = self._waiting_for(pod.namespace)[row.budget.name]
        waiting -= own is not None and not own.attempts
        if left(row) > waiting:
            return None
        budget = row.budget
        return (
            f"disruption budget {budget.namespace}/{budget.name} has {left(row)} left, for which "
            f"{waiting} migrations wait"
        )

    def _waiting_for(self, namespace: str) -> Counter[str]:
        """How many migrations of a namespace wait for each of its budgets."""
        state = self._state(self.registry.version)
        if state != self._waited_at:
            self._waited_at = state
            self._waiting.clear()
        known = self._waiting.get(namespace)
        if known is None:
            known = self._waiting[namespace] = Counter()
            for uid in self.registry.namespace_group(namespace).untried.values():
                found = self.inventory.held(uid)
                if found is not None:
                    self.asked += 1
                    known.update(self.budgets.covering(found[1].pod))
        return known

    def created(self, pod: Pod, version: int) -> None:
        """A migration of a pod was created, and nothing else: what waits for budgets need not be
        counted again.

        Args:
            pod: the pod.
            version: the registry's before.
        """
        if self._waited_at != self._state(version):
            return
        self._waited_at = self._state(self.registry.version)
        waiting = self._waiting.get(pod.namespace)
        if waiting is not None:
            waiting.update(self.budgets.covering(pod))

    def _state(self, version: int) -> tuple[int, int, int]:
        """What waits for a budget depends on the migrations, on pods' labels, and on the budgets'
        selectors.
        """
        return version, self.inventory.owners.version, self.budgets.version

    # --- mode -----------------------------------------------------------------------------------

    def mode_of(self, held: Held, wanted: Mode | None) -> Mode | Gate:
        """How a pod would be migrated, or why it would not be.

        Room is reserved only for pods that loadstream places again: of a scheduler of
        `schedulerNames`, or placed by a decision of ours before. Nothing replaces a bare pod, and
        for a pod that asks for what no filter evaluates no node is known to be right.
        """
        mode = wanted or self.inventory.policy.migration.default_job_mode
        if mode == "EvictDirectly" or held.pod.controller is None:
            return "EvictDirectly"
        names = self.inventory.policy.migration.scheduler_names
        if held.pod.scheduler in names or held.decision_id is not None:
            return self.unreservable(held.pod) or mode
        if self.inventory.policy.other_schedulers == "evictDirectly":
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
