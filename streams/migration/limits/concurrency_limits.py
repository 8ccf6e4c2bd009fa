"""How many pods may move at once: in the cluster, from a node, in a namespace, of a workload.

Migrations count after arbitration, and while their command may still be executed. For a new migration,
migrations that wait for arbitration count too. A limit of 0 is off, as upstream.
Source: docs/reference/upstream.md M3 to M5, M12, G10.
"""

from schemas.messages.pods import Pod
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.migration.limits.workloads import Replicas
from streams.migration.registry import MigrationGroup, Registry, is_moving
from streams.pods.held_pod import is_overdue
from streams.rebalance.candidates import Gate, Scope


def resolve_limit(value: int | str | None, replicas: int) -> int:
    """Convert a number or percentage to a number of pods, at least 1 and at most all replicas.

    Percentages are rounded down. None stands for the default: one of up to three replicas, two of four to
    ten, 10 % of more.
    """
    if value is None:
        value = "10%" if replicas > 10 else 2 if replicas >= 4 else 1
    count = value if isinstance(value, int) else replicas * int(value[:-1]) // 100
    return min(max(count, 1), max(replicas, 1))


class ConcurrencyLimits:
    def __init__(self, inventory: Inventory, registry: Registry) -> None:
        self.inventory = inventory
        self.registry = registry
        self.owners = inventory.owners
        self.set_policy(inventory.policy)

    def set_policy(self, policy: Policy) -> None:
        self.args = policy.migration
        self._as_koordinator = policy.compat == "koordinator"
        self._skipped = frozenset(policy.migration.skip_eviction_gates)

    def check(
        self, pod: Pod, node: str, replicas: Replicas | None, *, include_waiting: bool
    ) -> Gate | None:
        """Return the gate of the first limit that the move of a pod would exceed; None if there is none.

        The pod's migration does not count. With `include_waiting`, migrations that wait for arbitration count.
        """
        args, registry = self.args, self.registry
        migration = registry.find_by_pod(pod.uid)
        total = len(registry) if include_waiting else registry.moving
        total -= migration is not None and (include_waiting or is_moving(migration))
        own_migration_id = "" if migration is None else migration.migration_id
        group = registry.get_node_group(node)
        namespace_group = registry.get_namespace_group(pod.namespace)
        per_node = group.count_others(own_migration_id, include_waiting=include_waiting)
        per_node -= self._count_overdue(group, include_waiting=include_waiting)
        per_namespace = namespace_group.count_others(
            own_migration_id, include_waiting=include_waiting
        )
        counts = (
            ("MaxMigratingGlobally", args.max_migrating_globally, total, "in the cluster"),
            ("MaxMigratingPerNode", args.max_migrating_per_node, per_node, f"from node {node}"),
            ("MaxMigratingPerNamespace", args.max_migrating_per_namespace,
             per_namespace, f"in namespace {pod.namespace}"),
        )  # fmt: skip
        for name, limit, count, where in counts:
            if limit and count >= limit and name not in self._skipped:
                text = f"{count} migrations are under way {where}; {_convert_to_argument(name)} is {limit}"
                return Gate(name, text, _SCOPES.get(name, "pod"))
        if replicas is None:
            return None
        return self._check_workload(own_migration_id, replicas, include_waiting)

    def _count_overdue(self, group: MigrationGroup, *, include_waiting: bool) -> int:
        # Pods that do not terminate must not keep their node hot.
        limit = self.args.max_migrating_per_node
        uids = group.select(include_waiting=include_waiting)
        if self._as_koordinator or not limit or len(uids) < limit:
            return 0
        pods = map(self.inventory.find_held, uids.values())
        now_ms = self.inventory.now_ms
        return sum(pod is not None and is_overdue(pod[1].pod, now_ms) for pod in pods)

    def _check_workload(
        self, own_migration_id: str, replicas: Replicas, include_waiting: bool
    ) -> Gate | None:
        group = self.registry.get_owner_group(replicas.owner)
        count = group.count_others(own_migration_id, include_waiting=include_waiting)
        most = resolve_limit(self.args.max_migrating_per_workload, replicas.count)
        if count >= most and "MaxMigratingPerWorkload" not in self._skipped:
            text = f"{count} migrations of {replicas} are under way; {most} may be"
            return Gate("MaxMigratingPerWorkload", text)
        if "MaxUnavailablePerWorkload" in self._skipped:
            return None
        most = resolve_limit(self.args.max_unavailable_per_workload, replicas.count)
        if self._estimate_unavailable(replicas, count) < most:
            return None
        unavailable = self._count_unavailable(replicas, group, own_migration_id, include_waiting)
        if unavailable >= most:
            text = f"{unavailable} pods of {replicas} are unavailable; {most} may be"
            return Gate("MaxUnavailablePerWorkload", text)
        return None

    def _estimate_unavailable(self, replicas: Replicas, moving: int) -> int:
        """Return an upper bound: the number if no migrating pod is unready."""
        count = len(self.owners.list_unready(replicas.owner)) + moving
        if replicas.inferred:
            return count
        missing = replicas.count - len(self.owners.list_pods(replicas.owner))
        return max(count, missing + count)

    def _count_unavailable(
        self,
        replicas: Replicas,
        group: MigrationGroup,
        own_migration_id: str,
        include_waiting: bool,
    ) -> int:
        """Count pods that are unready or migrating, or missing if the number of replicas is known."""
        uids = group.select(include_waiting=include_waiting)
        pods = self.owners.list_pods(replicas.owner)
        unready = self.owners.list_unready(replicas.owner)
        moving_ready = {
            uid
            for migration_id, uid in uids.items()
            if migration_id != own_migration_id and uid not in unready
        }
        count = len(unready) + len(moving_ready)
        if replicas.inferred:
            return count
        existing = sum(uid in pods for uid in moving_ready)
        return max(count, replicas.count - (len(pods) - len(unready) - existing))

    def check_workload_size(self, replicas: Replicas | None) -> Gate | None:
        """Return the gate of a workload that is too small for evictions; None if it is not."""
        skipped = "ExpectedReplicas" in self._skipped or self.args.skip_check_expected_replicas
        if replicas is None or skipped:
            return None
        migrating = resolve_limit(self.args.max_migrating_per_workload, replicas.count)
        unavailable = resolve_limit(self.args.max_unavailable_per_workload, replicas.count)
        if replicas.count > 1 and replicas.count not in (migrating, unavailable):
            return None
        limits = ((migrating, "migrate"), (unavailable, "be unavailable"))
        verbs = [f"{most} {verb}" for most, verb in limits if most >= replicas.count]
        permission = " and ".join(verbs).replace(" ", " may ", 1)
        text = (
            f"{replicas} is too small: {permission} at once, which is all of them; "
            "skipCheckExpectedReplicas is false"
        )
        return Gate("ExpectedReplicas", text)


_SCOPES: dict[str, Scope] = {
    "MaxMigratingGlobally": "round",
    "MaxMigratingPerNode": "node",
}


def _convert_to_argument(gate: str) -> str:
    return gate[0].lower() + gate[1:]
