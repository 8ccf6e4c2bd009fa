"""Builds messages of topic `placement-decisions`: the outcome of a decision, its inputs and reasons.

The id of a decision is derived from the record that caused it, so a replay produces the same ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from schemas.messages.decisions import RUNNERS_UP_MAX
from schemas.messages.pods import Pod
from streams.placement.pending import WaitingRequest
from streams.placement.placer import Choice, ExcludedNodes, Placer
from streams.placement.ranking import Ranking, Term
from streams.pods.kind import Kind
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage
from streams.usage.missing_usage import ESTIMATES, MissingUsage, get_pods_bit

#: Longest list of reasons in a decision.
REASONS_MAX = 20


class Refusals(NamedTuple):
    """Why no node accepts a kind of pod."""

    message: str
    """One line, as in "3 nodes: cpu usage exceed threshold; 2 nodes: nodeMetric expired"."""
    fields: dict[str, Any]
    """Fields of the decision."""


def count_refusals(
    placer: Placer, ranking: Ranking, excluded: ExcludedNodes | None = None
) -> Refusals:
    reasons = dict(ranking.count_reasons())
    if excluded is not None:
        reasons |= {reason: nodes for _, reason, nodes in excluded.list_refusals(ranking)}
    counts = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:REASONS_MAX]
    refused_by = _count_refused_nodes(ranking, excluded)
    missing = count_missing(placer, ranking.kind)
    texts = [
        f"{_format_nodes(nodes)}: {reason.removeprefix('node(s) ')}" for reason, nodes in counts
    ]
    other_nodes = sum(refused_by.values()) - sum(nodes for _, nodes in counts)
    if other_nodes:
        texts.append(f"{_format_nodes(other_nodes)}: other reasons")
    message = "; ".join(texts)
    if not placer.index.size:
        message = "the cluster has no nodes"
    elif missing:
        message += f" ({describe_missing(missing)})"
    fields = {
        "nodes": placer.index.size,
        "stale_nodes": placer.inventory.stale_nodes,
        "refused_by": refused_by,
        "reasons": [{"reason": reason, "nodes": nodes} for reason, nodes in counts],
        "load_thresholds": placer.inventory.filter_thresholds.reported,
        **_build_missing_fields(missing),
    }
    return Refusals(message, fields)


def _format_nodes(count: int) -> str:
    return f"{count} {'node' if count == 1 else 'nodes'}"


def count_missing(placer: Placer, kind: Kind) -> dict[MissingUsage, int]:
    """Count the nodes whose metrics lack usage that decisions about a kind of pods need."""
    pods_bit = get_pods_bit(prod=kind.prod, daemon=kind.daemon)
    counts: dict[MissingUsage, int] = {}
    for usage, nodes in sorted(placer.inventory.freshness.missing.items()):
        if nodes and usage.pods & pods_bit:
            key = usage._replace(pods=pods_bit)
            counts[key] = counts.get(key, 0) + nodes
    return counts


def describe_missing(missing: Mapping[MissingUsage, int]) -> str:
    texts = []
    for usage, count in missing.items():
        nodes = _format_nodes(count)
        if usage.replacement:
            texts.append(
                f"{usage.subject} is not recorded on {nodes}, judged by {usage.replacement}"
            )
        else:
            texts.append(f"{usage.subject} usage is unknown on {nodes}")
    return "; ".join(texts)


def _build_missing_fields(missing: Mapping[MissingUsage, int]) -> dict[str, Any]:
    by_estimates = {
        usage.subject: nodes for usage, nodes in missing.items() if usage.replacement == ESTIMATES
    }
    replaced = {
        f"{usage.subject}: {usage.replacement}": nodes
        for usage, nodes in missing.items()
        if usage.replacement not in ("", ESTIMATES)
    }
    unknown = {usage.subject: nodes for usage, nodes in missing.items() if not usage.replacement}
    return {
        "judged_by_estimates": by_estimates or None,
        "judged_by_other_statistics": replaced or None,
        "unknown_usage": unknown or None,
    }


def build_placed(
    cause: Cause, waiting: WaitingRequest, choice: Choice, placer: Placer, expires_at_ms: int
) -> OutputMessage:
    """Build the decision for a pod. Call it before the reservation, which changes the ranking."""
    ranking, row, excluded = choice
    assert row is not None  # noqa: S101 - a node was chosen
    excluded_rows = () if excluded is None else excluded.rows
    winner, *runners_up = (
        _build_node_score(placer.index.nodes[scored_row].name, terms)
        for scored_row, terms in ranking.list_scored(row, RUNNERS_UP_MAX, excluded_rows)
    )
    missing = count_missing(placer, ranking.kind)
    notes = [describe_missing(missing)] if missing else []
    if ranking.strict is not None:
        refusals = count_refusals(placer, ranking.strict).message
        notes.insert(
            0, f"no node passes every filter ({refusals}); placed on the best node that remains"
        )
    if excluded is not None and row in excluded.left_by_owner:
        notes.insert(0, "no other node accepts the pod; its owner left this one while it was hot")
    decision = _build_decision(
        cause,
        waiting.request.pod,
        "placed",
        "; ".join(notes),
        node=placer.index.nodes[row].name,
        expires_at_ms=expires_at_ms,
        attempt=waiting.attempt,
        nodes=placer.index.size,
        stale_nodes=placer.inventory.stale_nodes,
        refused_by=_count_refused_nodes(ranking.strict or ranking, excluded),
        winner=winner,
        runners_up=runners_up,
        load_thresholds=placer.inventory.filter_thresholds.reported,
        **_build_missing_fields(missing),
    )
    # The producer's clock may be ahead of log time.
    waited_ms = max(0, cause.now_ms - waiting.request.requested_at_ms)
    return replace(decision, waited_s=waited_ms // 1000)


def build_waiting(
    cause: Cause,
    pod: Pod,
    refusals: Refusals | None,
    *,
    attempt: int,
    retry_after_ms: int,
    note: str = "",
) -> OutputMessage:
    fields: dict[str, Any] = {"attempt": attempt, "retry_after_ms": retry_after_ms}
    if refusals is not None:
        note = note or refusals.message
        fields |= refusals.fields
    return _build_decision(cause, pod, "waiting", note, **fields)


def build_ended(
    cause: Cause,
    pod: Pod,
    outcome: str,
    message: str,
    *,
    node: str | None = None,
    rejected: str | None = None,
) -> OutputMessage:
    """Build a decision with the outcome refused, withdrawn or expired."""
    return _build_decision(cause, pod, outcome, message, node=node, rejected=rejected)


def _build_decision(
    cause: Cause, pod: Pod, outcome: str, message: str, **fields: Any
) -> OutputMessage:
    """Build the fields of a `PlacementDecision`, without those that are None."""
    return OutputMessage(
        "placement-decisions",
        {
            "schema_version": 1,
            "decision_id": cause.build_decision_id(pod.uid),
            "cluster": cause.cluster,
            "pod": pod.ref_fields,
            "outcome": outcome,
            "decided_at_ms": cause.now_ms,
            "attempt": 0,
            "nodes": 0,
            "stale_nodes": 0,
            "refused_by": {},
            "reasons": (),
            "message": message,
            "runners_up": (),
            "as_of": cause.as_of,
            **{name: value for name, value in fields.items() if value is not None},
        },
    )


def _count_refused_nodes(ranking: Ranking, excluded: ExcludedNodes | None) -> dict[str, int]:
    counts = ranking.refused_by_name
    if excluded is not None:
        counts |= {name: nodes for name, _, nodes in excluded.list_refusals(ranking)}
    return counts


def _build_node_score(node: str, terms: Sequence[Term]) -> dict[str, object]:
    """Build the fields of a `NodeScore`."""
    return {
        "node": node,
        "total": sum(term.score * term.weight for term in terms),
        "terms": [
            {"plugin": term.plugin, "score": term.score, "weight": term.weight} for term in terms
        ],
    }
