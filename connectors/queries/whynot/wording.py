"""Parts of sentences that answers about clusters, nodes and pods share."""

from collections.abc import Iterator, Mapping

from connectors.queries.rebalancing_wording import migration_text, outcome_text, pod_text
from connectors.queries.whynot.evidence import Evidence
from connectors.units import amounts_text, count_text
from schemas.messages.rounds import HotNode, PodVerdict, PoolRound, Reading, ThresholdsInForce
from schemas.policy.durations import format_duration_ms
from schemas.policy.sections.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK

#: Hot nodes, pods and gates that an answer names; the others are counted.
NAMED_MAX = 5


def explain_unknown(evidence: Evidence, node: str) -> str:
    """Return why rounds do not know the usage of a node; empty: they do."""
    metric, state = evidence.metrics.get(node), evidence.nodes.get(node)
    if state is not None and state.event == "removed":
        return "it was removed from the cluster"
    if metric is None and state is None:
        return (
            "no metric and no state names it. The name may be mistyped, or nothing measures the node "
            "(topic node-usage)"
        )
    if metric is None:
        refused = f"its metric was refused, {evidence.refused}"
        return refused if evidence.refused else "no metric of it was found"
    if metric.usage is None:
        if metric.source:
            return f"its source {metric.source} no longer has figures of it"
        return "its metric was removed" if metric.removed else "its newest metric has no figures"
    if metric.updated_at_ms is None:
        return "its newest metric does not say when it was measured"
    age_ms = evidence.now_ms - metric.updated_at_ms
    max_age_ms = 1_000 * evidence.policy.rebalance.node_metric_expiration_seconds
    if age_ms < max_age_ms:
        return ""
    age, most = (format_duration_ms(age // 1000 * 1000) for age in (age_ms, max_age_ms))
    return f"its metric is {age} old, at most {most}"


def thresholds_text(thresholds: ThresholdsInForce) -> str:
    """Describe the thresholds of a round and their source."""
    parts = [
        f"{name} {percents_text(values, word)}"
        for name, values, word in (
            ("lightly loaded below", thresholds.low, "and"),
            ("hot above", thresholds.high, "or"),
            ("of prod pods alone lightly loaded below", thresholds.prod_low, "and"),
            ("of prod pods alone hot above", thresholds.prod_high, "or"),
        )
        if values
    ]
    source = f" ({thresholds.source})" if thresholds.source else ""
    return f"{', '.join(parts) or 'no thresholds'}{source}"


def percents_text(values: Mapping[str, float], word: str) -> str:
    """Join percentages by resource with `and` or `or`."""
    return f" {word} ".join(f"{name} {value:g} %" for name, value in values.items())


def strategy_text(pool: PoolRound) -> str:
    """Name the strategy that judges the nodes of a pool."""
    if pool.pool == OVERUTILIZATION_RISK:
        return OVERUTILIZATION_RISK
    return f"{LOW_NODE_LOAD} in pool {pool.pool}"


def readings_text(node: HotNode) -> str:
    """Describe a hot node's usage of the resources that exceed their limits."""
    texts = "; ".join(_reading(name, reading) for name, reading in node.readings.items())
    if node.cost is not None:
        cost = f"before the round's moves it cost {node.cost:.3f} hot minutes per minute"
        return f"{cost}; it uses {texts}" if texts else cost
    who = "its prod pods use" if node.phase == "prod" else "it uses"
    return f"{who} {texts}" if texts else "no reading was recorded"


def _reading(name: str, reading: Reading) -> str:
    used, limit = (amounts_text({name: amount}) for amount in (reading.used, reading.limit))
    if not reading.capacity:
        return f"{used}, at most {limit.removeprefix(f'{name} ')}"
    percent, most = (100 * amount / reading.capacity for amount in (reading.used, reading.limit))
    capacity = amounts_text({name: reading.capacity}).removeprefix(f"{name} ")
    return f"{used} of {capacity} ({percent:.1f} %, at most {most:.1f} %)"


def rounds_hot_text(node: HotNode, pool: PoolRound) -> str:
    """Describe for how many rounds a node has been hot, and how many are required."""
    if node.cost is not None:
        return "at risk of overutilization"
    if not pool.rounds_needed:  # under `compat: koordinator` the rounds need not be consecutive
        return f"hot, its count of rounds at {node.abnormal_rounds}"
    rounds = count_text(node.abnormal_rounds, "round")
    needed = f"{pool.rounds_needed} {'is' if pool.rounds_needed == 1 else 'are'} needed"
    return f"hot for {rounds} in a row; {needed}"


def no_pod_leaves_text(leaving: int) -> str:
    """Begin the reason why no pod leaves a node or pool, or no more pods than `leaving`."""
    return "No more pods leave" if leaving else "No pod leaves"


def verdict_text(verdict: PodVerdict, node: HotNode) -> str:
    """Describe a pod of a hot node and its gate. Moves by risk estimate its usage, thresholds measure it."""
    word = "uses" if node.cost is None else "expected"
    usage = f" ({word} {amounts_text(verdict.usage)})" if verdict.usage else ""
    costs = _costs(verdict)
    if verdict.gate:
        return f"{pod_text(verdict.pod)}{usage}: {verdict.gate}{costs}"
    to = f" for {verdict.target}" if verdict.target else ""
    return f"{pod_text(verdict.pod)}{usage} leaves{to}{costs}"


def _costs(verdict: PodVerdict) -> str:
    costs = verdict.costs
    if costs is None:
        return ""
    return (
        f" (its node costs {costs.source_before:.3f} with it and {costs.source_after:.3f} without, "
        f"{verdict.target} {costs.target_before:.3f} and {costs.target_after:.3f} with it)"
    )


def migration_lines(evidence: Evidence) -> Iterator[str]:
    """Yield the newest status of each migration, newest first."""
    migration_ids: set[str] = set()
    for status in evidence.migrations:
        if status.migration_id in migration_ids or len(migration_ids) == NAMED_MAX:
            continue
        migration_ids.add(status.migration_id)
        stays = " The pod stays where it is." if status.dry_run else ""
        yield f"At {evidence.at(status.happened_at_ms)}: {migration_text(status)}.{stays}"


def move_lines(evidence: Evidence) -> Iterator[str]:
    """Yield the outcomes of moves, newest first."""
    for move in evidence.moves[:NAMED_MAX]:
        yield (
            f"{pod_text(move.pod)} moved from {move.source_node} at "
            f"{evidence.at(move.evicted_at_ms)}: {outcome_text(move)}."
        )
