"""How many pods may move at once: globally, from a node, in a namespace, of a workload.

Counted are migrations that have passed arbitration, those whose command may still be carried out,
and, before a new one is taken in, those that wait as well. A limit of 0 is off, as upstream.
Source: docs/reference/upstream.md M3 to M5, M12, G10.
"""

from schemas.messages.pods import Pod
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.migration.gates.workloads import Replicas
from streams.migration.registry import MigrationGroup, Registry, moving
from streams.pods.held import is_overdue
from streams.rebalance.candidates import Gate, Scope

#: Owners of which it is remembered how many of their pods on the move are ready.
_GONE_MAX = 1_024


def share_of(value: int | str | None, replicas: int) -> int:
    """How many of a workload's pods a number or percentage is, at least 1 and at most all.

    Percentages are rounded down. By default: 10 % of more than ten replicas, two of four to ten,
    else one.
    """
    if value is None:
        value = "10%" if replicas > 10 else 2 if replicas >= 4 else 1
    count = value if isinstance(value, int) else replicas * int(value[:-1]) // 100
    return min(max(count, 1), max(replicas, 1))


class ConcurrencyLimits:
    """The limits of one policy over the migrations of one cluster."""

    def __init__(self, inventory: Inventory, registry: Registry) -> None:
        self.inventory = inventory
        self.registry = registry
        self.owners = inventory.owners
        self._gone: dict[tuple[str, bool], tuple[tuple[int, int], int, int]] = {}
        """By owner, and whether those that wait count: versions of the registry's group and of the
        owners' pods; how many pods on the move are not among those that are not ready; how many of
        these are held."""
        self.recounts = 0
        """How often the pods on the move of an owner were counted one by one."""
        self.set_policy(inventory.policy)

    def set_policy(self, policy: Policy) -> None:
        """Count by another policy."""
        self.args = policy.migration
        self._as_koordinator = policy.compat == "koordinator"
        self._skipped = frozenset(policy.migration.skip_eviction_gates)

    def gate(
        self, pod: Pod, node: str, replicas: Replicas | None, *, waiting_too: bool
    ) -> Gate | None:
        """The first limit that one more migration would exceed; None: there is room for it.

        Args:
            pod: the pod that would move; its own migration does not count.
            node: the node that it would leave.
            replicas: those of its owner; None: it has none, and no limit per workload.
            waiting_too: count migrations that have not passed arbitration as well.
        """
        args, registry = self.args, self.registry
        own = registry.of_pod(pod.uid)
        under_way = len(registry) if waiting_too else registry.moving
        under_way -= own is not None and (waiting_too or moving(own))
        own_id = "" if own is None else own.migration_id
        group = registry.node_group(node)

        def others(group: MigrationGroup) -> int:
            counted = group.counted(waiting_too=waiting_too)
            return len(counted) - (own_id in counted)

        counts = (
            ("MaxMigratingGlobally", args.max_migrating_globally, under_way, "in the cluster"),
            ("MaxMigratingPerNode", args.max_migrating_per_node,
             others(group) - self._count_overdue(group, waiting_too=waiting_too), f"from node {node}"),
            ("MaxMigratingPerNamespace", args.max_migrating_per_namespace,
             others(registry.namespace_group(pod.namespace)), f"in namespace {pod.namespace}"),
        )  # fmt: skip
        for name, limit, count, where in counts:
            if limit and count >= limit and name not in self._skipped:
                text = f"{count} migrations are under way {where}; {_argument(name)} is {limit}"
                return Gate(name, text, _SCOPES.get(name, "pod"))
        return None if replicas is None else self._workload(own_id, replicas, waiting_too)

    def _count_overdue(self, group: MigrationGroup, *, waiting_too: bool) -> int:
        """Pods that should be gone: a node is not left hot because one of them does not end."""
        limit = self.args.max_migrating_per_node
        uids = group.counted(waiting_too=waiting_too)
        if self._as_koordinator or not limit or len(uids) < limit:
            return 0
        found = map(self.inventory.held, uids.values())
        now_ms = self.inventory.now_ms
        return sum(each is not None and is_overdue(each[1].pod, now_ms) for each in found)

    def _workload(self, own_id: str, replicas: Replicas, waiting_too: bool) -> Gate | None:
        group = self.registry.owner_group(replicas.owner)
        counted = group.counted(waiting_too=waiting_too)
        count = len(counted) - (own_id in counted)
        most = share_of(self.args.max_migrating_per_workload, replicas.count)
        if count >= most and "MaxMigratingPerWorkload" not in self._skipped:
            text = f"{count} migrations of {replicas} are under way; at most {most} may be"
            return Gate("MaxMigratingPerWorkload", text)
        if "MaxUnavailablePerWorkload" in self._skipped:
            return None
        most = share_of(self.args.max_unavailable_per_workload, replicas.count)
        if self._unavailable_at_most(replicas, count) < most:
            return None
        unavailable = self._unavailable(replicas, group, own_id, waiting_too)
        if unavailable >= most:
            text = f"{unavailable} pods of {replicas} are unavailable; at most {most} may be"
            return Gate("MaxUnavailablePerWorkload", text)
        return None

    def _unavailable_at_most(self, replicas: Replicas, others: int) -> int:
        """As many as there are if no pod on the move is among those that are not ready."""
        count = len(self.owners.unready(replicas.owner)) + others
        if replicas.inferred:
            return count
        missing = replicas.count - len(self.owners.pods(replicas.owner))
        return max(count, missing + count)

    def _unavailable(
        self, replicas: Replicas, group: MigrationGroup, own_id: str, waiting_too: bool
    ) -> int:
        """Pods that are not ready, on the move, or, where the owner's number is known, missing."""
        uids = group.counted(waiting_too=waiting_too)
        pods = self.owners.pods(replicas.owner)
        unready = self.owners.unready(replicas.owner)
        known = self._gone.get((replicas.owner, waiting_too))
        state = (group.version, self.owners.version)
        if known is None or known[0] != state:
            self.recounts += 1
            moving_ready = sum(uid not in unready for uid in uids.values())
            there = sum(uid in pods and uid not in unready for uid in uids.values())
            known = self._gone[replicas.owner, waiting_too] = state, moving_ready, there
            while len(self._gone) > _GONE_MAX:
                del self._gone[next(iter(self._gone))]
        _, moving_ready, there = known
        own = uids.get(own_id)
        if own is not None and own not in unready:
            moving_ready -= 1
            there -= own in pods
        count = len(unready) + moving_ready
        if replicas.inferred:
            return count
        return max(count, replicas.count - (len(pods) - len(unready) - there))

    def too_few(self, replicas: Replicas | None) -> Gate | None:
        """Why a workload is too small to be touched; None: it is not."""
        skipped = "ExpectedReplicas" in self._skipped or self.args.skip_check_expected_replicas
        if replicas is None or skipped:
            return None
        migrating = share_of(self.args.max_migrating_per_workload, replicas.count)
        unavailable = share_of(self.args.max_unavailable_per_workload, replicas.count)
        if replicas.count > 1 and replicas.count not in (migrating, unavailable):
            return None
        limits = ((migrating, "migrate"), (unavailable, "be unavailable"))
        whole = [f"{most} {what}" for most, what in limits if most >= replicas.count]
        named = " and ".join(whole).replace(" ", " may ", 1)
        text = (
            f"{replicas} is too small: {named} at once, which is all of it; "
            "skipCheckExpectedReplicas is false"
        )
        return Gate("ExpectedReplicas", text)


_SCOPES: dict[str, Scope] = {
    "MaxMigratingGlobally": "round",
    "MaxMigratingPerNode": "node",
}


def _argument(gate: str) -> str:
    return gate[0].lower() + gate[1:]
