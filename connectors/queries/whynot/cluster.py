"""Why nothing was evicted in a whole cluster: what rounds saw, and what stopped them."""

from collections.abc import Iterator

from connectors.queries.rebalancing_wording import classes_text, memory_text, unnamed_hot
from connectors.queries.whynot.evidence import Answer, Evidence, gates_of
from connectors.queries.whynot.wording import (
    NAMED_MAX,
    readings_text,
    rounds_hot_text,
    thresholds_text,
    verdict_text,
)
from connectors.units import count_text
from schemas.messages.rounds import HotNode, PoolRound, RebalanceRound


def about_cluster(evidence: Evidence) -> Answer:
    """The answer for a cluster."""
    if not evidence.rounds:
        return no_rounds(evidence)
    newest = evidence.rounds[0]
    nodes, pods = gates_of(evidence.rounds)
    sentences = [*preamble(evidence), *_pools(newest), *_over_all(evidence)]
    for name, gates in (("nodes", nodes), ("pods", pods)):
        for gate, times in gates.most(NAMED_MAX):
            sentences.append(
                f"Stopped {name}, {count_text(times, 'time')} in these rounds: {gate}."
            )
    return Answer(
        tuple(sentences),
        known=True,
        data={
            "newest_round": newest.payload(),
            "rounds": len(evidence.rounds),
            "wanted": _total(evidence, "wanted"),
            "leaving": _total(evidence, "leaving"),
            "node_gates": [{"gate": gate, "times": times} for gate, times in nodes.most(100)],
            "pod_gates": [{"gate": gate, "times": times} for gate, times in pods.most(100)],
        },
    )


def no_rounds(evidence: Evidence) -> Answer:
    """No round was found: all reasons that there can be, those that hold first."""
    reached = "all" if evidence.whole else "the newest"
    sentences = [
        f"No round of rebalancing of cluster {evidence.cluster} was found in {reached} "
        f"{count_text(evidence.records, 'record')} of its partition of status."
    ]
    if evidence.paused:
        sentences.append("The cluster is paused: `loadstream cluster resume` lets it go on.")
    if evidence.tick_ms is not None:
        sentences.append(
            f"Its clock has ticked last at {evidence.at(evidence.tick_ms)}. A cluster that the worker "
            "knows has a round at each `deschedulingInterval`, whatever its policy: the worker has "
            "applied nothing about this one, or has set it apart after defects (docs/how-to/alerts.md, "
            "LoadstreamClusterSetApart)."
        )
    if evidence.policy is None:
        sentences.append("It has no policy of its own; the default one moves pods by risk.")
    else:
        sentences.append(f"Its policy is {evidence.policy}.")
    if evidence.others:
        named = ", ".join(evidence.others[:NAMED_MAX])
        sentences.append(f"The records there are about other clusters: {named}.")
    return Answer(tuple(sentences), known=False, data={})


def preamble(evidence: Evidence) -> Iterator[str]:
    """When the newest round was, and what holds for all of it."""
    newest = evidence.rounds[0]
    if newest.gate:  # that a cluster is set apart, for instance, is said whatever its policy is
        real = "stopped as a whole"
    elif newest.dry_run:
        real = "dry by its policy (mode observe, or a dryRun): its commands are not carried out"
    elif evidence.paused:
        real = "in enforce mode"
    else:
        real = "in enforce mode: its commands are carried out"
    yield (
        f"The newest round of cluster {evidence.cluster} was at {evidence.at(newest.decided_at_ms)}, "
        f"{real}."
    )
    if evidence.paused:
        yield "The cluster is paused: no command leaves until `loadstream cluster resume`."
    if newest.gate:
        yield f"The whole round was stopped: {newest.gate}."


def _pools(newest: RebalanceRound) -> Iterator[str]:
    for pool in newest.pools:
        total = count_text(sum(pool.nodes.values()), "node")
        classes = classes_text(pool)
        counted = f"{total} ({classes})" if classes else total
        yield f"Pool {pool.pool} has {counted}; {thresholds_text(pool.thresholds)}."
        if pool.memory:
            yield f"In pool {pool.pool} {memory_text(pool)}."
        if pool.gate:
            yield f"Pool {pool.pool} was stopped: {pool.gate}."
        if pool.hot:
            yield (
                f"To leave in pool {pool.pool}: {count_text(pool.wanted, 'pod')}; begun: "
                f"{count_text(pool.leaving, 'migration')}."
            )
        for hot in pool.hot[:NAMED_MAX]:
            yield _hot(hot, pool)
        more = max(0, len(pool.hot) - NAMED_MAX) + unnamed_hot(pool)
        if more > 0:
            yield f"Pool {pool.pool} has {more} more hot {'node' if more == 1 else 'nodes'}."


def _hot(hot: HotNode, pool: PoolRound) -> str:
    if hot.gate:
        end = hot.gate
    elif hot.leaving:
        end = f"begun: {count_text(hot.leaving, 'migration')}"
    else:
        stopped = next((pod for pod in hot.pods if pod.gate), None)
        end = (
            f"no pod leaves; {verdict_text(stopped, hot)}"
            if stopped
            else "no pod of it was looked at"
        )
    return f"Node {hot.node} is {rounds_hot_text(hot, pool)}; {readings_text(hot)}: {end}."


def _over_all(evidence: Evidence) -> Iterator[str]:
    rounds = evidence.rounds
    hot = sum(any(pool.hot for pool in each.pools) for each in rounds)
    if len(rounds) == 1:
        if not hot:
            yield "No node was hot, so there was nothing to evict."
        return
    yield (
        f"Over the newest {len(rounds)} rounds, back to {evidence.at(rounds[-1].decided_at_ms)}: nodes "
        f"were hot in {hot} of them; to leave: {count_text(_total(evidence, 'wanted'), 'pod')}; "
        f"begun: {count_text(_total(evidence, 'leaving'), 'migration')}."
    )
    if not hot:
        yield "No node was hot in any of them, so there was nothing to evict."


def _total(evidence: Evidence, field: str) -> int:
    return sum(getattr(pool, field) for each in evidence.rounds for pool in each.pools)
