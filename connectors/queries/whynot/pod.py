"""Explains why a pod was not evicted."""

from collections.abc import Iterator

from connectors.queries.rebalancing_wording import count_unnamed_hot
from connectors.queries.whynot.cluster import describe_newest_round, explain_no_rounds
from connectors.queries.whynot.evidence import Answer, Evidence, RoundNode, kind_of
from connectors.queries.whynot.wording import (
    explain_unknown,
    migration_lines,
    move_lines,
    no_pod_leaves_text,
    readings_text,
    rounds_hot_text,
    strategy_text,
    verdict_text,
)
from connectors.units import count_text


def explain_pod(evidence: Evidence, namespace: str, name: str) -> Answer:
    # A round may judge a pod several times. If one verdict lets it leave, the pod leaves.
    verdicts = sorted(evidence.find_verdicts(namespace, name), key=_sort_key)
    node = evidence.find_node(namespace, name)
    records = (verdicts, node, evidence.migrations, evidence.placement, evidence.lifecycle)
    sentences: list[str] = []
    if evidence.rounds:
        sentences += describe_newest_round(evidence)
        sentences += _describe_change(evidence, verdicts, namespace, name)
        keys = dict.fromkeys(_pool_and_phase(v) for v in verdicts if v.rounds_ago == 0)
        for key in keys:
            sentences += _describe_gate(
                evidence, [v for v in verdicts if _pool_and_phase(v) == key]
            )
        if not keys:
            sentences += _explain_not_judged(evidence, namespace, name, verdicts)
    else:
        sentences += explain_no_rounds(evidence).sentences
    sentences += migration_lines(evidence)
    sentences += move_lines(evidence)
    verdict = verdicts[0] if verdicts else None
    data = {
        "gone": evidence.is_gone,
        "on_node": node,
        "verdict": None if verdict is None or verdict.pod is None else {
            "decided_at_ms": verdict.round.decided_at_ms, "node": verdict.node.node,
            **verdict.pod.model_dump(mode="json", exclude_none=True),
        },
        "migrations": [status.payload() for status in evidence.migrations],
        "moves": [move.payload() for move in evidence.moves],
        "placement": None if evidence.placement is None else evidence.placement.payload(),
    }  # fmt: skip
    return Answer(tuple(sentences), any(records), data)


def _sort_key(verdict: RoundNode) -> tuple[int, bool]:
    return verdict.rounds_ago, verdict.pod is not None and bool(verdict.pod.gate)


def _pool_and_phase(verdict: RoundNode) -> tuple[str, str]:
    return verdict.pool.pool, verdict.node.phase


def _describe_change(
    evidence: Evidence, verdicts: list[RoundNode], namespace: str, name: str
) -> Iterator[str]:
    """Yield a sentence if the judged pod has ended, has left its node, or was replaced."""
    event = evidence.lifecycle
    if event is None:
        return
    if evidence.is_replaced:
        if verdicts and evidence.placement is not None:
            note = f" ({evidence.placement.message})" if evidence.placement.message else ""
            yield (
                f"Another pod has the name {namespace}/{name} now and waits for a node{note}; the rounds "
                "judged the pod before it."
            )
    elif evidence.is_gone:
        yield f"Pod {namespace}/{name} no longer exists: it was {event.event}."
    elif verdicts and (about := verdicts[0].pod) is not None and about.pod.uid != event.pod.uid:
        yield (
            f"Another pod has the name {namespace}/{name} now{_on_text(event.pod.node)}; the rounds judged "
            "the pod before it."
        )
    elif verdicts and event.pod.node not in (None, verdicts[0].node.node):
        yield f"Pod {namespace}/{name} has left node {verdicts[0].node.node}{_on_text(event.pod.node)}."


def _on_text(node: str | None) -> str:
    return f" and is on node {node}" if node else ""


def _is_or_was(evidence: Evidence, verdict: RoundNode) -> str:
    event, about = evidence.lifecycle, verdict.pod
    is_current = (
        event is None
        or about is None
        or (
            not evidence.has_ended
            and about.pod.uid == event.pod.uid
            and event.pod.node in (None, verdict.node.node)
        )
    )
    return "It is" if is_current else "It was"


def _describe_gate(evidence: Evidence, verdicts: list[RoundNode]) -> Iterator[str]:
    newest = verdicts[0]
    pod, hot = newest.pod, newest.node
    if pod is None:
        return
    yield (
        f"{_is_or_was(evidence, newest)} on node {hot.node}, judged by {strategy_text(newest.pool)}: {rounds_hot_text(hot, newest.pool)}; "
        f"{readings_text(hot)}."
    )
    if not pod.gate:
        yield f"It was chosen to leave: {verdict_text(pod, hot)}."
        return
    yield f"It was not chosen to leave: {pod.gate}."
    rounds = {older.rounds_ago: older for older in reversed(verdicts)}
    since, last = newest, 0
    while (older := rounds.get(last + 1)) is not None and older.pod is not None:
        if kind_of(older.pod.gate) != kind_of(pod.gate):
            break
        since, last = older, last + 1
    if last:
        more = " or longer" if last + 1 == len(evidence.rounds) else ""
        yield (
            f"It has stayed for the same reason for {count_text(last + 1, 'round')}{more}, since "
            f"{evidence.at(since.round.decided_at_ms)}."
        )


def _explain_not_judged(
    evidence: Evidence, namespace: str, name: str, verdicts: list[RoundNode]
) -> Iterator[str]:
    """Yield the possible reasons why the newest round does not name a pod."""
    yield f"The newest round does not name pod {namespace}/{name}."
    if verdicts and verdicts[0].pod is not None:
        last = verdicts[0]
        yield (
            f"It was last judged at {evidence.at(last.round.decided_at_ms)}, on node "
            f"{last.node.node}: {verdicts[0].pod.gate or 'it was chosen to leave'}."
        )
    node = evidence.find_node(namespace, name)
    if node is not None and evidence.has_no_state:
        yield (
            f"It is measured on node {node}, but no record of topic pod-lifecycle names it. Rounds ignore it "
            "until there is one."
        )
    elif node is not None:
        yield from _describe_node(evidence, node)
    elif evidence.placement is not None and not evidence.is_gone:
        decision = evidence.placement
        when = evidence.at(decision.decided_at_ms)
        if decision.outcome == "placed" and decision.node is not None:
            yield f"It was placed on node {decision.node} at {when}."
            yield from _describe_node(evidence, decision.node)
        else:
            note = f": {decision.message}" if decision.message else ""
            yield f"It is on no node: at {when} the decision was {decision.outcome}{note}."
    elif not verdicts and not evidence.migrations and evidence.lifecycle is None:
        yield (
            "No metric, decision or migration names it. The name may be mistyped, the pod may have ended, or "
            "nothing measures it."
        )


def _describe_node(evidence: Evidence, node: str) -> Iterator[str]:
    now = [hot for hot in evidence.find_hot_rounds(node) if hot.rounds_ago == 0]
    for hot in now:
        yield from _describe_hot_node(hot)
    unknown = explain_unknown(evidence, node) if node in evidence.metrics else ""
    if unknown and not now:
        yield f"It is on node {node}, which is unknown: {unknown}. No round judges it."
    elif evidence.rounds[0].gate:
        yield f"It is on node {node}, which the newest round has not judged."
    elif not now:
        left_out = sum(map(count_unnamed_hot, evidence.rounds[0].pools))
        may = (
            f" (unless it is among {count_text(left_out, 'hot node')} that the record does not name)"
            if left_out
            else ""
        )
        yield (
            f"It is on node {node}, which is not hot{may}: only pods of hot nodes leave. See `loadstream "
            f"cluster why-not {evidence.cluster} --node {node}`."
        )


def _describe_hot_node(hot_round: RoundNode) -> Iterator[str]:
    hot, pool = hot_round.node, hot_round.pool
    yield (
        f"It is on node {hot.node}, judged by {strategy_text(pool)}: {rounds_hot_text(hot, pool)}; "
        f"{readings_text(hot)}"
        f"{f'. {no_pod_leaves_text(hot.leaving)} the node: {hot.gate}' if hot.gate else ''}."
    )
    if hot.pods_left_out:
        yield (
            f"{hot.pods_left_out} more pods of the node were considered; the record does not name them. This "
            "pod may be one of them."
        )
    elif not hot.gate:
        order = "priority, quality of service, cost and usage"
        if hot.cost is not None:
            order = "the hot minutes that their moves save"
        yield (
            "The node was relieved, or its limit of moves was reached, before this pod was considered; pods "
            f"are considered by {order}."
        )
