"""Why nothing left a node: its class, readings and thresholds, how long it has been hot, its gate."""

from collections.abc import Iterator, Mapping

from connectors.queries.rebalancing_wording import count_text, drain_text, unnamed_hot
from connectors.units import amounts_text
from connectors.whynot.cluster import no_rounds, preamble
from connectors.whynot.evidence import Answer, Evidence, RoundNode
from connectors.whynot.wording import (
    migration_lines,
    move_lines,
    percents_text,
    readings_text,
    rounds_hot_text,
    thresholds_text,
    verdict_text,
)
from schemas.base.quantities import amount
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import LIVE


def about_node(evidence: Evidence, node: str) -> Answer:
    """The answer for a node."""
    found = list(evidence.hot(node))
    known = bool(found) or node in evidence.metrics or node in evidence.nodes
    if not evidence.rounds:
        nothing = no_rounds(evidence)
        return Answer((*nothing.sentences, *_present(evidence, node)), known, {})
    sentences = list(preamble(evidence))
    now = [each for each in found if each.rounds_ago == 0]
    for each in now:
        sentences += _hot(evidence, each)
    if not now:
        sentences += _not_hot(evidence, node, found)
    if evidence.drains:
        drain = evidence.drains[0]
        sentences.append(f"As of {evidence.at(drain.happened_at_ms)} {drain_text(drain)}.")
    sentences += migration_lines(evidence)
    sentences += move_lines(evidence)
    return Answer(tuple(sentences), known, _data(evidence, node, found))


def _hot(evidence: Evidence, found: RoundNode) -> Iterator[str]:
    hot, pool = found.node, found.pool
    kind = "prodHigh" if hot.phase == "prod" else "high"
    where = f"pool {pool.pool} is in class {kind}" if hot.cost is None else pool.pool
    yield (
        f"Node {hot.node} of {where}: {readings_text(hot)}. In force: "
        f"{thresholds_text(pool.thresholds)}."
    )
    yield f"It is {rounds_hot_text(hot, pool)}."
    if hot.gate:
        yield f"What stopped it: {hot.gate}."
    elif pool.gate:
        yield f"What stopped its pool: {pool.gate}."
    elif hot.leaving:
        yield f"Nothing stopped it; begun: {count_text(hot.leaving, 'migration')}."
    elif not hot.pods:
        yield "No pod of it was looked at."
    for pod in hot.pods:
        left = " It has left since." if evidence.has_left(pod.pod) else ""
        yield f"Pod {verdict_text(pod)}.{left}"
    if hot.pods_left_out:
        yield f"{hot.pods_left_out} more pods of it were looked at; the record leaves them out."


def _not_hot(evidence: Evidence, node: str, found: list[RoundNode]) -> Iterator[str]:
    newest = evidence.rounds[0]
    left_out = sum(map(unnamed_hot, newest.pools))
    yield f"Node {node} is not among the hot nodes that the newest round names."
    if left_out:
        yield (
            f"It may be one of {left_out} further hot nodes: a record names those that have their turn "
            "first and counts the others."
        )
    if found:
        last = found[0]
        yield (
            f"It was hot last at {evidence.at(last.round.decided_at_ms)}, "
            f"{count_text(last.rounds_ago, 'round')} before the newest: {readings_text(last.node)}"
            f"{f'; {last.node.gate}' if last.node.gate else ''}."
        )
    else:
        yield f"It was hot in none of the newest {count_text(len(evidence.rounds), 'round')}."
    yield from _present(evidence, node)
    # Pools may have nodes in common: moves by risk look at those of all of them.
    skipped = [
        f"{count_text(count, 'node')} of pool {pool.pool}"
        for pool in newest.pools
        if (count := pool.nodes.get("skipped", 0))
    ]
    if skipped:
        yield (
            "Skipped in the newest round (no metric, a metric that is too old, or one without a resource "
            f"that the pool looks at; such a node is never hot): {', '.join(skipped)}."
        )
    for pool in newest.pools:
        yield f"In force in pool {pool.pool}: {thresholds_text(pool.thresholds)}."


def _present(evidence: Evidence, node: str) -> Iterator[str]:
    """What is known of a node beside rounds."""
    metric, state = evidence.metrics.get(node), evidence.nodes.get(node)
    if state is not None and state.event == "removed":
        yield f"Node {node} was removed from the cluster."
        return
    if metric is None and state is None:
        yield (
            f"Nothing that was read names node {node}: no metric and no state of it. Its name may be "
            "another one, or nothing measures it (topic node-usage)."
        )
        return
    if metric is None or metric.usage is None or metric.updated_at_ms is None:
        yield f"Its usage is not known: {_unknown(metric)}, so rounds skip it."
        return
    percents = {}
    for name, text in {} if state is None else state.allocatable.items():
        whole = amount(name, text)
        if name in metric.usage and whole > 0:
            percents[name] = 100 * metric.usage[name] / whole
    share = " and ".join(f"{name} {percent:.1f} %" for name, percent in percents.items())
    by = f", measured by {metric.source}" if metric.source else ""
    yield (
        f"Its newest metric is from {evidence.at(metric.updated_at_ms)}{by}: it uses "
        f"{amounts_text(metric.usage)}{f', of its allocatable {share}' if share else ''}."
    )
    if evidence.stateless:
        yield (
            "No record of topic node-state names it: neither rounds nor placement look at it until one "
            "does."
        )
    yield from _hotter_than_said(evidence, percents, metric.updated_at_ms)


def _unknown(metric: NodeMetric | None) -> str:
    """Why a node's usage is not known by its newest metric."""
    if metric is None:
        return "no metric of it was found"
    if metric.usage is not None:
        return "its newest metric does not say when it was measured"
    if metric.source:
        return f"{metric.source}, which measured it last, has no figures of it any more"
    return "its metric was removed" if metric.removed else "its newest metric has no figures of it"


def _hotter_than_said(
    evidence: Evidence, percents: Mapping[str, float], updated_at_ms: int
) -> Iterator[str]:
    """Why a node that is hot by its newest metric is not called hot.

    The node's pool is not known here, so only what every pool would call hot counts.
    """
    pools = [pool for each in evidence.rounds[:1] for pool in each.pools if pool.thresholds.high]
    hot = [
        {name: high for name, high in pool.thresholds.high.items() if percents.get(name, 0) > high}
        for pool in pools
    ]
    if not hot or not all(hot):
        return
    newest, above = evidence.rounds[0], percents_text(hot[0], "or")
    if evidence.paused or newest.gate:
        why = newest.gate or "the cluster is paused"
        yield f"That is above {above}, but no round judges it: {why}."
        return
    if updated_at_ms > newest.decided_at_ms:
        yield f"That is above {above}. The metric is newer than the newest round; the next one judges it."
        return
    newest_reports = {each.migration_id: each for each in reversed(evidence.migrations)}
    leaving = sum(each.phase in LIVE for each in newest_reports.values())
    way = f" ({count_text(leaving, 'migration')} from it under way)" if leaving else ""
    yield (
        f"That is above {above}, and still it is not called hot: a round deducts pods that have ended or "
        f"left since the metric{way}, and divides by the raw allocatable where the node names one."
    )


def _data(evidence: Evidence, node: str, found: list[RoundNode]) -> dict[str, object]:
    metric = evidence.metrics.get(node)
    return {
        "rounds_hot": len({each.rounds_ago for each in found}),
        "hot": [
            {"decided_at_ms": each.round.decided_at_ms, "pool": each.pool.pool,
             "thresholds": each.pool.thresholds.model_dump(mode="json"),
             "rounds_needed": each.pool.rounds_needed,
             "node": each.node.model_dump(mode="json", exclude_none=True)}
            for each in found[:1]
        ],
        "metric": None if metric is None else metric.payload(),
        "migrations": [status.payload() for status in evidence.migrations],
        "moves": [move.payload() for move in evidence.moves],
    }  # fmt: skip
