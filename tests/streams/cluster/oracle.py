"""What plugins and rankings must say, worked out the plain way.

For a ranking, plugins are made anew, given every node once, and asked about one node at a time; totals, bounds and counts
are then put together in loops. Nothing is kept from one answer to the next.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod, PodLifecycle
from schemas.policy import Policy
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.placement.plugin import Filter, Plugin, Score
from streams.placement.ranking import REFUSED, Ranking
from streams.placement.registry import build_filters, build_scores
from streams.pods.kind import Kind, kind_of
from streams.usage.estimate import Estimator
from tests.streams.builders import START_MS
from tests.streams.world import filter_world


@dataclass(frozen=True)
class Verdict:
    """The combined result of all plugins on all nodes for one kind of pod."""

    totals: list[int]
    """By row, `REFUSED` where refused."""
    refused_by: list[int]
    """Nodes refused, per filter."""
    reasons: Counter[str]
    decides: Sequence[float]
    """By row: totals, or raw scores if the only score is normalized; below all where refused."""

    @property
    def order(self) -> list[int]:
        """Rows that pass, best first; the first by name among equals."""
        rows = sorted(range(len(self.totals)), key=lambda row: (-self.decides[row], row))
        return [row for row in rows if self.totals[row] != REFUSED]

    @property
    def best(self) -> int | None:
        """The first of them; none: every node is refused."""
        return next(iter(self.order), None)


def refresh_all(plugin: Plugin, nodes: Sequence[Node], now_ms: int) -> None:
    """Let a new plugin know these nodes."""
    plugin.relayout(np.full(len(nodes), -1, dtype=np.int64))
    for row, node in enumerate(nodes):
        plugin.refresh(row, node, now_ms)


def scores(plugin: Score, asks: Pod, *nodes: Node, now_ms: int = START_MS) -> list[float]:
    """Scores of a new plugin, which scores one node and all nodes in the same way."""
    refresh_all(plugin, nodes, now_ms)
    prepared = plugin.prepare(kind_of(asks))
    scores: list[float] = plugin.scores(prepared).tolist()
    assert scores == [plugin.score(prepared, row) for row in range(len(nodes))]
    return scores


def reason(plugin: Filter, asks: Pod, node: Node, now_ms: int = START_MS) -> str | None:
    """Why a new filter refuses a node; its mask agrees."""
    refresh_all(plugin, [node], now_ms)
    prepared = plugin.prepare(kind_of(asks))
    reason = plugin.reason(prepared, 0)
    mask = plugin.mask(prepared)
    assert (mask is None or bool(mask[0])) == (reason is None)
    return reason


def check_filter(
    name: str,
    history: Sequence[NodeState | PodLifecycle],
    kinds: Sequence[Kind],
    accepts: Callable[[Pod, Node], bool],
) -> None:
    """After every event, the filter's mask and reasons accept the nodes that `accepts` does."""
    world = filter_world(name)
    for event in history:
        world.send(event)
        for kind in kinds:
            mask = world.filter.mask(world.filter.prepare(kind))
            if mask is not None:
                assert mask.shape == (len(world.nodes),)
                assert mask.dtype == np.bool_
                mask[:] = ~mask  # the caller's copy
            accepted = [node.name for node in world.nodes if accepts(kind.pod, node)]
            assert world.passing(kind) == accepted
            reasons = world.reasons(kind)
            assert [name for name, reason in reasons.items() if reason is None] == accepted


def verdict(policy: Policy, inventory: Inventory, kind: Kind) -> Verdict:
    """Judge every node that Kubernetes has named."""
    nodes = sorted(
        (node for node in inventory.nodes.values() if node.state is not None),
        key=lambda node: node.name,
    )
    estimator = Estimator(policy.load_aware, policy.compat)
    filters, scores = build_filters(policy, estimator), build_scores(policy, estimator)
    refused_by = [0] * len(filters)
    reasons: Counter[str] = Counter()
    passing = set(range(len(nodes)))
    for index, plugin in enumerate(filters):
        refresh_all(plugin, nodes, inventory.now_ms)
        prepared = plugin.prepare(kind)
        for row in sorted(passing):
            reason = plugin.reason(prepared, row)
            if reason is not None:
                passing.discard(row)
                refused_by[index] += 1
                reasons[reason] += 1
    totals = [0 if row in passing else REFUSED for row in range(len(nodes))]
    decides: Sequence[float] = totals
    for score, weight in scores:
        refresh_all(score, nodes, inventory.now_ms)
        prepared = score.prepare(kind)
        raw = {row: score.score(prepared, row) for row in sorted(passing)}
        low, high = min(raw.values(), default=0.0), max(raw.values(), default=0.0)
        for row, value in raw.items():
            if score.normalized:
                value = 100 if low == high else int((value - low) / (high - low) * 100)
            totals[row] += weight * int(value)
        if score.normalized and len(scores) == 1:
            decides = [raw.get(row, -inf) for row in range(len(nodes))]
    return Verdict(totals, refused_by, reasons, decides)


def check(ranking: Ranking, expected: Verdict) -> None:
    """The ranking equals the plain computation."""
    assert ranking.totals.tolist() == list(expected.decides)
    assert ranking.refused_by == expected.refused_by
    assert ranking.count_reasons() == expected.reasons
    best, order = expected.best, expected.order
    assert ranking.find_best() == best
    if best is not None:
        assert ranking.list_runners_up(2, {best}) == order[1:3]
    for row in order:
        ((_, terms),) = ranking.list_scored(row, 0, ())
        assert sum(term.score * term.weight for term in terms) == expected.totals[row]
        assert all(0 <= term.score <= 100 for term in terms)
