"""Time of a round of rebalancing.

`rebalance_round_ms` is a round by thresholds: it classifies all nodes, counts rounds, sorts the hot nodes
and their pods, and plans all moves up to the limits of a round. `detail` has the time of packing changed
nodes, because a worker packs in the ticks between two rounds. The gates of protections and other limits
are not measured. After each run a check ensures that no target is above its high threshold.
`.both_strategies` is the round of the default policy, which plans moves by risk after the moves by
thresholds.
"""

from dataclasses import dataclass
from functools import partial
from statistics import median
from time import process_time_ns

import numpy as np

from benchmarks.figures import Benchmark, CheckFailed, Figure, measure_median_us
from benchmarks.messages import CLUSTER, node_name
from schemas.messages.metrics import NodeMetric, PodMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Container, OwnerReference, Pod
from schemas.policy import LOW_NODE_LOAD, OVERUTILIZATION_RISK, Policy
from streams.inventory.inventory import Inventory
from streams.migration.limits.round_limits import RoundLimits
from streams.moves.history import MoveHistory
from streams.placement.placer import Exclusions
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Gate, RoundRules
from streams.rebalance.outcome import RoundOutcome

_NOW_MS = 1_800_000_000_000
_PODS = 30
_KINDS = 8
_GIB = 2**30
_CORES, _MEMORY = 64, 256 * _GIB
_HIGH, _LOW = {"cpu": 70, "memory": 80}, {"cpu": 45, "memory": 60}
_REPEATS = 20


@dataclass(frozen=True, slots=True)
class _Variant:
    nodes: int = 5_000
    hot_percent: int = 5
    balance: tuple[str, ...] = (LOW_NODE_LOAD,)


_VARIANTS = {
    "": _Variant(),
    "nodes_1000": _Variant(nodes=1_000),
    "nodes_20000": _Variant(nodes=20_000),
    "hot_0": _Variant(hot_percent=0),
    "hot_30": _Variant(hot_percent=30),
    "both_strategies": _Variant(balance=(LOW_NODE_LOAD, OVERUTILIZATION_RISK)),
}


def _make_rules(policy: Policy, nodes: int) -> RoundRules:
    """Return rules with the limits of a round and no other gates."""
    limits, refused = RoundLimits(policy), np.zeros(nodes, dtype=np.bool_)

    def check_limits(held: HeldPod, node: str) -> Gate | None:
        gate = limits.check(node, held.pod.namespace)
        if gate is None:
            limits.count(node, held.pod.namespace)
        return gate

    return RoundRules((), lambda _: None, lambda _: refused, check_limits, lambda _: None)


def _measure_round(variant: _Variant, node_fit: bool) -> Figure:
    policy = Policy.model_validate(
        {
            "rebalance": {
                "highThresholds": _HIGH,
                "lowThresholds": _LOW,
                "nodeFit": node_fit,
                "anomalyCondition": {"consecutiveAbnormalities": 1},
            },
            "plugins": {"balance": variant.balance},
        }
    )
    inventory = _make_inventory(variant, policy)
    balancer = Balancer(CLUSTER, inventory, Exclusions(MoveHistory(CLUSTER, policy), inventory))
    packed, _ = measure_median_us(lambda _: balancer.refresh(), 1, warmup=0)
    outcomes: list[RoundOutcome] = []

    spent: list[int] = []

    def step(number: int) -> None:
        began = process_time_ns()
        outcomes[:] = [balancer.make_round(_NOW_MS, _make_rules(policy, variant.nodes))]
        spent.append(process_time_ns() - began)

    median_us, min_us = measure_median_us(step, _REPEATS, warmup=3)
    (outcome,) = outcomes
    _check(outcome, inventory)
    detail: dict[str, object] = {
        "nodes": variant.nodes,
        "pods": variant.nodes * _PODS,
        "hot": len(outcome.pools[0].hot),
        "moves": len(outcome.moves),
        "repeats": _REPEATS,
        "min_ms": round(min_us / 1000, 2),
        "cpu_ms": round(median(spent) / 1e6, 2),
        "packing_us_per_node": round(packed / variant.nodes, 1),
    }
    return Figure(median_us / 1000, "ms", detail)


def _make_inventory(variant: _Variant, policy: Policy) -> Inventory:
    inventory = Inventory(policy)
    inventory.advance(_NOW_MS)
    random = np.random.default_rng(1)
    kinds = [_make_pod(number) for number in range(_KINDS)]
    templates = [(kind.pod, kind) for kind in map(kind_of, kinds)]
    hot_every = 100 // variant.hot_percent if variant.hot_percent else 0
    for number in range(variant.nodes):
        name = node_name(number)
        inventory.apply_node(
            NodeState(
                cluster=CLUSTER,
                node=name,
                event="added",
                allocatable={"cpu": str(_CORES), "memory": str(_MEMORY), "pods": "110"},
            )
        )
        share = 0.75 + 0.2 * random.random()
        if not hot_every or number % hot_every:
            share = 0.2 + 0.45 * random.random()
        parts = random.dirichlet(np.full(_PODS, 4.0)) * share
        metrics = []
        for index, part in enumerate(parts.tolist()):
            pod, kind = templates[(number + index) % _KINDS]
            uid = f"{number}-{index}"
            node_pod = pod.model_copy(
                update={"name": uid, "uid": uid, "node": name, "created_at_ms": _NOW_MS - index}
            )
            inventory.hold(name, HeldPod(node_pod, kind, 0), first_seen=True)
            usage = {"cpu": int(part * _CORES * 1000), "memory": int(part * 0.8 * _MEMORY)}
            metrics.append(PodMetric(namespace="default", name=uid, usage=usage))
        inventory.apply_metric(
            NodeMetric(
                cluster=CLUSTER,
                node=name,
                updated_at_ms=_NOW_MS,
                usage={},
                report_interval_ms=0,
                pods=tuple(metrics),
            )
        )
    return inventory


def _make_pod(kind: int) -> Pod:
    requests = {"cpu": f"{400 + 50 * kind}m", "memory": "2Gi"}
    return Pod(
        namespace="default",
        name="pod",
        uid="pod",
        phase="Running",
        priority=5_500 if kind % 4 == 0 else 9_500,
        qos_class="Burstable",
        owners=(OwnerReference(kind="ReplicaSet", name="web", uid="web", controller=True),),
        containers=(Container(requests=requests, limits=requests),),
    )


def _check(outcome: RoundOutcome, inventory: Inventory) -> None:
    """Raise CheckFailed if the plan moves a target above a high threshold."""
    added: dict[str, dict[str, int]] = {}
    for move in outcome.moves:
        if move.target is None:
            raise CheckFailed(f"the move of {move.held.pod.name} has no target")
        added_usage = added.setdefault(move.target, dict.fromkeys(_HIGH, 0))
        for resource in _HIGH:
            added_usage[resource] += move.usage[resource]
    capacity = {"cpu": _CORES * 1000, "memory": _MEMORY}
    for name, amounts in added.items():
        metric = inventory.nodes[name].usage.metric
        assert metric is not None  # noqa: S101 - targets are measured
        for resource, high in _HIGH.items():
            used = sum(pod.usage[resource] for pod in metric.pods) + amounts[resource]
            if used > int(high * 0.01 * capacity[resource]):
                raise CheckFailed(f"{name} would use {used} of {capacity[resource]} {resource}")


BENCHMARKS: dict[str, Benchmark] = {
    f"rebalance_round_ms{suffix}{name and '.'}{name}": partial(_measure_round, variant, node_fit)
    for suffix, node_fit in (("", False), (".nodefit", True))
    for name, variant in _VARIANTS.items()
}
"""All figures of this module, by name."""
