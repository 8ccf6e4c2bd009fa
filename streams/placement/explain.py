"""Decisions as messages of `placement-decisions`: what was decided, from what, and why.

Ids are derived from the input that caused the decision, so a replay gives the same ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.messages.decisions import RUNNERS_UP_MAX
from schemas.messages.pods import Pod
from streams.placement.exclusions import Excluded
from streams.placement.placer import Placer
from streams.placement.ranking import Ranking
from streams.pods.kind import Kind
from streams.stage.cause import Cause, reference_fields
from streams.stage.records import OutputMessage
from streams.usage.missing_usage import ESTIMATES, MissingUsage, get_pods_bit

#: Longest list of reasons in a decision.
REASONS_MAX = 20


@dataclass(frozen=True, slots=True)
class Refusals:
    """Why no node takes a kind of pod."""

    nodes: int
    stale_nodes: int
    refused_by: dict[str, int]
    reasons: tuple[tuple[str, int], ...]
    """Reasons and nodes refused for them, most nodes first."""
    load_thresholds: dict[str, Any] | None = None
    missing: Mapping[MissingUsage, int] = field(default_factory=dict)
    """Number of nodes whose metrics lack something that counts for the pods."""

    @property
    def message(self) -> str:
        """One line, as in "3 nodes: cpu usage exceed threshold; 2 nodes: nodeMetric expired"."""
        if not self.nodes:
            return "there are no nodes"
        note = describe_missing(self.missing)
        said = self._counted()
        return f"{said} ({note})" if note else said

    def _counted(self) -> str:
        counts = [(nodes, reason.removeprefix("node(s) ")) for reason, nodes in self.reasons]
        others = sum(self.refused_by.values()) - sum(nodes for nodes, _ in counts)
        if others:
            counts.append((others, "other reasons"))
        return "; ".join(
            f"{nodes} {'node' if nodes == 1 else 'nodes'}: {reason}" for nodes, reason in counts
        )


def refusals(placer: Placer, ranking: Ranking, excluded: Excluded | None = None) -> Refusals:
    """Count why every node is refused, or is forbidden for the pod's owner."""
    reasons = dict(ranking.reasons())
    if excluded is not None:
        reasons |= {reason: nodes for _, reason, nodes in excluded.list_refusals(ranking)}
    counts = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return Refusals(
        nodes=placer.index.size,
        stale_nodes=placer.inventory.stale_nodes,
        refused_by=_refused_by(ranking, excluded),
        reasons=tuple(counts[:REASONS_MAX]),
        load_thresholds=placer.inventory.in_force.reported,
        missing=missing_for(placer, ranking.kind),
    )


def missing_for(placer: Placer, kind: Kind) -> dict[MissingUsage, int]:
    """Return what metrics lack of what counts for a kind of pods, with the number of nodes."""
    whose = get_pods_bit(prod=kind.prod, daemon=kind.daemon)
    found: dict[MissingUsage, int] = {}
    for each, nodes in sorted(placer.inventory.freshness.missing.items()):
        if nodes and each.pods & whose:
            key = each._replace(pods=whose)
            found[key] = found.get(key, 0) + nodes
    return found


def describe_missing(missing: Mapping[MissingUsage, int]) -> str:
    """The same in words."""
    texts = []
    for each, count in missing.items():
        nodes = f"{count} {'node' if count == 1 else 'nodes'}"
        if each.instead:
            texts.append(f"{each.what} is not recorded on {nodes}, judged by {each.instead}")
        else:
            texts.append(f"{each.what} usage is unknown on {nodes}")
    return "; ".join(texts)


def _missing_fields(missing: Mapping[MissingUsage, int]) -> dict[str, Any]:
    """Fields of a decision; None: nothing is missing."""
    by_estimates = {
        each.what: nodes for each, nodes in missing.items() if each.instead == ESTIMATES
    }
    replaced = {
        f"{each.what}: {each.instead}": nodes
        for each, nodes in missing.items()
        if each.instead not in ("", ESTIMATES)
    }
    unknown = {each.what: nodes for each, nodes in missing.items() if not each.instead}
    return {
        "judged_by_estimates": by_estimates or None,
        "judged_by_other_statistics": replaced or None,
        "unknown_usage": unknown or None,
    }


def placed(
    cause: Cause,
    pod: Pod,
    row: int,
    ranking: Ranking,
    placer: Placer,
    *,
    attempt: int,
    expires_at_ms: int,
    excluded: Excluded | None = None,
) -> OutputMessage:
    """A node was found; call before the room is taken, while the ranking is as it decided."""
    without = {row} if excluded is None else {row, *excluded.rows}
    others = ranking.runners_up(RUNNERS_UP_MAX, without)
    missing = missing_for(placer, ranking.kind)
    notes = [describe_missing(missing)] if missing else []
    if ranking.strict is not None:
        why = refusals(placer, ranking.strict).message
        notes.insert(0, f"no node passes every filter ({why}); placed on the best that may take it")
    return _decision(
        cause,
        pod,
        "placed",
        "; ".join(notes),
        node=placer.index.nodes[row].name,
        expires_at_ms=expires_at_ms,
        attempt=attempt,
        nodes=placer.index.size,
        stale_nodes=placer.inventory.stale_nodes,
        refused_by=_refused_by(ranking.strict or ranking, excluded),
        winner=_node_score(placer, ranking, row),
        runners_up=[_node_score(placer, ranking, other) for other in others],
        load_thresholds=placer.inventory.in_force.reported,
        **_missing_fields(missing),
    )


def waiting(
    cause: Cause,
    pod: Pod,
    why: Refusals | None,
    *,
    attempt: int,
    retry_after_ms: int,
    note: str = "",
) -> OutputMessage:
    """No node now; it will be tried again."""
    if why is None:
        return _decision(
            cause, pod, "waiting", note, attempt=attempt, retry_after_ms=retry_after_ms
        )
    return _decision(
        cause,
        pod,
        "waiting",
        note or why.message,
        attempt=attempt,
        nodes=why.nodes,
        stale_nodes=why.stale_nodes,
        refused_by=why.refused_by,
        reasons=[{"reason": reason, "nodes": nodes} for reason, nodes in why.reasons],
        retry_after_ms=retry_after_ms,
        load_thresholds=why.load_thresholds,
        **_missing_fields(why.missing),
    )


def ended(
    cause: Cause,
    pod: Pod,
    outcome: str,
    message: str,
    *,
    node: str | None = None,
    rejected: str | None = None,
) -> OutputMessage:
    """refused, withdrawn or expired, in words."""
    return _decision(cause, pod, outcome, message, node=node, rejected=rejected)


def _decision(cause: Cause, pod: Pod, outcome: str, message: str, **fields: Any) -> OutputMessage:
    """A `PlacementDecision`; fields that are None are left out."""
    return OutputMessage(
        "placement-decisions",
        {
            "schema_version": 1,
            "decision_id": cause.decision_id(pod.uid),
            "cluster": cause.cluster,
            "pod": reference_fields(pod),
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


def _refused_by(ranking: Ranking, excluded: Excluded | None = None) -> dict[str, int]:
    counts = ranking.refused_by_name
    if excluded is not None:
        counts |= {name: nodes for name, _, nodes in excluded.list_refusals(ranking)}
    return counts


def _node_score(placer: Placer, ranking: Ranking, row: int) -> dict[str, object]:
    """Content of a `NodeScore`, of a node that passes: its total is the sum of its terms."""
    terms = ranking.terms(row)
    return {
        "node": placer.index.nodes[row].name,
        "total": sum(term.score * term.weight for term in terms),
        "terms": [
            {"plugin": term.plugin, "score": term.score, "weight": term.weight} for term in terms
        ],
    }
