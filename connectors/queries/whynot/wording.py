"""Words that answers about clusters, nodes and pods share: thresholds, readings, gates."""

from collections.abc import Iterator, Mapping

from connectors.queries.rebalancing_wording import outcome_text, pod_text
from connectors.queries.whynot.evidence import Evidence
from connectors.units import amounts_text, count_text
from schemas.messages.migrations import MigrationStatus
from schemas.messages.rounds import HotNode, PodVerdict, PoolRound, Reading, ThresholdsInForce
from schemas.policy.durations import format_duration_ms
from schemas.policy.sections.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK

#: Hot nodes, pods and gates that an answer names; the others are counted.
NAMED_MAX = 5


def explain_unknown(evidence: Evidence, node: str) -> str:
    """Why rounds do not know what a node uses now; empty: they do."""
    metric, state = evidence.metrics.get(node), evidence.nodes.get(node)
    if state is not None and state.event == "removed":
        return "it was removed from the cluster"
    if metric is None and state is None:
        return (
            "nothing that was read names it, no metric and no state. Its name may be another one, or "
            "nothing measures it (topic node-usage)"
        )
    if metric is None:
        refused = f"its metric was refused, {evidence.refused}"
        return refused if evidence.refused else "no metric of it was found"
    if metric.usage is None:
        if metric.source:
            return f"{metric.source}, which measured it last, has no figures of it any more"
        return "its metric was removed" if metric.removed else "its newest metric has no figures"
    if metric.updated_at_ms is None:
        return "its newest metric does not say when it was measured"
    age_ms = evidence.now_ms - metric.updated_at_ms
    if age_ms < evidence.metric_max_age_ms:
        return ""
    age, most = (
        format_duration_ms(each // 1000 * 1000) for each in (age_ms, evidence.metric_max_age_ms)
    )
    return f"its metric is {age} old, at most {most}"


def thresholds_text(thresholds: ThresholdsInForce) -> str:
    """What was in force, and how it came about."""
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
    """Percentages, joined by `and` where all of them count and by `or` where one is enough."""
    return f" {word} ".join(f"{name} {value:g} %" for name, value in values.items())


def strategy_text(pool: PoolRound) -> str:
    """The strategy that judges the nodes of a pool."""
    if pool.pool == OVERUTILIZATION_RISK:
        return OVERUTILIZATION_RISK
    return f"{LOW_NODE_LOAD} in pool {pool.pool}"


def readings_text(node: HotNode) -> str:
    """The resources of a hot node that are above their limits, as they were measured."""
    texts = "; ".join(_reading(name, reading) for name, reading in node.readings.items())
    if node.cost is not None:
        cost = f"it cost {node.cost:.3f} by risk before the round's moves"
        return f"{cost}; it uses {texts}" if texts else cost
    who = "its prod pods use" if node.phase == "prod" else "it uses"
    return f"{who} {texts}" if texts else "no reading was recorded"


def _reading(name: str, reading: Reading) -> str:
    used, limit = (amounts_text({name: each}) for each in (reading.used, reading.limit))
    if not reading.capacity:
        return f"{used}, at most {limit.removeprefix(f'{name} ')}"
    percent, most = (100 * each / reading.capacity for each in (reading.used, reading.limit))
    capacity = amounts_text({name: reading.capacity}).removeprefix(f"{name} ")
    return f"{used} of {capacity} ({percent:.1f} %, at most {most:.1f} %)"


def rounds_hot_text(node: HotNode, pool: PoolRound) -> str:
    """For how many rounds it has been hot, and how many are needed."""
    if node.cost is not None:
        return "at risk of overutilization"
    if not pool.rounds_needed:  # Koordinator's way: neither in a row, nor all since it is hot
        return f"hot, its count of rounds at {node.abnormal_rounds}"
    rounds = count_text(node.abnormal_rounds, "round")
    needed = f"{pool.rounds_needed} {'is' if pool.rounds_needed == 1 else 'are'} needed"
    return f"hot for {rounds} in a row; {needed}"


def verdict_text(verdict: PodVerdict, node: HotNode) -> str:
    """How far a pod of a hot node came. By risk its usage is an estimate, else it is measured."""
    word = "uses" if node.cost is None else "expected"
    usage = f" ({word} {amounts_text(verdict.usage)})" if verdict.usage else ""
    costs = _costs(verdict)
    if verdict.gate:
        return f"{pod_text(verdict.pod)}{usage}: {verdict.gate}{costs}"
    to = f" for {verdict.target}" if verdict.target else ""
    return f"{pod_text(verdict.pod)}{usage} leaves{to}{costs}"


def _costs(verdict: PodVerdict) -> str:
    """What a pod's move changes by risk; empty: it was not compared."""
    costs = verdict.costs
    if costs is None:
        return ""
    return (
        f" (its node costs {costs.source_before:.3f} with it and {costs.source_after:.3f} without, "
        f"{verdict.target} {costs.target_before:.3f} and {costs.target_after:.3f} with it)"
    )


def migration_lines(evidence: Evidence) -> Iterator[str]:
    """The newest report on each of the migrations read, newest first."""
    named: set[str] = set()
    for status in evidence.migrations:
        if status.migration_id in named or len(named) == NAMED_MAX:
            continue
        named.add(status.migration_id)
        yield _migration(evidence, status)


def _migration(evidence: Evidence, status: MigrationStatus) -> str:
    dry = " It is a dry run: the pod stays where it is." if status.dry_run else ""
    to = f" to {status.target_node}" if status.target_node else ""
    reason = f" ({status.reason})" if status.reason else ""
    paused = ", paused" if status.paused else ""
    said = f": {status.message}" if status.message else ""
    return (
        f"Migration {status.migration_id} of {pod_text(status.pod)} from {status.source_node}{to} is "
        f"{status.phase}{reason}{paused} since {evidence.at(status.happened_at_ms)}{said}.{dry}"
    )


def move_lines(evidence: Evidence) -> Iterator[str]:
    """What became of evictions, newest first."""
    for move in evidence.moves[:NAMED_MAX]:
        yield (
            f"{pod_text(move.pod)} moved from {move.source_node} at "
            f"{evidence.at(move.evicted_at_ms)}: {outcome_text(move)}."
        )
