"""The longest that one record or one tick of each kind takes, within the limits: `worst_record_ms.<kind>`.

CPU time on 5,000 nodes with 30 pods each, as the stage applies the record: reading it, deciding, and writing rows and
outputs as bytes. Aim: 250 ms. Packing rows for the tables and the journal is the worker's own and not part of it.
"""

import gc
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

from schemas.codec import encode
from schemas.lists import ListBegin, ListEnd
from schemas.migrations import MigrationRequest
from schemas.outcomes import CommandOutcome
from schemas.pods import Container, HostPort, NodeRequirement, NodeSelectorTerm, PodRef, Toleration
from schemas.usage import HostApplicationUsage, NodeUsage, PodUsage
from schemas.workloads import DisruptionBudget, PodSelector, SelectorRequirement, WorkloadState
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.bench.crowded import (
    CLUSTER,
    NODES,
    NOW_MS,
    PODS_PER_NODE,
    Crowded,
    in_a_copy,
    longest_ms,
    metric,
    name,
    node,
    pod,
)
from streams.bench.figures import Benchmark, Figure
from streams.cluster.limits import (
    EXPRESSIONS_PER_POD_MAX,
    HOST_PORTS_PER_POD_MAX,
    LABELS_PER_POD_MAX,
    RESOURCES_PER_POD_MAX,
    VALUES_PER_POD_MAX,
)
from streams.records import InputRecord

_AIM_MS = 250
_KINDS = 10_000
_BUDGETS = 10_000
_THRESHOLDS = "loadAware: {usageThresholds: {cpu: 61, memory: 95}}"
_ESTIMATES = "loadAware: {estimatedScalingFactors: {cpu: 61, memory: 70}}"
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


def benchmarks() -> dict[str, Benchmark]:
    """All figures of this module, by name."""
    busy, empty, wide = partial(_world, PODS_PER_NODE), partial(_world, 0), partial(_world, 0, True)
    kinds: dict[str, tuple[Callable[[], Crowded] | None, Callable[..., float]]] = {
        "request_affinity": (wide, _affinity),
        "request_resources": (wide, _resources),
        "request_ports": (empty, _ports),
        "request_tolerations": (empty, _tolerations),
        "metric_pods": (busy, _metric),
        "node_added": (busy, _node_added),
        "outcome": (busy, _outcome),
        "policy_values": (busy, partial(_policy, _values())),
        "policy_moving": (busy, partial(_policy, _moving())),
        "policy_thresholds": (busy, partial(_policy, _THRESHOLDS)),
        "policy_estimates": (busy, partial(_policy, _ESTIMATES)),
        "tick_waiting_kinds": (busy, _waiting_kinds),
        "tick_policy_waiting_kinds": (busy, _policy_waiting_kinds),
        "tick_waiting_placed": (busy, _waiting_placed),
        "tick_expiries": (busy, _expiries),
        "tick_round": (busy, _round),
        "tick_round_unpacked": (busy, _round_unpacked),
        "tick_round_budgets": (busy, _round_budgets),
        "drain": (busy, _drain),
        "list_end_pods": (busy, _list_end_pods),
        "list_end_nodes": (busy, _list_end_nodes),
        "usage_sample": (None, _usage_sample),
    }
    return {
        f"worst_record_ms.{kind}": partial(_figure, f"worst_record_ms.{kind}", *how)
        for kind, how in kinds.items()
    }


@lru_cache(maxsize=2)
def _world(pods: int, wide: bool = False) -> Crowded:
    """A cluster, which takes long to bring up; what is measured changes a copy of it."""
    world = Crowded(pods=pods, wide=wide)
    gc.freeze()
    return world


def _figure(
    name: str, world: Callable[[], Crowded] | None, measure: Callable[..., float]
) -> Figure:
    value = in_a_copy(measure if world is None else partial(measure, world()))
    return Figure(name, value, "ms", {"nodes": NODES, "aim_ms": _AIM_MS, "clock": "cpu"})


# --- records ----------------------------------------------------------------------------------------


def _affinity(world: Crowded) -> float:
    """As many labels, expressions and values as a pod may have; every label is one of the nodes'."""
    values = VALUES_PER_POD_MAX // EXPRESSIONS_PER_POD_MAX
    labels = [f"label-{index:03}" for index in range(LABELS_PER_POD_MAX - 2)]

    def wanting(number: int) -> InputRecord:
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

    return world.timed_ms([wanting(number) for number in range(3)])


def _resources(world: Crowded) -> float:
    """As many resources as a pod may name, all of which nodes have."""

    def wanting(number: int) -> InputRecord:
        amounts = {f"example.com/r{index:02}": "1" for index in range(RESOURCES_PER_POD_MAX - 3)}
        amounts |= {"cpu": f"{number + 1}", "memory": "1Gi", "none.com/r": "1"}
        containers = (Container(requests=amounts, limits=amounts),) * 64
        return world.request(pod(f"wants-{number}", containers=containers))

    return world.timed_ms([wanting(number) for number in range(3)])


def _ports(world: Crowded) -> float:

    def wanting(number: int) -> InputRecord:
        ports = tuple(
            HostPort(port=1 + index, host_ip=f"10.0.{number}.{index % 250}")
            for index in range(HOST_PORTS_PER_POD_MAX // 4)
        )
        return world.request(pod(f"wants-{number}", containers=(Container(host_ports=ports),) * 4))

    return world.timed_ms([wanting(number) for number in range(3)])


def _tolerations(world: Crowded) -> float:
    some = tuple(Toleration(key=f"key-{index}", value="v" * 500) for index in range(256))
    return world.timed_ms(
        [
            world.request(pod(f"wants-{number}", millicores=100_000 + number, tolerations=some))
            for number in range(3)
        ]
    )


def _metric(world: Crowded) -> float:
    """As many pods as a metric may name."""
    pods = [pod(f"0-{place}", node=name(0)) for place in range(2_000)]
    return world.timed_ms([world.record("node-metrics", metric(0, pods)) for _ in range(3)])


def _node_added(world: Crowded) -> float:
    """A node is added, and a request after it makes all rows move."""
    records = []
    for number in range(NODES, NODES + 3):
        records += [world.record("node-state", node(number)), world.request(pod(f"w-{number}"))]
    return world.timed_ms(records)


def _outcome(world: Crowded) -> float:
    outcome = CommandOutcome(
        command_id="e-never-sent",
        cluster=CLUSTER,
        command="evict",
        pod=PodRef(namespace="default", name="0-0", uid="0-0"),
        node=name(0),
        result="done",
        happened_at_ms=NOW_MS,
    )
    return world.timed_ms([world.record("command-outcomes", outcome) for _ in range(3)])


# --- policies ---------------------------------------------------------------------------------------


def _policy(document: str, world: Crowded) -> float:
    """A policy, and the request after it."""
    return world.timed_ms([world.policy(document), world.request(pod("after"))])


def _pools(count: int) -> str:
    pools = "".join(
        f"    - {{name: p{number}, nodeSelector: {{matchLabels: {{pool: p{number}}}}}}}\n"
        for number in range(count)
    )
    return f"rebalance:\n  highThresholds: {{cpu: 70}}\n  lowThresholds: {{cpu: 45}}\n  nodePools:\n{pools}"


def _values() -> str:
    """As many values as a policy may have."""
    names = ", ".join(f"ns-{number}" for number in range(1_000))
    lists = "".join(f"      - {{name: s{number}, selector: {{matchExpressions: [{{key: app, operator: In, values: [{names}]}}]}}}}\n" for number in range(5))  # fmt: skip
    return f"{_pools(64)}  podSelectors:\n{lists}"


def _moving() -> str:
    """Every pool has thresholds that move, in as many windows as there is room for."""
    windows = ", ".join(["{from: '00:00', to: '06:00', highThresholds: {cpu: 80}}"] * 8)
    entries = "".join(f"    - {{pool: p{number}, windows: [{windows}]}}\n" for number in range(64))
    return f"{_pools(64)}movingThresholds:\n  hotspots:\n{entries}"


# --- pods that wait -----------------------------------------------------------------------------------


def _let_wait(world: Crowded, kinds: int) -> None:
    """So many kinds of pods wait for a node."""
    records = [world.request(pod(f"w-{number}", millicores=100_000 + number)) for number in range(kinds)]  # fmt: skip
    for begin in range(0, kinds, 500):
        world.apply(*records[begin : begin + 500])


def _change(world: Crowded) -> None:
    world.apply(world.record("node-metrics", metric(1, [])))


def _waiting_kinds(world: Crowded) -> float:
    """All are due at once, and something has changed."""
    _let_wait(world, _KINDS)
    _change(world)
    return world.timed_ms(world.tick_record(seconds) for seconds in (5, 1, 1))


def _policy_waiting_kinds(world: Crowded) -> float:
    _let_wait(world, _KINDS)
    policy = world.policy("loadAware: {usageThresholds: {cpu: 61, memory: 95}}")
    return world.timed_ms([policy, world.tick_record(5), world.tick_record(1)])


def _waiting_placed(world: Crowded) -> float:
    """Pods of many kinds wait, and there is room for all of them at once."""
    _let_wait(world, 1_000)
    for number in range(1_000):
        roomy = node(number).model_copy(update={"allocatable": {"cpu": "400", "memory": "1Ti", "pods": "110"}})  # fmt: skip
        world.apply(world.record("node-state", roomy))
    world.apply(world.request(pod("settles")))
    return world.timed_ms(world.tick_record(seconds) for seconds in (5, 1, 1))


def _expiries(world: Crowded) -> float:
    """Many reservations end at once."""
    world.apply(world.policy("reservationSeconds: 10"))
    for begin in range(0, _KINDS, 500):
        world.apply(*(world.request(pod(f"r-{begin + index}")) for index in range(500)))
    return world.timed_ms(world.tick_record(seconds) for seconds in (12, 1, 1))


# --- rounds, drains and lists ---------------------------------------------------------------------------


def _rounds(world: Crowded) -> Iterator[InputRecord]:
    """A tick a second, some of which make a round; hot nodes are measured again in between."""
    for second in range(140):
        if second % 60 == 20:
            world.apply(
                *(world.record("node-metrics", _fresh(world, number)) for number in range(0, NODES, 20))
            )
        yield world.tick_record(1)


def _fresh(world: Crowded, number: int) -> object:
    pods = [pod(f"{number}-{place}", node=name(number)) for place in range(30)]
    return metric(number, pods).model_copy(update={"updated_at_ms": world.now_ms})


def _round(world: Crowded) -> float:
    """One node of twenty is hot, and everything was packed at the ticks before."""
    world.apply(world.policy(_ROUNDS_POLICY))
    world.apply(world.tick_record(1))
    return world.timed_ms(_rounds(world))


def _round_unpacked(world: Crowded) -> float:
    """The first round under a policy that looks at other resources, after an outage: every node is packed anew."""
    world.apply(world.policy(_ROUNDS_POLICY))
    return world.timed_ms(world.tick_record(seconds) for seconds in (120, *(1,) * 10))


def _round_budgets(world: Crowded) -> float:
    """The same under many budgets, none of which says by its first label which pods it covers."""
    world.apply(world.policy(_ROUNDS_POLICY))
    workload = WorkloadState(cluster=CLUSTER, uid="web", owner_kind="ReplicaSet", namespace="default", name="web", replicas=150_000)  # fmt: skip
    world.apply(world.record("pod-lifecycle", workload))
    for number in range(_BUDGETS):
        own = SelectorRequirement(key="app", operator="In", values=(f"app-{number}",))
        selector = PodSelector(match_labels={"tier": "web"}, match_expressions=(own,))
        budget = DisruptionBudget(cluster=CLUSTER, namespace="default", name=f"b-{number}", selector=selector, disruptions_allowed=1)  # fmt: skip
        world.apply(world.record("pod-lifecycle", budget))
    for number in range(0, NODES, 20):
        for place in range(30):
            labels = {"tier": "web", "app": f"app-{number + place}"}
            world.apply(world.seen(pod(f"{number}-{place}", node=name(number), labels=labels)))
    world.apply(world.tick_record(1))
    return world.timed_ms(_rounds(world))


def _drain(world: Crowded) -> float:
    """Hundreds of nodes are drained: the request for one, and ticks that begin migrations."""
    world.apply(world.policy(_ROUNDS_POLICY))
    records = [
        world.record(
            "migration-requests",
            MigrationRequest(
                request_id=f"drain-{number:05}",
                cluster=CLUSTER,
                action="drain",
                node=name(number),
                requested_at_ms=NOW_MS,
            ),
        )
        for number in range(1, 200)
    ]
    world.apply(world.tick_record(1))
    return max(world.timed_ms(records), world.timed_ms(world.tick_record(1) for _ in range(8)))


def _list_end_pods(world: Crowded) -> float:
    """A full list names no pod: all go, over some ticks."""
    world.apply(world.record("pod-lifecycle", ListBegin(cluster=CLUSTER, list_id="1")))
    end = world.record("pod-lifecycle", ListEnd(cluster=CLUSTER, list_id="1"))
    return world.timed_ms([end, *(world.tick_record(1) for _ in range(3))])


def _list_end_nodes(world: Crowded) -> float:
    """A full list names no node: all go, over some ticks."""
    world.apply(world.record("node-state", ListBegin(cluster=CLUSTER, list_id="1")))
    end = world.record("node-state", ListEnd(cluster=CLUSTER, list_id="1"))
    return world.timed_ms([end, *(world.tick_record(1) for _ in range(3))])


# --- the other stage --------------------------------------------------------------------------------


def _usage_sample() -> float:
    """As many pods and applications as a sample may name, and a window of thousands of samples."""
    stage = AggregateStage(restore(0, {}, Collecting()), 1, AggregateLimits())
    usage = {"cpu": 100, "memory": 2**30}
    pods = tuple(PodUsage(namespace="default", name=f"p-{number}", uid=f"u-{number}", usage=usage) for number in range(2_000))  # fmt: skip
    others = tuple(HostApplicationUsage(name=f"h-{number}", usage=usage) for number in range(256))

    def sample(offset: int) -> InputRecord:
        crowded = offset % 100 == 0
        at_ms = NOW_MS + offset * 250
        message = NodeUsage(
            cluster=CLUSTER,
            node="n",
            sampled_at_ms=at_ms,
            usage={"cpu": 300_000, "memory": 2**42},
            pods=pods if crowded else (),
            host_applications=others if crowded else (),
        )
        key = f"{CLUSTER}/n".encode()
        return InputRecord("node-usage", 0, offset, key, encode(message), timestamp_ms=at_ms)

    for offset in range(7_000):
        stage.apply([sample(offset)])
    return longest_ms(stage, [sample(offset) for offset in range(7_000, 8_000)])
