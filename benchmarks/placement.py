"""How long choosing a node takes.

`placement_cold_us`: filter and score all nodes for a kind of pod that was not seen before.
`placement_warm_us`: one more pod of a known kind, through the entry that decisions use, after the
last pod's reservation and a new metric of another node have changed two nodes. Taking the room,
applying the metric and writing the message are not part of it. `.kinds_64` and `.kinds_600`: pods
of that many kinds in turns; elsewhere all are of one kind. `placement_risk_cold_us` and
`placement_risk_warm_us`: the same with all filters and OverutilizationRisk alone as the score. After each run winners are checked
against full scoring of every node one by one.
"""

from functools import partial

import numpy as np

from benchmarks import clusters
from benchmarks.figures import Benchmark, Figure, median_us
from streams.cluster.state import ClusterState
from streams.placement.placer import KINDS_MAX, Placer
from streams.placement.ranking import REFUSED
from streams.pods.held import Held
from streams.pods.kind import Kind, kind_of

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
#: Kinds that come first: enough for rankings to be dropped, as in a worker that has run for long.
_COLD_WARMUP = KINDS_MAX + 100
_WARM_REPEATS = 2_000
#: Real clusters have pods of hundreds of kinds.
_KINDS = (64, 600)


class WrongWinner(AssertionError):
    """The fast way and the plain way of choosing a node disagree."""


def benchmarks() -> dict[str, Benchmark]:
    """All figures of this module, by name."""
    found: dict[str, Benchmark] = {}
    for base, measure in (("placement_cold_us", _cold), ("placement_warm_us", _warm)):
        for variant, nodes in _VARIANTS:
            name = f"{base}.{variant}" if variant else base
            found[name] = partial(measure, name, variant, nodes)
    for name, measure in (("placement_risk_cold_us", _cold), ("placement_risk_warm_us", _warm)):
        found[name] = partial(measure, name, "risk", 5_000)
    for kinds in _KINDS:
        for base, variant in (("placement_warm_us", ""), ("placement_risk_warm_us", "risk")):
            name = f"{base}.kinds_{kinds}"
            found[name] = partial(_warm, name, variant, 5_000, kinds)
    return found


def _cold(name: str, variant: str, nodes: int) -> Figure:
    state = _state(variant, nodes)
    placer = state.placement.placer
    # Requests unlike any other: each is a kind of its own.
    kinds = [
        kind_of(clusters.pod(number, millicores=100 + number))
        for number in range(_COLD_REPEATS + _COLD_WARMUP)
    ]

    def choose(number: int) -> int | None:
        return placer.rank(kinds[number]).best()

    middle, least = median_us(choose, _COLD_REPEATS, warmup=_COLD_WARMUP)
    for kind in kinds[::100]:
        _check(placer, kind)
    detail: dict[str, object] = {
        "nodes": nodes,
        "repeats": _COLD_REPEATS,
        "min_us": round(least, 2),
    }
    return Figure(name, middle, "us", detail)


def _warm(name: str, variant: str, nodes: int, kinds: int = 1) -> Figure:
    state = _state(variant, nodes)
    inventory, placer = state.inventory, state.placement.placer
    random = np.random.default_rng(2)
    warmup = 50 + kinds
    pods = [
        clusters.pod(number, millicores=500 + number % kinds)
        for number in range(_WARM_REPEATS + warmup)
    ]
    metrics = [
        clusters.metric(int(random.integers(nodes)), random) for _ in range(_WARM_REPEATS + warmup)
    ]
    kind_by_number = [kind_of(each) for each in pods[:kinds]]
    chosen: list[int | None] = []

    def choose(number: int) -> None:
        chosen.append(placer.rank(kind_by_number[number % kinds]).best())

    def between(number: int) -> None:
        row = chosen[-1]
        if row is not None:
            kind = kind_by_number[number % kinds]
            held = Held(pods[number], kind.demand, clusters.NOW_MS)
            inventory.hold(placer.index.nodes[row].name, held, first_seen=True)
        inventory.apply_metric(metrics[number])
        placer.refresh()  # as after each record

    choose(0)
    middle, least = median_us(choose, _WARM_REPEATS, before=between, warmup=warmup)
    _check(placer, kind_by_number[0])
    detail: dict[str, object] = {
        "nodes": nodes,
        "repeats": _WARM_REPEATS,
        "min_us": round(least, 2),
        "changed_nodes": 2,
        "kinds": kinds,
        "placed": sum(row is not None for row in chosen),
    }
    return Figure(name, middle, "us", detail)


def _state(variant: str, nodes: int) -> ClusterState:
    return clusters.cluster(nodes, clusters.policy(variant), annotated=variant == "annotated")


def _check(placer: Placer, kind: Kind) -> None:
    """Score every node one by one and compare the winner."""
    ranking = placer.rank(kind)
    fast = ranking.best()
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
        if plugin.normalised and scores:
            low, high = min(scores.values()), max(scores.values())
            scores = {
                row: 100 if high <= low else (score - low) / (high - low) * 100.0
                for row, score in scores.items()
            }
        for row in passing:
            totals[row] += weight * int(scores[row])
    slow = min(passing, key=lambda row: (-totals[row], row)) if passing else None
    total = REFUSED if fast is None else ranking.total(fast)
    if fast != slow or (slow is not None and total != totals[slow]):
        raise WrongWinner(f"chose row {fast} with {total}, full scoring says row {slow}")
