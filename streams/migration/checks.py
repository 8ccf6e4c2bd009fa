"""The gates that stop or delay a migration, in the order in which they are checked.

A lasting gate makes a migration fail, a temporary gate makes it wait. The order is that of upstream
(docs/reference/upstream.md M11 to M15). Gates that upstream lacks are checked where they cost least:

    lasting    protections of the pod, age, node selector, replicas, failures of Jobs, fit elsewhere
    temporary  maintenance windows, workloads that scale down, concurrency limits, rates per workload
               and namespace, disruption budgets

A pod's evict annotation lifts the same gates as upstream. The other gates still apply.
"""

from collections import Counter

from schemas.messages.migrations import Mode
from schemas.messages.pods import Pod
from schemas.policy.durations import format_duration_ms
from schemas.policy.selectors import parse_selector
from streams.inventory.inventory import Inventory
from streams.migration.limits.budgets import Budgets, count_left
from streams.migration.limits.concurrency_limits import ConcurrencyLimits
from streams.migration.limits.rate_limits import Limiters
from streams.migration.limits.workloads import Replicas, Workloads
from streams.migration.protections import Protections
from streams.migration.registry import Registry
from streams.migration.replacement_rooms import ReplacementRooms
from streams.placement.filters.unsupported import explain_unsupported
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate

#: Gate of pods whose replacement loadstream cannot place.
UNRESERVABLE = "Unreservable"
#: Cost of a check that ranks all nodes, relative to other checks.
FIT_COST = 5


class Gates:
    """The gates of one cluster under its policy."""

    def __init__(
        self,
        inventory: Inventory,
        registry: Registry,
        workloads: Workloads,
        budgets: Budgets,
        limiters: Limiters,
        rooms: ReplacementRooms,
        protections: Protections,
    ) -> None:
        self.inventory = inventory
        self.registry = registry
        self.workloads = workloads
        self.budgets = budgets
        self.limiters = limiters
        self.rooms = rooms
        self.protections = protections
        self.limits = ConcurrencyLimits(inventory, registry)
        self._waiting: dict[str, Counter[str]] = {}
        """Number of migrations without a command, by namespace and name of the budget of their pod."""
        self._waiting_version = (-1, -1, -1)
        """Version of the data from which `_waiting` was counted."""

    def _is_skipped(self, gate: str) -> bool:
        return gate in self.inventory.policy.migration.skip_eviction_gates

    @property
    def _checks_fit(self) -> bool:
        policy = self.inventory.policy
        checks_fit = policy.migration.node_fit or policy.evictor.node_fit
        return checks_fit and not self._is_skipped("NodeFit")

    @property
    def check_cost(self) -> int:
        """Cost of checking one pod, in units of a tick's budget."""
        return FIT_COST if self._checks_fit else 1

    # --- lasting gates --------------------------------------------------------------------------

    def check_lasting(self, held: HeldPod, node: str, now_ms: int) -> Gate | None:
        """Return the lasting gate that stops the eviction of a pod; None if there is none."""
        protection = self.protections.explain(held)
        if protection is not None:
            return Gate("Protection", protection)
        return self.check_unprotected(held, node, now_ms)

    def check_unprotected(self, held: HeldPod, node: str, now_ms: int) -> Gate | None:
        """Return the lasting gate other than protections that stops an eviction; None if there is none."""
        pod = held.pod
        if self.protections.has_evict_annotation(pod):
            return None
        replicas = self.workloads.find_replicas(pod)
        return (
            self._check_age(pod, now_ms)
            or self._check_node(node)
            or self._check_replicas(pod, replicas)
            or self.limits.check_workload_size(replicas)
            or self._check_job_failure(replicas, 0)
            or self._check_fit(pod, node)
        )

    def _check_age(self, pod: Pod, now_ms: int) -> Gate | None:
        min_age_ms = self.inventory.policy.evictor.min_pod_age_ms
        if min_age_ms is None:
            return None
        min_age = format_duration_ms(min_age_ms)
        if pod.created_at_ms is None:
            return Gate("MinPodAge", f"the pod's age is not known; minPodAge is {min_age}")
        age_ms = max(0, now_ms - pod.created_at_ms)  # log time may be behind
        if age_ms >= min_age_ms:
            return None
        return Gate(
            "MinPodAge", f"the pod is {format_duration_ms(age_ms)} old; minPodAge is {min_age}"
        )

    def _check_node(self, name: str) -> Gate | None:
        policy = self.inventory.policy
        selectors = (
            ("migration", policy.migration.node_selector),
            ("evictor", policy.evictor.node_selector),
        )
        for section, text in () if self._is_skipped("NodeSelector") else selectors:
            node = self.inventory.nodes.get(name)
            labels = node.state.labels if node is not None and node.state is not None else {}
            if text and not parse_selector(text).matches(labels):
                return Gate("NodeSelector", f"node {name} does not match {section}.nodeSelector")
        return None

    def _check_replicas(self, pod: Pod, replicas: Replicas | None) -> Gate | None:
        evictor = self.inventory.policy.evictor
        required = evictor.min_replicas
        if replicas is not None and required > 1 and replicas.count < required:
            return Gate("MinReplicas", f"{replicas}; minReplicas is {required}")
        if "PodsWithoutPDB" in evictor.protections and not self.budgets.find_covering_names(pod):
            return Gate("PodsWithoutPDB", "no disruption budget covers the pod")
        if "PodsWithPDBBlockingSingleReplicaOwner" in evictor.protections:
            is_single = replicas is not None and replicas.count == 1
            if is_single and any(count_left(row) <= 0 for row in self.budgets.find_covering(pod)):
                text = f"{replicas} is covered by a disruption budget that allows no eviction"
                return Gate("PodsWithPDBBlockingSingleReplicaOwner", text)
        return None

    def _is_own_gate_off(self, gate: str) -> bool:
        """Tell whether a gate that Koordinator lacks is off."""
        return self.inventory.policy.follows_koordinator or self._is_skipped(gate)

    def _check_job_failure(self, replicas: Replicas | None, moving: int) -> Gate | None:
        if replicas is None or self._is_own_gate_off("JobFailures"):
            return None
        text = replicas.explain_job_failure(moving)
        return None if text is None else Gate("JobFailures", text)

    def _check_scaling_down(self, replicas: Replicas | None, now_ms: int) -> Gate | None:
        # A controller that scales down chooses the pods to remove itself.
        if replicas is None or self._is_own_gate_off("ScalingDown"):
            return None
        text = replicas.explain_scaling_down(now_ms)
        return None if text is None else Gate("ScalingDown", text)

    def _check_fit(self, pod: Pod, node: str) -> Gate | None:
        if not self._checks_fit or self.rooms.find_node(pod, node) is not None:
            return None
        return Gate("NodeFit", "no other node accepts the pod; nodeFit is true")

    # --- temporary gates ------------------------------------------------------------------------

    def check_temporary(
        self,
        pod: Pod,
        node: str,
        now_ms: int,
        *,
        by_round: bool,
        ignore_windows: bool,
        include_waiting: bool,
    ) -> Gate | None:
        """Return the gate that delays a migration; None if there is none.

        Args:
            pod: the pod.
            node: its node.
            now_ms: log time.
            by_round: whether a round has proposed the migration.
            ignore_windows: whether maintenance windows are not checked.
            include_waiting: whether migrations that wait for arbitration count, as for a new migration.
        """
        if not ignore_windows:
            gate = self.check_windows(pod.namespace, now_ms)
            if gate is not None:
                return gate
        replicas = self.workloads.find_replicas(pod)
        if by_round:
            gate = self._check_scaling_down(replicas, now_ms)
            if gate is not None:
                return gate
        if not self.protections.has_evict_annotation(pod):
            gate = self.limits.check(pod, node, replicas, include_waiting=include_waiting)
            if gate is None and replicas is not None and replicas.evictions_allowed is not None:
                group = self.registry.get_owner_group(replicas.owner)
                moving = group.count_others(pod.uid, include_waiting=include_waiting)
                gate = self._check_job_failure(replicas, moving)
            if gate is not None:
                return gate
        return self.check_rates_and_budgets(pod, replicas, now_ms, include_waiting=include_waiting)

    def check_windows(self, namespace: str, now_ms: int) -> Gate | None:
        """Return the gate of closed maintenance windows; None if they allow an eviction now."""
        text = self.inventory.policy.maintenance.explain_closed(namespace, now_ms)
        return None if text is None else Gate("MaintenanceWindow", text)

    def check_rates_and_budgets(
        self, pod: Pod, replicas: Replicas | None, now_ms: int, *, include_waiting: bool
    ) -> Gate | None:
        """Return the rate limit or budget that allows no eviction now; None if there is none."""
        gate = self.limiters.check(pod, replicas, now_ms, include_waiting=include_waiting)
        if gate is not None:
            return gate
        text = self.budgets.explain_exhausted(pod)
        if text is None and include_waiting:
            text = self._explain_waiting(pod)
        return None if text is None else Gate("DisruptionBudget", text)

    def _explain_waiting(self, pod: Pod) -> str | None:
        """Return why migrations without a command will exhaust the pod's budget; None if they will not."""
        row = self.budgets.find_charged(pod)
        if row is None:
            return None
        migration = self.registry.find_by_pod(pod.uid)
        waiting = self._count_waiting(pod.namespace)[row.state.name]
        waiting -= migration is not None and not migration.attempts
        if count_left(row) > waiting:
            return None
        budget = row.state
        return (
            f"disruption budget {budget.namespace}/{budget.name} allows {count_left(row)} more, and "
            f"{waiting} {'migration waits' if waiting == 1 else 'migrations wait'} for it"
        )

    def _count_waiting(self, namespace: str) -> Counter[str]:
        version = self._combine_versions(self.registry.version)
        if version != self._waiting_version:
            self._waiting_version = version
            self._waiting.clear()
        counts = self._waiting.get(namespace)
        if counts is None:
            counts = self._waiting[namespace] = Counter()
            for uid in self.registry.get_namespace_group(namespace).without_command:
                node_and_held = self.inventory.find_held(uid)
                if node_and_held is not None:
                    counts.update(self.budgets.find_covering_names(node_and_held[1].pod))
        return counts

    def count_created(self, pod: Pod, version: int) -> None:
        """Add a new migration to the waiting migrations, instead of counting all of them again.

        `version` is the version of the registry before the migration was created.
        """
        if self._waiting_version != self._combine_versions(version):
            return
        self._waiting_version = self._combine_versions(self.registry.version)
        waiting = self._waiting.get(pod.namespace)
        if waiting is not None:
            waiting.update(self.budgets.find_covering_names(pod))

    def _combine_versions(self, registry_version: int) -> tuple[int, int, int]:
        # Counts depend on migrations, labels of pods, and selectors of budgets.
        return registry_version, self.inventory.owners.version, self.budgets.version

    # --- mode -----------------------------------------------------------------------------------

    def choose_mode(self, held: HeldPod, requested: Mode | None) -> Mode | Gate:
        """Return the mode of a pod's migration, or the gate that stops the migration.

        Room is reserved only for pods that loadstream will place again: their scheduler is one of
        `schedulerNames`, or loadstream has placed them before. Bare pods have no replacement.
        """
        mode = requested or self.inventory.policy.migration.default_job_mode
        if mode == "EvictDirectly" or held.pod.controller is None:
            return "EvictDirectly"
        names = self.inventory.policy.migration.scheduler_names
        if held.pod.scheduler in names or held.decision_id is not None:
            return self.check_reservable(held.pod) or mode
        if self.inventory.policy.other_schedulers == "evictDirectly":
            return "EvictDirectly"
        scheduler = held.pod.scheduler or "default-scheduler"
        listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        return Gate(
            "OtherScheduler",
            f"the pod's scheduler {scheduler} is not among migration.schedulerNames ({listed}); "
            "otherSchedulers is refuse",
        )

    def check_reservable(self, pod: Pod) -> Gate | None:
        """Return the gate of a pod whose replacement loadstream cannot place; None if it can."""
        unsupported = explain_unsupported(pod)
        if unsupported is None:
            return None
        return Gate(
            UNRESERVABLE,
            f"{unsupported}, so no room can be reserved for a replacement; mode EvictDirectly needs none",
        )
