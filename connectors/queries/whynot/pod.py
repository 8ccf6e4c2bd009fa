"""Explains why a pod was not evicted."""

from collections.abc import Iterator

from connectors.queries.rebalancing_wording import unnamed_hot
from connectors.queries.whynot.cluster import no_rounds, preamble
from connectors.queries.whynot.evidence import Answer, Evidence, RoundNode, kind_of
from connectors.queries.whynot.wording import (
    explain_unknown,
    migration_lines,
    move_lines,
    readings_text,
    rounds_hot_text,
    strategy_text,
    verdict_text,
)
from connectors.units import count_text


def about_pod(evidence: Evidence, namespace: str, name: str) -> Answer:
    # A round may judge a pod several times. If one verdict lets it leave, the pod was not stopped.
    found = sorted(evidence.looked_at(namespace, name), key=_order)
    place = evidence.node_of(namespace, name)
    known = bool(found or place or evidence.migrations or evidence.placement or evidence.lifecycle)
    sentences: list[str] = []
    if evidence.rounds:
        sentences += preamble(evidence)
        sentences += _gone(evidence, found, namespace, name)
        turns = {_turn(each): None for each in found if each.rounds_ago == 0}
        for turn in turns:
            sentences += _stopped(evidence, [each for each in found if _turn(each) == turn])
        if not turns:
            sentences += _not_looked_at(evidence, namespace, name, found)
    else:
        sentences += no_rounds(evidence).sentences
    sentences += migration_lines(evidence)
    sentences += move_lines(evidence)
    verdict = found[0] if found else None
    data = {
        "gone": evidence.gone,
        "on_node": place,
        "verdict": None if verdict is None or verdict.pod is None else {
            "decided_at_ms": verdict.round.decided_at_ms, "node": verdict.node.node,
            **verdict.pod.model_dump(mode="json", exclude_none=True),
        },
        "migrations": [status.payload() for status in evidence.migrations],
        "moves": [move.payload() for move in evidence.moves],
        "placement": None if evidence.placement is None else evidence.placement.payload(),
    }  # fmt: skip
    return Answer(tuple(sentences), known, data)


def _order(found: RoundNode) -> tuple[int, bool]:
    return found.rounds_ago, found.pod is not None and bool(found.pod.gate)


def _turn(found: RoundNode) -> tuple[str, str]:
    return found.pool.pool, found.node.phase


def _gone(evidence: Evidence, found: list[RoundNode], namespace: str, name: str) -> Iterator[str]:
    """Yield that the pod of the rounds has ended, has left its node, or was replaced by another pod."""
    event = evidence.lifecycle
    if event is None:
        return
    if evidence.replaced:
        if found and evidence.placement is not None:
            note = f" ({evidence.placement.message})" if evidence.placement.message else ""
            yield (
                f"Another pod has the name {namespace}/{name} now and waits for a node{note}; the rounds "
                "judged the pod before it."
            )
    elif evidence.gone:
        yield f"Pod {namespace}/{name} no longer exists: it was {event.event}."
    elif found and (about := found[0].pod) is not None and about.pod.uid != event.pod.uid:
        yield (
            f"Another pod has the name {namespace}/{name} now{_on_text(event.pod.node)}; the rounds judged "
            "the pod before it."
        )
    elif found and event.pod.node not in (None, found[0].node.node):
        yield f"Pod {namespace}/{name} has left node {found[0].node.node}{_on_text(event.pod.node)}."


def _on_text(node: str | None) -> str:
    return f" and is on node {node}" if node else ""


def _was(evidence: Evidence, found: RoundNode) -> str:
    event, about = evidence.lifecycle, found.pod
    there = (
        event is None
        or about is None
        or (
            not evidence.ended
            and about.pod.uid == event.pod.uid
            and event.pod.node in (None, found.node.node)
        )
    )
    return "It is" if there else "It was"


def _stopped(evidence: Evidence, found: list[RoundNode]) -> Iterator[str]:
    newest = found[0]
    pod, hot = newest.pod, newest.node
    if pod is None:
        return
    yield (
        f"{_was(evidence, newest)} on node {hot.node}, judged by {strategy_text(newest.pool)}: {rounds_hot_text(hot, newest.pool)}; "
        f"{readings_text(hot)}."
    )
    if not pod.gate:
        yield f"It was not stopped: {verdict_text(pod, hot)}."
        return
    yield f"It was stopped: {pod.gate}."
    rounds = {each.rounds_ago: each for each in reversed(found)}
    since, last = newest, 0
    while (each := rounds.get(last + 1)) is not None and each.pod is not None:
        if kind_of(each.pod.gate) != kind_of(pod.gate):
            break
        since, last = each, last + 1
    if last:
        more = " or longer" if last + 1 == len(evidence.rounds) else ""
        yield (
            f"The same gate has stopped it for {count_text(last + 1, 'round')}{more}, since "
            f"{evidence.at(since.round.decided_at_ms)}."
        )


def _not_looked_at(
    evidence: Evidence, namespace: str, name: str, found: list[RoundNode]
) -> Iterator[str]:
    """Yield the possible reasons why the newest round does not name a pod."""
    yield f"The newest round does not name pod {namespace}/{name}."
    if found and found[0].pod is not None:
        last = found[0]
        yield (
            f"It was last judged at {evidence.at(last.round.decided_at_ms)}, on node "
            f"{last.node.node}: {found[0].pod.gate or 'it was not stopped'}."
        )
    place = evidence.node_of(namespace, name)
    if place is not None and evidence.stateless:
        yield (
            f"It is measured on node {place}, but no record of topic pod-lifecycle names it. Rounds ignore it "
            "until there is one."
        )
    elif place is not None:
        yield from _on(evidence, place)
    elif evidence.placement is not None and not evidence.gone:
        decision = evidence.placement
        when = evidence.at(decision.decided_at_ms)
        if decision.outcome == "placed" and decision.node is not None:
            yield f"It was placed on node {decision.node} at {when}."
            yield from _on(evidence, decision.node)
        else:
            note = f": {decision.message}" if decision.message else ""
            yield f"It is on no node: at {when} the decision was {decision.outcome}{note}."
    elif not found and not evidence.migrations and evidence.lifecycle is None:
        yield (
            "No metric, decision or migration names it. The name may be mistyped, the pod may have ended, or "
            "nothing measures it."
        )


def _on(evidence: Evidence, node: str) -> Iterator[str]:
    now = [each for each in evidence.hot(node) if each.rounds_ago == 0]
    for each in now:
        yield from _on_hot(each)
    unknown = explain_unknown(evidence, node) if node in evidence.metrics else ""
    if unknown and not now:
        yield f"It is on node {node}, which is unknown: {unknown}. No round judges it."
    elif evidence.rounds[0].gate:
        yield f"It is on node {node}, which the newest round has not judged."
    elif not now:
        left_out = sum(map(unnamed_hot, evidence.rounds[0].pools))
        may = (
            f" (unless it is among {count_text(left_out, 'hot node')} that the record does not name)"
            if left_out
            else ""
        )
        yield (
            f"It is on node {node}, which is not hot{may}: only pods of hot nodes leave. See `loadstream "
            f"cluster why-not {evidence.cluster} --node {node}`."
        )


def _on_hot(found: RoundNode) -> Iterator[str]:
    hot, pool = found.node, found.pool
    yield (
        f"It is on node {hot.node}, judged by {strategy_text(pool)}: {rounds_hot_text(hot, pool)}; "
        f"{readings_text(hot)}"
        f"{f'. The node was stopped: {hot.gate}' if hot.gate else ''}."
    )
    if hot.pods_left_out:
        yield (
            f"{hot.pods_left_out} more pods of the node were considered, which the record does not name; it "
            "may be one of them."
        )
    elif not hot.gate:
        order = "priority, quality of service, cost and usage"
        if hot.cost is not None:
            order = "the hot minutes that their moves save"
        yield (
            "The node was relieved, or its limit of moves was reached, before this pod was considered; pods "
            f"are considered by {order}."
        )
