"""How many pods may move at once: in the cluster, from a node, in a namespace, of a workload.

Migrations count after arbitration, and while their command may still be executed. For a new migration,
migrations that wait for arbitration count too. A limit of 0 is off, as upstream.
Source: docs/reference/upstream.md M3 to M5, M12, G10.
"""

from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.migration.limits.workloads import Replicas
from streams.migration.registry import MigrationGroup, Registry
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

    def _is_skipped(self, gate: str) -> bool:
        return gate in self.inventory.policy.migration.skip_eviction_gates

    def check(
        self, pod: Pod, node: str, replicas: Replicas | None, *, include_waiting: bool
    ) -> Gate | None:
        """Return the gate of the first limit that the move of a pod would exceed; None if there is none.

        The pod's migration does not count. With `include_waiting`, migrations that wait for arbitration count.
        """
        args, registry = self.inventory.policy.migration, self.registry
        node_group = registry.get_node_group(node)
        namespace_group = registry.get_namespace_group(pod.namespace)
        limits: tuple[tuple[str, Scope, int | None, MigrationGroup, str], ...] = (
            ("MaxMigratingGlobally", "round",
             args.max_migrating_globally, registry.all, "in the cluster"),
            ("MaxMigratingPerNode", "node",
             args.max_migrating_per_node, node_group, f"from node {node}"),
            ("MaxMigratingPerNamespace", "pod",
             args.max_migrating_per_namespace, namespace_group, f"in namespace {pod.namespace}"),
        )  # fmt: skip
        for name, scope, most, group, where in limits:
            count = group.count_others(pod.uid, include_waiting=include_waiting)
            if not most or count < most or self._is_skipped(name):
                continue
            if scope == "node":
                count -= self._count_overdue(group, include_waiting=include_waiting)
            if count >= most:
                text = f"{count} migrations are under way {where}; {name[0].lower()}{name[1:]} is {most}"
                return Gate(name, text, scope)
        if replicas is None:
            return None
        return self._check_workload(pod.uid, replicas, include_waiting)

    def _count_overdue(self, group: MigrationGroup, *, include_waiting: bool) -> int:
        # Pods that do not terminate must not keep their node hot.
        if self.inventory.policy.follows_koordinator:
            return 0
        uids = group.select(include_waiting=include_waiting)
        found = [self.inventory.find_held(uid) for uid in uids]
        held_pods = [entry[1] for entry in found if entry is not None]
        return sum(is_overdue(held.pod, self.inventory.now_ms) for held in held_pods)

    def _check_workload(self, uid: str, replicas: Replicas, include_waiting: bool) -> Gate | None:
        args = self.inventory.policy.migration
        group = self.registry.get_owner_group(replicas.owner)
        count = group.count_others(uid, include_waiting=include_waiting)
        most = resolve_limit(args.max_migrating_per_workload, replicas.count)
        if count >= most and not self._is_skipped("MaxMigratingPerWorkload"):
            text = f"{count} migrations of {replicas} are under way; {most} may be"
            return Gate("MaxMigratingPerWorkload", text)
        most = resolve_limit(args.max_unavailable_per_workload, replicas.count)
        moving = group.select(include_waiting=include_waiting)
        unavailable = self.count_unavailable(replicas, moving - {uid})
        if unavailable >= most and not self._is_skipped("MaxUnavailablePerWorkload"):
            text = f"{unavailable} pods of {replicas} are unavailable; {most} may be"
            return Gate("MaxUnavailablePerWorkload", text)
        return None

    def count_unavailable(self, replicas: Replicas, moving: set[str]) -> int:
        """Count pods that are unready or moving, or missing if the number of replicas is known."""
        pods = self.inventory.owners.list_pods(replicas.owner)
        unready = self.inventory.owners.list_unready(replicas.owner)
        moving_ready = moving.difference(unready)
        count = len(unready) + len(moving_ready)
        if replicas.inferred:
            return count
        staying = len(pods) - len(unready) - len(pods.keys() & moving_ready)
        return max(count, replicas.count - staying)

    def check_workload_size(self, replicas: Replicas | None) -> Gate | None:
        """Return the gate of a workload that is too small for evictions; None if it is not."""
        args = self.inventory.policy.migration
        is_skipped = args.skip_check_expected_replicas or self._is_skipped("ExpectedReplicas")
        if replicas is None or is_skipped:
            return None
        migrating = resolve_limit(args.max_migrating_per_workload, replicas.count)
        unavailable = resolve_limit(args.max_unavailable_per_workload, replicas.count)
        if replicas.count > 1 and replicas.count not in (migrating, unavailable):
            return None
        limits = ((migrating, "migrate"), (unavailable, "be unavailable"))
        allowed = [f"{most} may {verb}" for most, verb in limits if most >= replicas.count]
        text = (
            f"{replicas} is too small: {' and '.join(allowed)} at once, which is all of them; "
            "skipCheckExpectedReplicas is false"
        )
        return Gate("ExpectedReplicas", text)
