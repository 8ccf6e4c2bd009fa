"""The slowest record or tick of each kind, within the limits: `worst_record_ms.<kind>`.

The figure is the CPU time of the stage for one record, on 5,000 nodes with 30 pods each: reading, deciding,
and encoding rows and outputs. The aim is 250 ms, and 3 s for rare records that change every pod or node.
Packing rows for the tables and the journal is not measured.

Each function changes a copy of a dense cluster and returns the CPU time of the longest record in
milliseconds. `worst_ticks` has the ticks.
"""

import gc
from collections.abc import Callable
from functools import lru_cache, partial

from benchmarks import dense_cluster
from benchmarks import worst_ticks as ticks
from benchmarks.dense_cluster import (
    CLUSTER,
    NODES,
    NOW_MS,
    PODS_PER_NODE,
    DenseCluster,
    measure_longest_ms,
    name,
    node,
    pod,
    run_in_copy,
)
from benchmarks.figures import Benchmark, Figure
from schemas.messages.commands import CommandOutcome
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.pods import (
    Container,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    PodRef,
    Toleration,
)
from schemas.messages.usage import HostApplicationUsage, NodeUsage, PodUsage
from schemas.topics.codec import encode
from streams.aggregate.collect import AggregateLimits, PoolRules
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.placement.filters.unsupported import (
    EXPRESSIONS_PER_POD_MAX,
    HOST_PORTS_PER_POD_MAX,
    LABELS_PER_POD_MAX,
    RESOURCES_PER_POD_MAX,
    VALUES_PER_POD_MAX,
)
from streams.stage.records import InputRecord

THRESHOLDS = "loadAware: {usageThresholds: {cpu: 61, memory: 95}}"
ESTIMATES = "loadAware: {estimatedScalingFactors: {cpu: 61, memory: 70}}"
BY_LOAD = "plugins: {score: [LoadAwareScheduling], balance: [LowNodeLoad]}"
BY_RISK = "plugins: {score: [OverutilizationRisk]}\n"


def affinity(world: DenseCluster) -> float:
    """Request pods with the maximum of labels, expressions and values; nodes have all labels."""
    values = VALUES_PER_POD_MAX // EXPRESSIONS_PER_POD_MAX
    labels = [f"label-{index:03}" for index in range(LABELS_PER_POD_MAX - 2)]

    def make_request(number: int) -> InputRecord:
        expressions = [
            NodeRequirement(
                key=labels[index % len(labels)],
                operator="NotIn",
                values=tuple(f"x{number}-{index}-{value}" for value in range(values)),
            )
            for index in range(EXPRESSIONS_PER_POD_MAX - 16)
        ]
        none = NodeRequirement(key="zone", operator="In", values=("nowhere",))
        terms = tuple(
            NodeSelectorTerm(match_expressions=(*expressions[begin : begin + 63], none))
            for begin in range(0, len(expressions), 63)
        )
        return world.request(pod(f"wants-{number}", required_node_affinity=terms))

    return world.measure_ms([make_request(number) for number in range(3)])


def resources(world: DenseCluster) -> float:
    """Request pods with the maximum of resources; nodes have all resources except one."""

    def make_request(number: int) -> InputRecord:
        amounts = {f"example.com/r{index:02}": "1" for index in range(RESOURCES_PER_POD_MAX - 3)}
        amounts |= {"cpu": f"{number + 1}", "memory": "1Gi", "none.com/r": "1"}
        containers = (Container(requests=amounts, limits=amounts),) * 64
        return world.request(pod(f"wants-{number}", containers=containers))

    return world.measure_ms([make_request(number) for number in range(3)])


def ports(world: DenseCluster) -> float:

    def make_request(number: int) -> InputRecord:
        ports = tuple(
            HostPort(port=1 + index, host_ip=f"10.0.{number}.{index % 250}")
            for index in range(HOST_PORTS_PER_POD_MAX // 4)
        )
        return world.request(pod(f"wants-{number}", containers=(Container(host_ports=ports),) * 4))

    return world.measure_ms([make_request(number) for number in range(3)])


def tolerations(world: DenseCluster) -> float:
    some = tuple(Toleration(key=f"key-{index}", value="v" * 500) for index in range(256))
    return world.measure_ms(
        [
            world.request(pod(f"wants-{number}", millicores=100_000 + number, tolerations=some))
            for number in range(3)
        ]
    )


def metric(world: DenseCluster) -> float:
    """Apply metrics with the maximum of pods."""
    pods = [pod(f"0-{index}", node=name(0)) for index in range(2_000)]
    return world.measure_ms(
        [world.record("node-metrics", dense_cluster.metric(0, pods)) for _ in range(3)]
    )


def node_added(world: DenseCluster) -> float:
    """Add nodes, and request a pod after each, so that all rows move."""
    records = []
    for number in range(NODES, NODES + 3):
        records += [world.record("node-state", node(number)), world.request(pod(f"w-{number}"))]
    return world.measure_ms(records)


def outcome(world: DenseCluster) -> float:
    outcome = CommandOutcome(
        command_id="e-never-sent",
        cluster=CLUSTER,
        command="evict",
        pod=PodRef(namespace="default", name="0-0", uid="0-0"),
        node=name(0),
        result="done",
        happened_at_ms=NOW_MS,
    )
    return world.measure_ms([world.record("command-outcomes", outcome) for _ in range(3)])


# --- policies ---------------------------------------------------------------------------------------


def policy(document: str, world: DenseCluster) -> float:
    """Apply a policy and the next request."""
    return world.measure_ms([world.policy(document), world.request(pod("after"))])


def policy_risk(world: DenseCluster) -> float:
    """Change from scores by load to scores by risk, which need mean and variance of all pods."""
    world.apply(world.policy(BY_LOAD), *(world.tick_record(1) for _ in range(3)))
    return policy(BY_RISK, world)


def _pools(count: int) -> str:
    pools = "".join(
        f"    - {{name: p{number}, nodeSelector: {{matchLabels: {{pool: p{number}}}}}}}\n"
        for number in range(count)
    )
    return f"rebalance:\n  highThresholds: {{cpu: 70}}\n  lowThresholds: {{cpu: 45}}\n  nodePools:\n{pools}"


def values() -> str:
    """Return a policy with the maximum of values."""
    names = ", ".join(f"ns-{number}" for number in range(1_000))
    lists = "".join(f"      - {{name: s{number}, selector: {{matchExpressions: [{{key: app, operator: In, values: [{names}]}}]}}}}\n" for number in range(5))  # fmt: skip
    return f"{_pools(64)}  podSelectors:\n{lists}"


def moving() -> str:
    """Return a policy in which every pool has moving thresholds with the maximum of windows."""
    windows = ", ".join(["{from: '00:00', to: '06:00', highThresholds: {cpu: 80}}"] * 8)
    entries = "".join(f"    - {{pool: p{number}, windows: [{windows}]}}\n" for number in range(64))
    return f"{_pools(64)}movingThresholds:\n  hotspots:\n{entries}"


# --- lists and samples --------------------------------------------------------------------------------


def list_end_pods(world: DenseCluster) -> float:
    """End a full list without pods: the stage removes all pods in some ticks."""
    world.apply(world.record("pod-lifecycle", ListBegin(cluster=CLUSTER, list_id="1")))
    end = world.record("pod-lifecycle", ListEnd(cluster=CLUSTER, list_id="1"))
    return world.measure_ms([end, *(world.tick_record(1) for _ in range(3))])


def list_end_nodes(world: DenseCluster) -> float:
    """End a full list without nodes: the stage removes all nodes in some ticks."""
    world.apply(world.record("node-state", ListBegin(cluster=CLUSTER, list_id="1")))
    end = world.record("node-state", ListEnd(cluster=CLUSTER, list_id="1"))
    return world.measure_ms([end, *(world.tick_record(1) for _ in range(3))])


def usage_sample() -> float:
    """Apply samples with the maximum of pods and applications to a window of 7,000 samples."""
    stage = AggregateStage(restore(0, {}, PoolRules()), 1, AggregateLimits())
    usage = {"cpu": 100, "memory": 2**30}
    pods = tuple(PodUsage(namespace="default", name=f"p-{number}", uid=f"u-{number}", usage=usage) for number in range(2_000))  # fmt: skip
    others = tuple(HostApplicationUsage(name=f"h-{number}", usage=usage) for number in range(256))

    def sample(offset: int) -> InputRecord:
        dense = offset % 100 == 0
        at_ms = NOW_MS + offset * 250
        message = NodeUsage(
            cluster=CLUSTER,
            node="n",
            sampled_at_ms=at_ms,
            usage={"cpu": 300_000, "memory": 2**42},
            pods=pods if dense else (),
            host_applications=others if dense else (),
        )
        key = f"{CLUSTER}/n".encode()
        return InputRecord("node-usage", 0, offset, key, encode(message), timestamp_ms=at_ms)

    for offset in range(7_000):
        stage.apply([sample(offset)])
    return measure_longest_ms(stage, [sample(offset) for offset in range(7_000, 8_000)])


_AIM_MS, _RARE_AIM_MS = 250, 3_000
_RARE = ("policy_estimates", "policy_risk", "list_end_pods", "list_end_nodes")


def benchmarks() -> dict[str, Benchmark]:
    busy, empty, wide = partial(_world, PODS_PER_NODE), partial(_world, 0), partial(_world, 0, True)
    kinds: dict[str, tuple[Callable[[], DenseCluster] | None, Callable[..., float]]] = {
        "request_affinity": (wide, affinity),
        "request_resources": (wide, resources),
        "request_ports": (empty, ports),
        "request_tolerations": (empty, tolerations),
        "metric_pods": (busy, metric),
        "node_added": (busy, node_added),
        "outcome": (busy, outcome),
        "policy_values": (busy, partial(policy, values())),
        "policy_moving": (busy, partial(policy, moving())),
        "policy_thresholds": (busy, partial(policy, THRESHOLDS)),
        "policy_estimates": (busy, partial(policy, ESTIMATES)),
        "policy_risk": (busy, policy_risk),
        "tick_waiting_kinds": (busy, ticks.waiting_kinds),
        "tick_policy_waiting_kinds": (busy, ticks.policy_waiting_kinds),
        "tick_waiting_placed": (busy, ticks.waiting_placed),
        "tick_expiries": (busy, ticks.expiries),
        "tick_round": (busy, ticks.round),
        "tick_round_unpacked": (busy, ticks.round_unpacked),
        "tick_round_budgets": (busy, ticks.round_budgets),
        "tick_round_hot": (busy, ticks.round_hot),
        "tick_migrations_wait": (busy, ticks.migrations_wait),
        "tick_migrations_end": (busy, ticks.migrations_end),
        "drain": (busy, ticks.drain),
        "list_end_pods": (busy, list_end_pods),
        "list_end_nodes": (busy, list_end_nodes),
        "usage_sample": (None, usage_sample),
    }
    return {
        f"worst_record_ms.{kind}": partial(_figure, f"worst_record_ms.{kind}", *functions)
        for kind, functions in kinds.items()
    }


@lru_cache(maxsize=2)
def _world(pods: int, wide: bool = False) -> DenseCluster:
    """Return a cluster. Building takes long, so benchmarks share a cluster and change a fork."""
    world = DenseCluster(pods=pods, wide=wide)
    gc.freeze()
    return world


def _figure(
    name: str, world: Callable[[], DenseCluster] | None, measure: Callable[..., float]
) -> Figure:
    value = run_in_copy(measure if world is None else partial(measure, world()))
    aim_ms = _RARE_AIM_MS if name.rpartition(".")[2] in _RARE else _AIM_MS
    return Figure(name, value, "ms", {"nodes": NODES, "aim_ms": aim_ms, "clock": "cpu"})
