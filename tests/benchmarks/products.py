"""`python -m tests.benchmarks.products [WORD]`: work that is a product of two lists.

Each pair names two lists that tenants or policies can make long, and applies valid records that let one
meet the other on a dense cluster: `n` and `m` entries, then twice as many of both. A line has the CPU
time of the longest record, of the longest tick without a round, and of the longest tick with one. Time
that grows by the product of the lists grows 4 times. `refused` counts records beyond a limit.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time_ns
from typing import Any

from benchmarks.dense_cluster import (
    CLUSTER,
    NODES,
    PODS_PER_NODE,
    DenseCluster,
    make_metric,
    make_node,
    make_node_pods,
    make_pod,
    run_in_copy,
)
from benchmarks.messages import node_name
from schemas.messages.metrics import AGGREGATION_TYPES, AggregatedUsage
from schemas.messages.nodes import Taint
from schemas.messages.objects import DisruptionBudget, NamespaceState, WorkloadState
from schemas.messages.pods import (
    Container,
    HostPort,
    NodeRequirement,
    NodeSelectorTerm,
    OwnerReference,
    PodAffinityTerm,
    PodSelector,
    SelectorRequirement,
    Toleration,
    VolumeClaim,
)
from streams.stage.records import InputRecord

HOT_EVERY = 20
_TICKS = 75
_POLICY = """
mode: enforce
plugins: {balance: [LowNodeLoad]}
rebalance:
  highThresholds: {cpu: 70, memory: 95}
  lowThresholds: {cpu: 45, memory: 80}
  anomalyCondition: {consecutiveAbnormalities: 1}
migration:
  maxMigratingPerNode: 0
  evictQPS: 1000
  evictBurst: 1000
  skipCheckExpectedReplicas: true
  objectLimiters: {}
  skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload]
"""
Records = Iterator[InputRecord]
Build = Callable[[DenseCluster, int, int], Records]


def main(word: str = "") -> int:
    """Print one line per pair whose name has the word."""
    world = DenseCluster()
    for pair, (n, m, build) in PAIRS.items():
        if word not in pair:
            continue
        small, large = (
            run_in_copy(partial(_measure, world, build, n * times, m * times)) for times in (1, 2)
        )
        del small["refused"]
        refused = int(large.pop("refused"))
        growth = {kind: round(large[kind] / max(1, small[kind]), 1) for kind in large}
        sizes = [2 * n, 2 * m]
        line = {"pair": pair, "sizes": sizes, "ms": large, "growth": growth, "refused": refused}
        print(json.dumps(line), flush=True)
    return 0


def _measure(world: DenseCluster, build: Build, n: int, m: int) -> dict[str, float]:
    """Return the longest CPU times in milliseconds by kind, and the number of refused records."""
    longest = {"record": 0.0, "tick": 0.0, "round": 0.0, "refused": 0.0}

    def apply(record: InputRecord, kind: str) -> None:
        began = process_time_ns()
        result = world.apply(record)
        took_ms = (process_time_ns() - began) / 1e6
        longest["refused"] += len(result.dead_letters)
        if any(b'"kind":"round"' in output.value for output in result.outputs):
            kind = "round"
        longest[kind] = max(longest[kind], round(took_ms, 1))

    world.apply(world.make_policy(_POLICY), world.make_tick(1))
    gc.freeze()
    gc.disable()
    for record in build(world, n, m):
        apply(record, "record")
    for number in range(0, NODES, HOT_EVERY):
        metric = make_metric(number, make_node_pods(number))
        fresh = metric.model_copy(update={"updated_at_ms": world.now_ms})
        world.apply(world.make_record("node-metrics", fresh))
    for _ in range(_TICKS):
        apply(world.make_tick(1), "tick")
    return longest


# --- parts ----------------------------------------------------------------------------------------


def _hot_pods(world: DenseCluster, count: int, fields: Callable[[int], dict[str, Any]]) -> Records:
    """Change the first pods of hot nodes."""
    for number in range(count):
        hot, index = divmod(number, PODS_PER_NODE)
        at = HOT_EVERY * hot
        yield world.make_running(make_pod(f"{at}-{index}", node=at, **fields(number)))


def _requests(world: DenseCluster, count: int, fields: Callable[[int], dict[str, Any]]) -> Records:
    for number in range(count):
        yield world.make_request(make_pod(f"w-{number}", **fields(number)))


def _nodes(world: DenseCluster, count: int, **fields: Callable[[int], Any]) -> Records:
    for number in range(count):
        state = make_node(number)
        update = {key: value(number) for key, value in fields.items()}
        if "labels" in update:
            update["labels"] = state.labels | update["labels"]
        yield world.make_record("node-state", state.model_copy(update=update))


def _above(count: int, number: int) -> dict[str, Any]:
    """Return a pod that compares a label with this number of integers, all of which are too high."""
    terms = [
        NodeSelectorTerm(match_expressions=tuple(
            NodeRequirement(key="rank", operator="Gt", values=(str(10**9 + number * count + at),))
            for at in range(begin, min(begin + 256, count))
        ))
        for begin in range(0, count, 256)
    ]  # fmt: skip
    return {"required_node_affinity": tuple(terms)}


def _tolerant(count: int, number: int) -> dict[str, Any]:
    keys = (f"key-{at}" for at in range(count - 1))
    toleration = Toleration(key=f"own-{number}", operator="Exists")
    return {"tolerations": (*(Toleration(key=key, operator="Exists") for key in keys), toleration)}


def _taints(count: int, number: int) -> tuple[Taint, ...]:
    """Return taints of which all except the last are tolerated."""
    taints = (Taint(key=f"key-{at}", value=f"{number}", effect="NoSchedule") for at in range(count))
    return (*taints, Taint(key="last", value=f"{number}", effect="NoSchedule"))


def _repelling(count: int, number: int, *, keys: bool = False, values: int = 1) -> dict[str, Any]:
    """Return a pod on a node that repels pods with app=victim by this number of terms."""
    terms = tuple(
        PodAffinityTerm(
            topology_key=f"{number}-{at}" if keys else "kubernetes.io/hostname",
            selector=PodSelector(
                match_labels={"app": "victim"},
                match_expressions=tuple(
                    SelectorRequirement(
                        key="x",
                        operator="NotIn",
                        values=tuple(
                            f"{number}-{at}-{part}-{value}" for value in range(min(values, 1024))
                        ),
                    )
                    for part in range(max(1, values // 1024))
                ),
            ),
        )
        for at in range(count)
    )
    return {"required_anti_affinity": terms}


def _victim(number: int) -> dict[str, Any]:
    return {"labels": {"app": "victim", "x": f"{number}"}}


def _budgets(world: DenseCluster, count: int, **fields: Any) -> Records:
    """Return budgets that select one label and another label that no pod has."""
    for number in range(count):
        requirement = SelectorRequirement(key="other", operator="NotIn", values=(f"{number}", "x"))
        selector = PodSelector(match_labels={"app": "victim"}, match_expressions=(requirement,))
        budget = DisruptionBudget(cluster=CLUSTER, namespace="default", name=f"b-{number}", selector=selector, **fields)  # fmt: skip
        yield world.make_record("pod-lifecycle", budget)


def _workloads(world: DenseCluster, count: int) -> Records:
    for number in range(count):
        workload = WorkloadState(cluster=CLUSTER, uid=f"o-{number}", owner_kind="ReplicaSet", namespace="default", name=f"o-{number}", replicas=100)  # fmt: skip
        yield world.make_record("pod-lifecycle", workload)


def _owned(count: int, number: int) -> dict[str, Any]:
    owners = [OwnerReference(kind="ReplicaSet", name=f"o-{number}", uid=f"o-{number}", controller=True)]  # fmt: skip
    owners += [OwnerReference(kind="Other", name=f"{at}", uid=f"{number}-{at}") for at in range(count - 1)]  # fmt: skip
    return {"owners": tuple(reversed(owners))}


def _ports(count: int, number: int) -> dict[str, Any]:
    ports = [HostPort(port=1 + at, host_ip=f"10.0.{number // 250}.{number % 250}") for at in range(count)]  # fmt: skip
    parts = (tuple(ports[begin : begin + 256]) for begin in range(0, count, 256))
    return {"containers": tuple(Container(requests={"cpu": "10m"}, host_ports=of) for of in parts)}


def _policy(world: DenseCluster, text: str) -> Records:
    yield world.make_policy(_POLICY + text)


def _resources(count: int, number: int, amount: str) -> dict[str, Any]:
    names = {f"r{number}-{at}": amount for at in range(count)}
    return {"containers": (Container(requests={"cpu": "10m", **names}),)}


# --- pairs ------------------------------------------------------------------------------------------


def _expressions(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, m, labels=lambda number: {"rank": str(number)})
    yield from _requests(world, 3, partial(_above, n))


def _kinds_expressions(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, NODES, labels=lambda number: {"rank": str(number)})
    yield from _hot_pods(world, n, partial(_above, m))


def _waiting_expressions(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, NODES, labels=lambda number: {"rank": str(number)})
    yield from _requests(world, n, partial(_above, m))
    yield from _nodes(world, 1, labels=lambda number: {"rank": "-1"})


def _tolerations(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, NODES, taints=partial(_taints, m))
    yield from _requests(world, 3, partial(_tolerant, n))


def _kinds_taints(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, m, taints=partial(_taints, 15))
    yield from _hot_pods(world, n, partial(_tolerant, 16))


def _waiting_taints(world: DenseCluster, n: int, m: int) -> Records:
    yield from _nodes(world, NODES, taints=partial(_taints, m))
    yield from _requests(world, n, partial(_tolerant, m))
    yield from _nodes(world, 1, taints=partial(_taints, m + 1))


def _terms_requests(world: DenseCluster, n: int, m: int) -> Records:
    yield from _hot_pods(world, m // 64, partial(_repelling, 64))
    yield from _requests(world, n, _victim)


def _topologies(world: DenseCluster, n: int, m: int) -> Records:
    yield from _hot_pods(world, n // 64, partial(_repelling, 64, keys=True))
    yield from _nodes(world, m, labels=lambda number: {"y": "z"})
    yield from _requests(world, 3, _victim)


def _terms_values(world: DenseCluster, n: int, m: int) -> Records:
    yield from _hot_pods(world, n // 4, partial(_repelling, 4, values=m))
    yield from _requests(world, 3, _victim)


def _terms_moves(world: DenseCluster, n: int, m: int) -> Records:
    yield from (
        world.make_running(make_pod(f"{number}-0", node=number, **_repelling(64, number)))
        for number in range(1, 1 + m // 64)
    )
    yield from _hot_pods(world, n, _victim)


def _waiting_excluded(world: DenseCluster, n: int, m: int) -> Records:
    """The waiting pods fit only on the nodes of the terms."""
    yield from _nodes(world, m, labels=lambda number: {"only": "here"})
    for number in range(m):
        yield world.make_running(make_pod(f"{number}-0", node=number, **_repelling(2, number)))
    yield from _requests(world, n, lambda number: {**_victim(number), "node_selector": {"only": "here"}})  # fmt: skip


def _budgets_pods(world: DenseCluster, n: int, m: int) -> Records:
    yield from _budgets(world, n, disruptions_allowed=1)
    yield from _hot_pods(world, m, _victim)


def _budgets_unmatched(world: DenseCluster, n: int, m: int) -> Records:
    yield from _budgets(world, n, disruptions_allowed=1)
    yield from _hot_pods(
        world, m, lambda number: {"labels": {"app": "victim", "x": f"{number}", "other": "x"}}
    )


def _budgets_drain(world: DenseCluster, n: int, m: int) -> Records:
    yield from _budgets(world, n)
    yield from (
        world.make_running(make_pod(f"0-{index}", node=0, **_victim(index))) for index in range(m)
    )


def _owners(world: DenseCluster, n: int, m: int) -> Records:
    yield from _workloads(world, m)
    yield from _hot_pods(world, m, partial(_owned, n))


def _host_ports(world: DenseCluster, n: int, m: int) -> Records:
    for number in range(m):
        yield world.make_running(make_pod(f"p-{number}", node=0, **_ports(n, number)))
    yield from _requests(world, 3, partial(_ports, n))


def _ports_nodes(world: DenseCluster, n: int, m: int) -> Records:
    for number in range(m):
        yield world.make_running(make_pod(f"p-{number}", node=number, **_ports(n, 0)))
    yield from _requests(world, 3, lambda number: _ports(n, 0))


def _namespaces(world: DenseCluster, n: int, m: int) -> Records:
    expressions = ", ".join(f"{{key: k{at}, operator: NotIn, values: [a]}}" for at in range(n))
    yield from _policy(world, f"evictor: {{namespaceLabelSelector: {{matchExpressions: [{expressions}]}}}}")  # fmt: skip
    for number in range(m):
        state = NamespaceState(cluster=CLUSTER, name=f"n-{number}", labels={"team": f"{number}"})
        yield world.make_record("pod-lifecycle", state)
    yield from _hot_pods(world, m, lambda number: {"namespace": f"n-{number}"})


def _patterns(world: DenseCluster, n: int, m: int) -> Records:
    patterns = ", ".join(f"x{at}-*" for at in range(n))
    yield from _policy(world, f"  namespaces: {{exclude: [{patterns}]}}\n")
    yield from _hot_pods(world, m, lambda number: {"namespace": f"n-{number}"})


def _pools(world: DenseCluster, n: int, m: int) -> Records:
    pools = "".join(
        f"    - {{name: p{at}, nodeSelector: {{matchExpressions: [{{key: pool, operator: NotIn, values: [a{at}]}}, {{key: x, operator: DoesNotExist}}]}}, highThresholds: {{cpu: 70}}, lowThresholds: {{cpu: 45}}}}\n"
        for at in range(n)
    )
    yield world.make_policy(_POLICY.replace("migration:", f"  nodePools:\n{pools}migration:"))
    yield from _nodes(world, m, labels=lambda number: {"pool": str(number)})


def _pod_selectors(world: DenseCluster, n: int, m: int) -> Records:
    selectors = "".join(
        f"    - {{name: s{at}, selector: {{matchExpressions: [{{key: app, operator: In, values: [a{at}]}}]}}}}\n"
        for at in range(n)
    )
    yield world.make_policy(
        _POLICY.replace("migration:", f"  podSelectors:\n{selectors}migration:")
    )
    yield from _hot_pods(world, m, _victim)


def _windows(world: DenseCluster, n: int, m: int) -> Records:
    windows = ", ".join(f"{{from: '{at // 60:02}:{at % 60:02}', to: '23:{at % 60:02}'}}" for at in range(n))  # fmt: skip
    yield from _policy(world, f"maintenance: {{windows: [{windows}]}}\n")
    yield from _hot_pods(world, m, _victim)


def _annotations(world: DenseCluster, n: int, m: int) -> Records:
    some = {f"scheduling.koordinator.sh/a-{at}": "x" for at in range(n)}
    yield from _hot_pods(world, m, lambda number: {"annotations": some | {"own": f"{number}"}})


def _node_annotation(world: DenseCluster, n: int, m: int) -> Records:
    text = json.dumps({"usageThresholds": {f"r{at}": 50 for at in range(n)}})
    yield from _nodes(world, 1, annotations=lambda number: {"scheduling.koordinator.sh/usage-thresholds": text})  # fmt: skip
    pods = [make_pod(f"m-{number}", node=0, **_victim(number)) for number in range(m)]
    yield from map(world.make_running, pods)
    yield from (world.make_record("node-metrics", make_metric(0, pods[:2_000])) for _ in range(3))
    yield from _requests(world, 3, lambda number: {})


def _sidecars(world: DenseCluster, n: int, m: int) -> Records:
    amounts = {f"r{at}": "1" for at in range(m)}
    init = tuple(Container(requests=amounts, restart_policy="Always" if at % 2 else None) for at in range(n))  # fmt: skip
    yield from _requests(world, 3, lambda number: {"init_containers": init, "millicores": number})


def _kinds_resources(amount: str, compat: str, world: DenseCluster, n: int, m: int) -> Records:
    yield from _policy(world, compat)
    yield from _hot_pods(world, n, lambda number: _resources(m, number, amount))


def _waiting_resources(world: DenseCluster, n: int, m: int) -> Records:
    yield from _requests(world, n, lambda number: _resources(m, number, "1"))
    yield from _nodes(world, 1, labels=lambda number: {"rank": "-1"})


def _pods_metric(world: DenseCluster, n: int, m: int) -> Records:
    pods = [make_pod(f"m-{number}", node=0, **_victim(number)) for number in range(n)]
    yield from map(world.make_running, pods)
    yield from (world.make_record("node-metrics", make_metric(0, pods[:m])) for _ in range(3))
    yield from _requests(world, 3, _victim)


def _claims(world: DenseCluster, n: int, m: int) -> Records:
    names = ", ".join(f"{{name: c{at}}}" for at in range(m))
    yield from _policy(world, f"evictor: {{podProtections: {{extraEnabled: [PodsWithPVC], config: {{PodsWithPVC: {{protectedStorageClasses: [{names}]}}}}}}}}")  # fmt: skip
    yield from _hot_pods(
        world,
        7_500,
        lambda number: {
            "labels": {"x": f"{number}"},
            "volume_claims": tuple(
                VolumeClaim(name=f"{number}-{at}", storage_class="x") for at in range(n)
            ),
        },
    )


def _aggregates(world: DenseCluster, n: int, m: int) -> Records:
    usage = {"cpu": 1, **{f"r{at}": 1 for at in range(m - 1)}}
    windows = tuple(AggregatedUsage(duration_ms=60_000 * (1 + at), usage=dict.fromkeys(AGGREGATION_TYPES, usage)) for at in range(n))  # fmt: skip
    one = make_metric(0, []).model_copy(
        update={"aggregated": windows, "aggregated_system": windows}
    )
    yield from (world.make_record("node-metrics", one) for _ in range(3))


def _nominated(world: DenseCluster, n: int, m: int) -> Records:
    for number in range(n):
        waits = make_pod(f"o-{number}", nominated_node=node_name(number % m), scheduler="other")
        yield world.make_running(waits)
    yield from _requests(world, 3, _victim)


#: Name, half of the largest sizes, and the records.
PAIRS: dict[str, tuple[int, int, Build]] = {
    "expressions of a pod x values of a label": (256, 2_500, _expressions),
    "kinds of hot pods x expressions": (300, 128, _kinds_expressions),
    "waiting kinds x expressions": (300, 128, _waiting_expressions),
    "tolerations x taints of 5,000 nodes": (32, 32, _tolerations),
    "kinds of hot pods x lists of taints": (1_500, 2_500, _kinds_taints),
    "waiting kinds x taints of 5,000 nodes": (300, 16, _waiting_taints),
    "requests x anti-affinity terms": (10, 16_000, _terms_requests),
    "topology keys of terms x nodes": (3_200, 2_500, _topologies),
    "anti-affinity terms x values": (128, 8_192, _terms_values),
    "hot pods x anti-affinity terms": (3_750, 16_000, _terms_moves),
    "excluded requests x anti-affinity terms": (1_000, 1_000, _waiting_excluded),
    "budgets x hot pods": (5_000, 1_000, _budgets_pods),
    "budgets that do not match x hot pods": (5_000, 1_000, _budgets_unmatched),
    "budgets x pods of a node": (25_000, 15, _budgets_drain),
    "owners x hot pods": (32, 3_750, _owners),
    "host ports x pods of a node": (512, 100, _host_ports),
    "host ports x nodes": (512, 1_000, _ports_nodes),
    "namespaces x namespace selector": (500, 3_750, _namespaces),
    "namespace patterns x hot pods": (512, 3_750, _patterns),
    "pools x nodes": (32, 2_500, _pools),
    "pod selectors x hot pods": (190, 3_750, _pod_selectors),
    "windows x hot pods": (32, 3_750, _windows),
    "annotations x hot pods": (500, 1_000, _annotations),
    "annotation of a node x its pods": (5_000, 1_000, _node_annotation),
    "init containers x resources": (256, 8, _sidecars),
    "kinds of hot pods x resources": (1_500, 31, partial(_kinds_resources, "1", "")),
    "kinds of hot pods x resources of amount 0": (
        1_500, 31, partial(_kinds_resources, "0", "compat: koordinator"),
    ),
    "waiting kinds x resources": (1_500, 31, _waiting_resources),
    "pods of a node x its metric": (2_000, 1_000, _pods_metric),
    "volume claims x storage classes": (64, 1_000, _claims),
    "windows of a metric x resources": (32, 32, _aggregates),
    "nominated pods x nodes": (2_500, 100, _nominated),
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
