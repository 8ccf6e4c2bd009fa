"""Explains why no pod left a node."""

from collections.abc import Iterator, Mapping

from connectors.queries.rebalancing_wording import (
    count_unnamed_hot,
    drain_text,
    list_judged_pools,
    memory_text,
)
from connectors.queries.whynot.cluster import describe_newest_round, explain_no_rounds
from connectors.queries.whynot.evidence import Answer, Evidence, RoundNode
from connectors.queries.whynot.wording import (
    explain_unknown,
    migration_lines,
    move_lines,
    no_pod_leaves_text,
    percents_text,
    readings_text,
    rounds_hot_text,
    strategy_text,
    thresholds_text,
    verdict_text,
)
from connectors.units import amounts_text, count_text
from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts
from schemas.messages.migrations import LIVE
from schemas.policy.sections.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK


def explain_node(evidence: Evidence, node: str) -> Answer:
    hot_rounds = list(evidence.find_hot_rounds(node))
    is_known = bool(hot_rounds) or node in evidence.metrics or node in evidence.nodes
    unknown = explain_unknown(evidence, node)
    first = [f"{node} is unknown: {unknown}."] if unknown else []
    if not evidence.rounds:
        nothing = explain_no_rounds(evidence)
        return Answer((*first, *nothing.sentences, *_describe_metric(evidence, node)), is_known, {})
    sentences = [*first, *describe_newest_round(evidence)]
    now = [hot for hot in hot_rounds if hot.rounds_ago == 0]
    for hot in now:
        sentences += _describe_hot_round(evidence, hot)
    if not now:
        sentences += _describe_not_hot(evidence, node, hot_rounds, judged=not unknown)
    if not unknown:
        sentences += _explain_unjudged_resources(evidence, node)
    sentences += [
        f"In pool {pool.pool} {memory_text(pool)}."
        for pool in list_judged_pools(evidence.rounds[0])
        if pool.memory
    ]
    if evidence.drain is not None:
        at = evidence.at(evidence.drain.happened_at_ms)
        sentences.append(f"As of {at} {drain_text(evidence.drain)}.")
    sentences += migration_lines(evidence)
    sentences += move_lines(evidence)
    return Answer(tuple(sentences), is_known, _build_data(evidence, node, hot_rounds))


def _describe_hot_round(evidence: Evidence, hot_round: RoundNode) -> Iterator[str]:
    hot, pool = hot_round.node, hot_round.pool
    kind = "prodHigh" if hot.phase == "prod" else "high"
    yield (
        f"Node {hot.node} is in class {kind}, judged by {strategy_text(pool)}: {readings_text(hot)}. "
        f"In force: {thresholds_text(pool.thresholds)}."
    )
    yield f"It is {rounds_hot_text(hot, pool)}."
    if hot.gate:
        yield f"{no_pod_leaves_text(hot.leaving)} it: {hot.gate}."
    elif pool.gate:
        yield f"{no_pod_leaves_text(pool.leaving)} its pool: {pool.gate}."
    elif hot.leaving:
        yield f"Started: {count_text(hot.leaving, 'migration')}."
    elif not hot.pods:
        yield "None of its pods was considered."
    for pod in hot.pods:
        note = " It has left the node since then." if evidence.has_left(pod.pod) else ""
        yield f"Pod {verdict_text(pod, hot)}.{note}"
    if hot.pods_left_out:
        yield f"{hot.pods_left_out} more of its pods were considered; the record does not name them."


def _describe_not_hot(
    evidence: Evidence, node: str, hot_rounds: list[RoundNode], *, judged: bool
) -> Iterator[str]:
    newest = evidence.rounds[0]
    left_out = sum(map(count_unnamed_hot, newest.pools))
    yield f"Node {node} is not among the hot nodes that the newest round names."
    if left_out:
        yield (
            f"It may be one of {left_out} further hot nodes: a record names the first hot nodes of a round "
            "and counts the others."
        )
    if hot_rounds:
        last = hot_rounds[0]
        yield (
            f"It was last hot at {evidence.at(last.round.decided_at_ms)}, "
            f"{count_text(last.rounds_ago, 'round')} before the newest, by {strategy_text(last.pool)}: "
            f"{readings_text(last.node)}{f'; {last.node.gate}' if last.node.gate else ''}."
        )
    else:
        yield f"It was hot in none of the newest {count_text(len(evidence.rounds), 'round')}."
    yield from _describe_metric(evidence, node)
    state, selector = evidence.nodes.get(node), evidence.policy.descheduling.node_selector
    if state and selector and not selector.matches(state.labels):
        yield "Rounds leave it out: descheduling.nodeSelector does not select it."
    elif judged:
        yield from _explain_not_hot(evidence, node)
        usage = evidence.metrics[node].usage or {}
        for pool in newest.pools:
            judged_by = {**pool.thresholds.low, **pool.thresholds.high}
            if missing := [name for name in judged_by if name not in usage and name != "pods"]:
                yield f"Its metric lacks {' and '.join(missing)}, which {strategy_text(pool)} judges."
    # Moves by risk are a pool of their own, with the nodes of all other pools.
    skipped = [
        f"{count_text(count, 'node')} of pool {pool.pool}"
        for pool in list_judged_pools(newest)
        if (count := pool.nodes.get("skipped", 0))
    ]
    if skipped:
        yield (
            "Skipped in the newest round (no metric, an expired metric, or a metric without a resource of "
            f"the thresholds; such a node is never hot): {', '.join(skipped)}."
        )
    for pool in list_judged_pools(newest):
        yield f"{strategy_text(pool)}: {thresholds_text(pool.thresholds)}."


def _describe_metric(evidence: Evidence, node: str) -> Iterator[str]:
    """Describe the newest metric, and whether rounds look at the node."""
    metric = evidence.metrics.get(node)
    if metric is not None and metric.usage is not None and metric.updated_at_ms is not None:
        percents = _percents(evidence, node, metric.usage)
        share = " and ".join(f"{name} {percent:.1f} %" for name, percent in percents.items())
        by = f", measured by {metric.source}" if metric.source else ""
        counts = f" (memory counts {metric.memory_is})" if metric.memory_is else ""
        uses = "used" if explain_unknown(evidence, node) else "uses"
        yield (
            f"Its newest metric is from {evidence.at(metric.updated_at_ms)}{by}: it {uses} "
            f"{amounts_text(metric.usage)}{counts}{f', of its capacity {share}' if share else ''}."
        )
        if evidence.refused:
            yield f"A newer metric was refused: {evidence.refused}."
        needed = evidence.policy.rebalance.min_samples or 0
        if 0 < metric.samples < needed:
            yield (
                f"It is the mean of {count_text(metric.samples, 'sample')}; {LOW_NODE_LOAD} judges a node "
                f"by {needed} or more."
            )
    if evidence.has_no_state and metric is not None:
        yield (
            "No record of topic node-state names it. Rounds and placement ignore it until there is one."
        )


def _explain_unjudged_resources(evidence: Evidence, node: str) -> Iterator[str]:
    """Name the resources without a known capacity: no round judges the node by them."""
    if node not in evidence.nodes or evidence.policy.compat == "koordinator":
        return
    capacity = _capacity(evidence, node)
    for pool in evidence.rounds[0].pools:
        judged_by = {**pool.thresholds.low, **pool.thresholds.high}
        if lacking := [name for name in judged_by if not capacity.get(name) and name != "pods"]:
            yield (
                f"Its capacity of {' and '.join(lacking)} is 0 or unknown, so {strategy_text(pool)} does "
                "not judge it by that."
            )


def _capacity(evidence: Evidence, node: str) -> Mapping[str, int]:
    """Return allocatable, or the annotation raw-allocatable, by resource; empty if it is unknown."""
    state = evidence.nodes.get(node)
    if state is None:
        return {}
    return merge_raw_allocatable(parse_amounts(state.allocatable), state.annotations)


def _percents(evidence: Evidence, node: str, usage: Mapping[str, int]) -> dict[str, float]:
    """Return usage in percent of capacity by resource."""
    return {
        name: 100 * usage[name] / amount
        for name, amount in _capacity(evidence, node).items()
        if name in usage and amount > 0
    }


def _explain_not_hot(evidence: Evidence, node: str) -> Iterator[str]:
    """Explain why a node is not hot although its newest metric is above the thresholds of every pool.

    The pool of the node is not known here.
    """
    newest, metric = evidence.rounds[0], evidence.metrics[node]
    pools = [pool for pool in newest.pools if pool.thresholds.high]
    percents = _percents(evidence, node, metric.usage or {})
    above = [
        {name: high for name, high in pool.thresholds.high.items() if percents.get(name, 0) > high}
        for pool in pools
    ]
    if not above or not all(above):
        return
    high = f"That is above {percents_text(above[0], 'or')}"
    if evidence.paused or newest.gate:
        yield f"{high}, but no round judges it: {newest.gate or 'the cluster is paused'}."
        return
    if (metric.updated_at_ms or 0) > newest.decided_at_ms:
        yield f"{high}. The metric is newer than the newest round; the next one judges it."
        return
    judges = " and ".join(map(strategy_text, pools))
    yield f"{high}, and {judges} did not call it hot in the newest round."
    newest_reports = {status.migration_id: status for status in reversed(evidence.migrations)}
    leaving = sum(status.phase in LIVE for status in newest_reports.values())
    if leaving:
        yield f"Pods that are leaving do not count: {count_text(leaving, 'migration')} from it in progress."
    if any(pool.pool == OVERUTILIZATION_RISK for pool in pools):
        yield f"{OVERUTILIZATION_RISK} judges a node by the expected usage of its pods, not by one metric."


def _build_data(evidence: Evidence, node: str, hot_rounds: list[RoundNode]) -> dict[str, object]:
    metric = evidence.metrics.get(node)
    return {
        "rounds_hot": len({hot.rounds_ago for hot in hot_rounds}),
        "hot": [
            {"decided_at_ms": hot.round.decided_at_ms, "pool": hot.pool.pool,
             "thresholds": hot.pool.thresholds.model_dump(mode="json"),
             "rounds_needed": hot.pool.rounds_needed,
             "node": hot.node.model_dump(mode="json", exclude_none=True)}
            for hot in hot_rounds[:1]
        ],
        "metric": None if metric is None else metric.payload(),
        "migrations": [status.payload() for status in evidence.migrations],
        "moves": [move.payload() for move in evidence.moves],
    }  # fmt: skip
