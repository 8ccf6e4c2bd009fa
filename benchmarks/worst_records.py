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

from benchmarks import worst_ticks as ticks
from benchmarks.dense_cluster import (
    CLUSTER,
    NODES,
    NOW_MS,
    PODS_PER_NODE,
    DenseCluster,
    make_metric,
    make_node,
    make_node_pods,
    make_pod,
    measure_longest_ms,
    run_in_copy,
)
from benchmarks.figures import Benchmark, Figure
from benchmarks.messages import node_name
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
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
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


def measure_affinity(world: DenseCluster) -> float:
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
        return world.make_request(make_pod(f"wants-{number}", required_node_affinity=terms))

    return world.measure_ms([make_request(number) for number in range(3)])


def measure_resources(world: DenseCluster) -> float:
    """Request pods with the maximum of resources; nodes have all resources except one."""

    def make_request(number: int) -> InputRecord:
        amounts = {f"example.com/r{index:02}": "1" for index in range(RESOURCES_PER_POD_MAX - 3)}
        amounts |= {"cpu": f"{number + 1}", "memory": "1Gi", "none.com/r": "1"}
        containers = (Container(requests=amounts, limits=amounts),) * 64
        return world.make_request(make_pod(f"wants-{number}", containers=containers))

    return world.measure_ms([make_request(number) for number in range(3)])


def measure_ports(world: DenseCluster) -> float:

    def make_request(number: int) -> InputRecord:
        ports = tuple(
            HostPort(port=1 + index, host_ip=f"10.0.{number}.{index % 250}")
            for index in range(HOST_PORTS_PER_POD_MAX // 4)
        )
        return world.make_request(
            make_pod(f"wants-{number}", containers=(Container(host_ports=ports),) * 4)
        )

    return world.measure_ms([make_request(number) for number in range(3)])


def measure_tolerations(world: DenseCluster) -> float:
    some = tuple(Toleration(key=f"key-{index}", value="v" * 500) for index in range(256))
    return world.measure_ms(
        [
            world.make_request(
                make_pod(f"wants-{number}", millicores=100_000 + number, tolerations=some)
            )
            for number in range(3)
        ]
    )


def measure_metric(world: DenseCluster) -> float:
    """Apply metrics with the maximum of pods."""
    metric = make_metric(0, make_node_pods(0, 2_000))
    return world.measure_ms([world.make_record("node-metrics", metric) for _ in range(3)])


def measure_node_added(world: DenseCluster) -> float:
    """Add nodes, and request a pod after each, so that all rows move."""
    records = []
    for number in range(NODES, NODES + 3):
        records += [
            world.make_record("node-state", make_node(number)),
            world.make_request(make_pod(f"w-{number}")),
        ]
    return world.measure_ms(records)


def measure_outcome(world: DenseCluster) -> float:
    outcome = CommandOutcome(
        command_id="e-never-sent",
        cluster=CLUSTER,
        command="evict",
        pod=PodRef(namespace="default", name="0-0", uid="0-0"),
        node=node_name(0),
        result="done",
        happened_at_ms=NOW_MS,
    )
    return world.measure_ms([world.make_record("command-outcomes", outcome) for _ in range(3)])


# --- policies ---------------------------------------------------------------------------------------


def measure_policy(document: str, world: DenseCluster) -> float:
    """Apply a policy and the next request."""
    return world.measure_ms([world.make_policy(document), world.make_request(make_pod("after"))])


def measure_policy_risk(world: DenseCluster) -> float:
    """Change from scores by load to scores by risk, which need mean and variance of all pods."""
    world.apply(world.make_policy(BY_LOAD), *(world.make_tick(1) for _ in range(3)))
    return measure_policy(BY_RISK, world)


def _build_pools(count: int) -> str:
    pools = "".join(
        f"    - {{name: p{number}, nodeSelector: {{matchLabels: {{pool: p{number}}}}}}}\n"
        for number in range(count)
    )
    return f"rebalance:\n  highThresholds: {{cpu: 70}}\n  lowThresholds: {{cpu: 45}}\n  nodePools:\n{pools}"


def build_values_policy() -> str:
    """Return a policy with the maximum of values."""
    names = ", ".join(f"ns-{number}" for number in range(1_000))
    lists = "".join(f"      - {{name: s{number}, selector: {{matchExpressions: [{{key: app, operator: In, values: [{names}]}}]}}}}\n" for number in range(5))  # fmt: skip
    return f"{_build_pools(64)}  podSelectors:\n{lists}"


def build_moving_policy() -> str:
    """Return a policy in which every pool has moving thresholds with the maximum of windows."""
    windows = ", ".join(["{from: '00:00', to: '06:00', highThresholds: {cpu: 80}}"] * 8)
    entries = "".join(f"    - {{pool: p{number}, windows: [{windows}]}}\n" for number in range(64))
    return f"{_build_pools(64)}movingThresholds:\n  hotspots:\n{entries}"


# --- lists and samples --------------------------------------------------------------------------------


def measure_list_end(topic: str, world: DenseCluster) -> float:
    """End a full list without objects: the stage removes all objects in some ticks."""
    world.apply(world.make_record(topic, ListBegin(cluster=CLUSTER, list_id="1")))
    end = world.make_record(topic, ListEnd(cluster=CLUSTER, list_id="1"))
    return world.measure_ms([end, *(world.make_tick(1) for _ in range(3))])


def measure_usage_sample() -> float:
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


@lru_cache(maxsize=2)
def _build_cluster(pods: int, *, wide: bool) -> DenseCluster:
    """Return a cluster. Building takes long, so benchmarks share a cluster and change a fork."""
    world = DenseCluster(pods=pods, wide=wide)
    gc.freeze()
    return world


_AIM_MS, _RARE_AIM_MS = 250, 3_000
_RARE = ("policy_estimates", "policy_risk", "list_end_pods", "list_end_nodes")
_busy = partial(_build_cluster, PODS_PER_NODE, wide=False)
_empty = partial(_build_cluster, 0, wide=False)
_wide = partial(_build_cluster, 0, wide=True)
_KINDS: dict[str, tuple[Callable[[], DenseCluster] | None, Callable[..., float]]] = {
    "request_affinity": (_wide, measure_affinity),
    "request_resources": (_wide, measure_resources),
    "request_ports": (_empty, measure_ports),
    "request_tolerations": (_empty, measure_tolerations),
    "metric_pods": (_busy, measure_metric),
    "node_added": (_busy, measure_node_added),
    "outcome": (_busy, measure_outcome),
    "policy_values": (_busy, partial(measure_policy, build_values_policy())),
    "policy_moving": (_busy, partial(measure_policy, build_moving_policy())),
    "policy_thresholds": (_busy, partial(measure_policy, THRESHOLDS)),
    "policy_estimates": (_busy, partial(measure_policy, ESTIMATES)),
    "policy_risk": (_busy, measure_policy_risk),
    "tick_waiting_kinds": (_busy, ticks.measure_waiting_kinds),
    "tick_policy_waiting_kinds": (_busy, ticks.measure_policy_waiting_kinds),
    "tick_waiting_placed": (_busy, ticks.measure_waiting_placed),
    "tick_expiries": (_busy, ticks.measure_expiries),
    "tick_round": (_busy, ticks.measure_round),
    "tick_round_unpacked": (_busy, ticks.measure_round_unpacked),
    "tick_round_budgets": (_busy, ticks.measure_round_budgets),
    "tick_round_hot": (_busy, ticks.measure_round_hot),
    "tick_migrations_wait": (_busy, ticks.measure_migrations_wait),
    "tick_migrations_end": (_busy, ticks.measure_migrations_end),
    "drain": (_busy, ticks.measure_drain),
    "list_end_pods": (_busy, partial(measure_list_end, "pod-lifecycle")),
    "list_end_nodes": (_busy, partial(measure_list_end, "node-state")),
    "usage_sample": (None, measure_usage_sample),
}


def _make_figure(kind: str) -> Figure:
    build_cluster, measure = _KINDS[kind]
    value = run_in_copy(measure if build_cluster is None else partial(measure, build_cluster()))
    aim_ms = _RARE_AIM_MS if kind in _RARE else _AIM_MS
    return Figure(value, "ms", {"nodes": NODES, "aim_ms": aim_ms, "clock": "cpu"})


BENCHMARKS: dict[str, Benchmark] = {
    f"worst_record_ms.{kind}": partial(_make_figure, kind) for kind in _KINDS
}
"""All figures of this module, by name."""
