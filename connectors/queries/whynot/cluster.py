"""Explains why no pod was evicted in a cluster."""

from collections.abc import Iterator

from connectors.queries.rebalancing_wording import (
    classes_text,
    count_unnamed_hot,
    list_judged_pools,
    memory_text,
)
from connectors.queries.whynot.evidence import Answer, Evidence, count_gates
from connectors.queries.whynot.wording import (
    NAMED_MAX,
    no_pod_leaves_text,
    readings_text,
    rounds_hot_text,
    thresholds_text,
    verdict_text,
)
from connectors.units import count_text
from schemas.messages.rounds import HotNode, PoolRound, RebalanceRound


def explain_cluster(evidence: Evidence) -> Answer:
    if not evidence.rounds:
        return explain_no_rounds(evidence)
    newest = evidence.rounds[0]
    hot = [node for round_ in evidence.rounds for pool in round_.pools for node in pool.hot]
    nodes = count_gates(node.gate for node in hot)
    pods = count_gates(pod.gate for node in hot for pod in node.pods)
    sentences = [*describe_newest_round(evidence), *_describe_pools(newest)]
    sentences += _summarize_rounds(evidence)
    for text, gates in (("no more pods left a hot node", nodes), ("a pod stayed", pods)):
        sentences += [
            f"{count_text(times, 'time')} in these rounds {text}: {gate}."
            for gate, times in gates[:NAMED_MAX]
        ]
    return Answer(
        tuple(sentences),
        is_known=True,
        data={
            "newest_round": newest.payload(),
            "rounds": len(evidence.rounds),
            "wanted": _sum_over_pools(evidence, "wanted"),
            "leaving": _sum_over_pools(evidence, "leaving"),
            "node_gates": [{"gate": gate, "times": times} for gate, times in nodes[:100]],
            "pod_gates": [{"gate": gate, "times": times} for gate, times in pods[:100]],
        },
    )


def explain_no_rounds(evidence: Evidence) -> Answer:
    """Return the possible reasons why the cluster has no round."""
    reached = "all" if evidence.read_all else "the newest"
    sentences = [
        f"No round of rebalancing of cluster {evidence.cluster} was found in {reached} "
        f"{count_text(evidence.records, 'record')} of its partition of status."
    ]
    if evidence.paused:
        sentences.append("The cluster is paused: `loadstream cluster resume` resumes it.")
    if evidence.tick_ms is not None:
        sentences.append(
            f"Its clock ticked last at {evidence.at(evidence.tick_ms)}. Under every policy, a known cluster "
            "has a round per `deschedulingInterval`. So the worker has applied no record of this cluster, or "
            "has set it apart after errors (docs/how-to/alerts.md, LoadstreamClusterSetApart)."
        )
    if evidence.policy_text is None:
        sentences.append("It has no policy; the default policy moves pods by risk.")
    else:
        sentences.append(f"Its policy was sent at {evidence.policy_text}.")
    return Answer(tuple(sentences), is_known=False, data={})


def describe_newest_round(evidence: Evidence) -> Iterator[str]:
    """Yield the time and mode of the newest round, and why it ended early."""
    newest = evidence.rounds[0]
    if newest.gate:  # for example because the cluster is set apart, under any policy
        real = f"ended early: {newest.gate}"
    elif newest.dry_run:
        real = (
            "a dry run by its policy (mode observe, or a dryRun): its commands are not carried out"
        )
    elif evidence.paused:
        real = "in enforce mode"
    else:
        real = "in enforce mode: its commands are carried out"
    yield (
        f"The newest round of cluster {evidence.cluster} was at {evidence.at(newest.decided_at_ms)}, "
        f"{real}."
    )
    if evidence.paused:
        yield "The cluster is paused: no command is sent until `loadstream cluster resume`."


def _describe_pools(newest: RebalanceRound) -> Iterator[str]:
    for pool in list_judged_pools(newest):
        total = count_text(sum(pool.nodes.values()), "node")
        classes = classes_text(pool)
        counted = f"{total} ({classes})" if classes else total
        yield f"Pool {pool.pool} has {counted}; {thresholds_text(pool.thresholds)}."
        if pool.memory:
            yield f"In pool {pool.pool} {memory_text(pool)}."
        if pool.gate:
            yield f"{no_pod_leaves_text(pool.leaving)} pool {pool.pool}: {pool.gate}."
        if pool.hot:
            yield (
                f"In pool {pool.pool} {count_text(pool.wanted, 'pod')} should leave; started: "
                f"{count_text(pool.leaving, 'migration')}."
            )
        for hot in pool.hot[:NAMED_MAX]:
            yield _describe_hot_node(hot, pool)
        more = max(0, len(pool.hot) - NAMED_MAX) + count_unnamed_hot(pool)
        if more > 0:
            yield f"Pool {pool.pool} has {more} more hot {'node' if more == 1 else 'nodes'}."


def _describe_hot_node(hot: HotNode, pool: PoolRound) -> str:
    if hot.gate:
        end = hot.gate
    elif hot.leaving:
        end = f"started: {count_text(hot.leaving, 'migration')}"
    else:
        stopped = next((pod for pod in hot.pods if pod.gate), None)
        end = (
            f"no pod leaves; {verdict_text(stopped, hot)}"
            if stopped
            else "none of its pods was considered"
        )
    return f"Node {hot.node} is {rounds_hot_text(hot, pool)}; {readings_text(hot)}: {end}."


def _summarize_rounds(evidence: Evidence) -> Iterator[str]:
    rounds = evidence.rounds
    hot = sum(any(pool.hot for pool in round_.pools) for round_ in rounds)
    nothing = "No node was hot, so there was nothing to evict."
    counts = [pool.nodes for round_ in rounds for pool in list_judged_pools(round_)]
    if any(counts) and all(sum(nodes.values()) == nodes.get("skipped", 0) for nodes in counts):
        nothing = "No node could be judged: none has a fresh and complete metric."
    if len(rounds) > 1:
        yield (
            f"Over the newest {len(rounds)} rounds, back to {evidence.at(rounds[-1].decided_at_ms)}: nodes "
            f"were hot in {hot} of them; {count_text(_sum_over_pools(evidence, 'wanted'), 'pod')} should leave; "
            f"started: {count_text(_sum_over_pools(evidence, 'leaving'), 'migration')}."
        )
    if not hot:
        yield nothing


def _sum_over_pools(evidence: Evidence, field: str) -> int:
    return sum(getattr(pool, field) for round_ in evidence.rounds for pool in round_.pools)
