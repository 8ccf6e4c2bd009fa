"""Time to choose a node, on clusters generated from a seed.

    placement_cold_us   filter and score all nodes for a new kind of pod
    placement_warm_us   choose a node for another pod of a known kind, after two nodes have changed: one by
                        the reservation of the last pod, one by a metric. Reserving room, applying the
                        metric and writing the message are not measured.
    placement_risk_*    the same times with all filters, and OverutilizationRisk as the only score
    .kinds_N            alternating pods of N kinds; without this suffix all pods have the same kind

After each run a full scoring of every node checks the chosen node.
"""

from functools import partial

import numpy as np

from benchmarks.figures import Benchmark, CheckFailed, Figure, measure_median_us
from benchmarks.messages import CLUSTER, make_node_metric, make_node_state, make_pod
from schemas.policy import LOAD_AWARE, OVERUTILIZATION_RISK, Policy
from schemas.policy.sections.plugins import BALANCED_ALLOCATION, RESOURCES_FIT
from streams.cluster.state import ClusterState, Position
from streams.placement.placer import KINDS_MAX, Placer
from streams.pods.held_pod import HeldPod
from streams.pods.kind import Kind, kind_of

_NOW_MS = 1_800_000_000_000
#: Update time of metrics.
_UPDATED_MS = _NOW_MS - 1000

#: Annotation with thresholds, which differ between nodes.
_THRESHOLDS = (
    '{{"usageThresholds":{{"cpu":{0}}},"aggregatedUsage":{{"usageThresholds":{{"cpu":{0},"memory":90}},'
    '"usageAggregationType":"p95","usageAggregatedDuration":"5m"}}}}'
)


def _make_cluster(variant: str, nodes: int) -> ClusterState:
    state = ClusterState(CLUSTER)
    state.set_policy(_make_policy(variant))
    state.advance(_NOW_MS)
    random = np.random.default_rng(1)
    for number in range(nodes):
        node = make_node_state(number)
        if variant == "annotated":
            raw = f'{{"cpu":"{int(node.allocatable["cpu"]) - 1}"}}'
            annotations = {
                "scheduling.koordinator.sh/usage-thresholds": _THRESHOLDS.format(60 + number % 20),
                "node.koordinator.sh/raw-allocatable": raw,
            }
            node = node.model_copy(update={"annotations": annotations})
        state.apply(node, _make_position("node-state", number))
        metric = make_node_metric(number, random, _UPDATED_MS)
        state.apply(metric, _make_position("node-metrics", number))
    state.inventory.update_index()
    return state


def _make_policy(variant: str) -> Policy:
    only_load = {"filter": [LOAD_AWARE], "score": [LOAD_AWARE]}
    document: dict[str, object] = {"plugins": only_load}
    if variant == "all_plugins":
        document = {"plugins": {"score": [LOAD_AWARE, "NodeResourceLimitsAware"]}}
    elif variant == "by_requests":
        document = {"plugins": {"score": [LOAD_AWARE, RESOURCES_FIT, BALANCED_ALLOCATION]}}
    elif variant == "risk":
        document = {"plugins": {"score": [OVERUTILIZATION_RISK]}}
    elif variant in ("aggregated", "annotated"):
        document["loadAware"] = {
            "aggregated": {
                "usageThresholds": {"cpu": 65, "memory": 95},
                "usageAggregationType": "p95",
                "usageAggregatedDuration": "5m",
                "scoreAggregationType": "p95",
                "scoreAggregatedDuration": "5m",
            }
        }
    return Policy.model_validate(document)


def _make_position(topic: str, offset: int) -> Position:
    return Position(topic, 0, offset, {topic: offset})


_VARIANTS: tuple[tuple[str, int], ...] = (
    ("", 5_000),
    ("all_plugins", 5_000),
    ("by_requests", 5_000),
    ("aggregated", 5_000),
    ("annotated", 5_000),
    ("nodes_1000", 1_000),
    ("nodes_20000", 20_000),
)
_COLD_REPEATS = 1_000
#: Number of kinds during the warmup, so high that the placer drops rankings, as in a long-running worker.
_COLD_WARMUP = KINDS_MAX + 100
_WARM_REPEATS = 2_000
#: Real clusters have pods of hundreds of kinds.
_KINDS = (64, 600)


def _measure_cold(variant: str, nodes: int) -> Figure:
    state = _make_cluster(variant, nodes)
    placer = state.placement.placer
    # Each pod has a different CPU request, so each pod has a new kind.
    kinds = [
        kind_of(make_pod(f"pod-{number}", 100 + number, 1024))
        for number in range(_COLD_REPEATS + _COLD_WARMUP)
    ]

    def choose(number: int) -> int | None:
        return placer.rank(kinds[number]).find_best()

    median_us, min_us = measure_median_us(choose, _COLD_REPEATS, warmup=_COLD_WARMUP)
    for kind in kinds[::100]:
        _check(placer, kind)
    detail: dict[str, object] = {
        "nodes": nodes,
        "repeats": _COLD_REPEATS,
        "min_us": round(min_us, 2),
    }
    return Figure(median_us, "us", detail)


def _measure_warm(variant: str, nodes: int, kinds: int = 1) -> Figure:
    state = _make_cluster(variant, nodes)
    inventory, placer = state.inventory, state.placement.placer
    random = np.random.default_rng(2)
    warmup = 50 + kinds
    pods = [
        make_pod(f"pod-{number}", 500 + number % kinds, 1024)
        for number in range(_WARM_REPEATS + warmup)
    ]
    metrics = [
        make_node_metric(int(random.integers(nodes)), random, _UPDATED_MS)
        for _ in range(_WARM_REPEATS + warmup)
    ]
    kind_by_number = [kind_of(waiting) for waiting in pods[:kinds]]
    chosen: list[int | None] = []

    def choose(number: int) -> None:
        chosen.append(placer.rank(kind_by_number[number % kinds]).find_best())

    def change_nodes(number: int) -> None:
        row = chosen[-1]
        if row is not None:
            kind = kind_by_number[number % kinds]
            held = HeldPod(pods[number], kind, _NOW_MS)
            inventory.hold(placer.index.nodes[row].name, held, first_seen=True)
        inventory.apply_metric(metrics[number])
        placer.refresh()  # the stage also refreshes after each record

    choose(0)
    median_us, min_us = measure_median_us(choose, _WARM_REPEATS, before=change_nodes, warmup=warmup)
    _check(placer, kind_by_number[0])
    detail: dict[str, object] = {
        "nodes": nodes,
        "repeats": _WARM_REPEATS,
        "min_us": round(min_us, 2),
        "changed_nodes": 2,
        "kinds": kinds,
        "placed": sum(row is not None for row in chosen),
    }
    return Figure(median_us, "us", detail)


def _check(placer: Placer, kind: Kind) -> None:
    """Score every node; raise CheckFailed unless the best node is that of the ranking."""
    ranking = placer.rank(kind)
    ranked_row = ranking.find_best()
    filters = [(plugin, plugin.prepare(kind)) for plugin in placer.filters]
    passing = [
        row
        for row in range(placer.index.size)
        if all(plugin.reason(prepared, row) is None for plugin, prepared in filters)
    ]
    totals = dict.fromkeys(passing, 0)
    for plugin, weight in placer.scores:
        prepared = plugin.prepare(kind)
        scores: dict[int, float] = {row: plugin.score(prepared, row) for row in passing}
        if plugin.normalized and scores:
            low, high = min(scores.values()), max(scores.values())
            scores = {
                row: 100 if high <= low else (score - low) / (high - low) * 100.0
                for row, score in scores.items()
            }
        for row in passing:
            totals[row] += weight * int(scores[row])
    scored_row = min(passing, key=lambda row: (-totals[row], row)) if passing else None
    terms = () if ranked_row is None else ranking.list_scored(ranked_row, 0, ())[0][1]
    total = sum(term.score * term.weight for term in terms)
    if ranked_row != scored_row or (scored_row is not None and total != totals[scored_row]):
        raise CheckFailed(
            f"chose row {ranked_row} with {total}, full scoring says row {scored_row}"
        )


BENCHMARKS: dict[str, Benchmark] = {
    **{
        f"placement_{case}_us{variant and '.'}{variant}": partial(measure, variant, nodes)
        for case, measure in (("cold", _measure_cold), ("warm", _measure_warm))
        for variant, nodes in _VARIANTS
    },
    "placement_risk_cold_us": partial(_measure_cold, "risk", 5_000),
    "placement_risk_warm_us": partial(_measure_warm, "risk", 5_000),
    **{
        f"{base}.kinds_{kinds}": partial(_measure_warm, variant, 5_000, kinds)
        for kinds in _KINDS
        for base, variant in (("placement_warm_us", ""), ("placement_risk_warm_us", "risk"))
    },
}
"""All figures of this module, by name."""
