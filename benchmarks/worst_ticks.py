"""The slowest ticks of a cluster, within the limits.

Each function changes a copy of a dense cluster and returns the CPU time of the longest tick in
milliseconds.
"""

from collections.abc import Iterator

from benchmarks.dense_cluster import (
    CLUSTER,
    NODES,
    NOW_MS,
    DenseCluster,
    make_metric,
    make_node,
    make_node_pods,
    make_pod,
)
from benchmarks.messages import node_name
from schemas.messages.migrations import MigrationRequest
from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import OwnerReference, PodRef, PodSelector, SelectorRequirement
from streams.migration.registry import MIGRATIONS_MAX
from streams.stage.records import InputRecord

_KINDS = 10_000
_BUDGETS = 10_000
_ROUNDS_POLICY = """
mode: enforce
loadAware: {usageThresholds: {cpu: 90, memory: 95}}
rebalance:
  highThresholds: {cpu: 70, memory: 95}
  lowThresholds: {cpu: 45, memory: 80}
  anomalyCondition: {consecutiveAbnormalities: 1}
descheduling: {deschedulingInterval: 60s}
migration: {evictQPS: 1000, maxMigratingPerNode: 0, maxMigratingPerNamespace: 0, maxMigratingPerWorkload: 90%}
"""


# --- pods that wait -----------------------------------------------------------------------------------


def _add_waiting_pods(world: DenseCluster, kinds: int) -> None:
    """Request pods of different kinds that fit on no node."""
    records = []
    owner = OwnerReference(kind="ReplicaSet", name="web-0", uid="web-0", controller=True)
    for number in range(kinds):
        waiting_pod = make_pod(f"w-{number}", millicores=100_000 + number, owners=(owner,))
        records.append(world.make_request(waiting_pod))
    for begin in range(0, kinds, 500):
        world.apply(*records[begin : begin + 500])


def _change_node(world: DenseCluster) -> None:
    world.apply(world.make_record("node-metrics", make_metric(1, [])))


def measure_waiting_kinds(world: DenseCluster) -> float:
    """All waiting pods are due at once, and a node has changed."""
    _add_waiting_pods(world, _KINDS)
    _change_node(world)
    return world.measure_ms(world.make_tick(seconds) for seconds in (5, 1, 1))


def measure_policy_waiting_kinds(world: DenseCluster) -> float:
    _add_waiting_pods(world, _KINDS)
    policy = world.make_policy("loadAware: {usageThresholds: {cpu: 61, memory: 95}}")
    return world.measure_ms([policy, world.make_tick(5), world.make_tick(1)])


def measure_waiting_placed(world: DenseCluster) -> float:
    """Pods of many kinds wait, and all get room at once."""
    _add_waiting_pods(world, 1_000)
    for number in range(1_000):
        larger_node = make_node(number).model_copy(update={"allocatable": {"cpu": "400", "memory": "1Ti", "pods": "110"}})  # fmt: skip
        world.apply(world.make_record("node-state", larger_node))
    world.apply(world.make_request(make_pod("settles")))
    return world.measure_ms(world.make_tick(seconds) for seconds in (5, 1, 1))


def measure_expiries(world: DenseCluster) -> float:
    """Many reservations end at once."""
    world.apply(world.make_policy("reservationSeconds: 10"))
    for begin in range(0, _KINDS, 500):
        world.apply(*(world.make_request(make_pod(f"r-{begin + index}")) for index in range(500)))
    return world.measure_ms(world.make_tick(seconds) for seconds in (12, 1, 1))


# --- rounds and drains ---------------------------------------------------------------------------------


def _make_round_ticks(world: DenseCluster) -> Iterator[InputRecord]:
    """Yield one tick per second, including rounds; apply new metrics of hot nodes in between."""
    for second in range(140):
        if second % 60 == 20:
            world.apply(
                *(
                    world.make_record("node-metrics", _make_fresh_metric(world, number))
                    for number in range(0, NODES, 20)
                )
            )
        yield world.make_tick(1)


def _make_fresh_metric(world: DenseCluster, number: int) -> object:
    metric = make_metric(number, make_node_pods(number))
    return metric.model_copy(update={"updated_at_ms": world.now_ms})


def measure_round(world: DenseCluster) -> float:
    """One node in twenty is hot, and earlier ticks have packed all nodes."""
    world.apply(world.make_policy(_ROUNDS_POLICY))
    world.apply(world.make_tick(1))
    return world.measure_ms(_make_round_ticks(world))


def measure_round_unpacked(world: DenseCluster) -> float:
    """After an outage, rounds begin with other resources, so every node is packed again."""
    world.apply(world.make_policy(_ROUNDS_POLICY))
    return world.measure_ms(world.make_tick(seconds) for seconds in (120, *(1,) * 10))


def measure_round_budgets(world: DenseCluster) -> float:
    """One node in twenty is hot, with many budgets whose first label selects the same pods."""
    world.apply(world.make_policy(_ROUNDS_POLICY))
    workload = WorkloadState(cluster=CLUSTER, uid="web", owner_kind="ReplicaSet", namespace="default", name="web", replicas=150_000)  # fmt: skip
    world.apply(world.make_record("pod-lifecycle", workload))
    for number in range(_BUDGETS):
        requirement = SelectorRequirement(key="app", operator="In", values=(f"app-{number}",))
        selector = PodSelector(match_labels={"tier": "web"}, match_expressions=(requirement,))
        budget = DisruptionBudget(cluster=CLUSTER, namespace="default", name=f"b-{number}", selector=selector, disruptions_allowed=1)  # fmt: skip
        world.apply(world.make_record("pod-lifecycle", budget))
    for number in range(0, NODES, 20):
        for index in range(30):
            labels = {"tier": "web", "app": f"app-{number + index}"}
            running = make_pod(f"{number}-{index}", node=number, labels=labels)
            world.apply(world.make_running(running))
    world.apply(world.make_tick(1))
    return world.measure_ms(_make_round_ticks(world))


def measure_drain(world: DenseCluster) -> float:
    """Hundreds of nodes are drained: the slowest request, or tick that begins migrations."""
    world.apply(world.make_policy(_ROUNDS_POLICY))
    records = [
        world.make_record(
            "migration-requests",
            MigrationRequest(
                request_id=f"drain-{number:05}",
                cluster=CLUSTER,
                action="drain",
                node=node_name(number),
                requested_at_ms=NOW_MS,
            ),
        )
        for number in range(1, 200)
    ]
    world.apply(world.make_tick(1))
    return max(world.measure_ms(records), world.measure_ms(world.make_tick(1) for _ in range(8)))


def measure_round_hot(world: DenseCluster) -> float:
    """Two nodes in five are hot, and limits stop evictions."""
    world.apply(world.make_policy(_ROUNDS_POLICY.replace("90%}", "1}")))
    for number in range(0, NODES, 5):
        for hot in (number, number + 1):
            metric = make_metric(hot, make_node_pods(hot), share=0.9)
            world.apply(world.make_record("node-metrics", metric))
    return world.measure_ms(world.make_tick(1) for _ in range(130))


def _begin_migrations(world: DenseCluster, ttl_s: int) -> None:
    """Begin the maximum of migrations, which all wait because of the limit of their workload."""
    world.apply(world.make_policy(_ROUNDS_POLICY.replace("90%}", f"1, defaultJobTTL: {ttl_s}s}}")))
    world.apply(world.make_tick(1))
    for number in range(MIGRATIONS_MAX):
        request = MigrationRequest(
            request_id=f"migrate-{number:05}",
            cluster=CLUSTER,
            action="migrate",
            pod=PodRef(namespace="default", name=f"{number + 1}-0", uid=f"{number + 1}-0"),
            requested_at_ms=NOW_MS,
        )
        world.apply(world.make_record("migration-requests", request))


def measure_migrations_wait(world: DenseCluster) -> float:
    """Two thousand migrations wait."""
    _begin_migrations(world, 3_600)
    return world.measure_ms(world.make_tick(1) for _ in range(8))


def measure_migrations_end(world: DenseCluster) -> float:
    """Two thousand migrations end at once."""
    _begin_migrations(world, 20)
    return world.measure_ms(world.make_tick(seconds) for seconds in (30, *(1,) * 8))
