"""What the figures of every decision must add up to."""

from schemas.messages.decisions import PlacementDecision

_NOTES = ("pods of this kind", "other waiting pods", "the cluster is", "binding to")


def check_figures(decision: PlacementDecision) -> None:
    """A decision explains itself, and its figures add up."""
    assert decision.stale_nodes <= decision.nodes
    refused = sum(decision.refused_by.values())
    if decision.outcome == "placed":
        scores = [decision.winner, *decision.runners_up]
        assert decision.winner is not None
        assert decision.winner.node == decision.node
        assert decision.expires_at_ms is not None
        assert decision.expires_at_ms > decision.decided_at_ms
        if not decision.message.startswith("no node passes every filter"):
            assert len(scores) == min(3, decision.nodes - refused)
        found = [score for score in scores if score is not None]
        totals = [score.total for score in found]
        assert totals == sorted(totals, reverse=True)
        if len(decision.winner.terms) > 1:
            # A score that decides alone decides by raw figures also among equal totals.
            ranks = [(-score.total, score.node) for score in found]
            assert ranks == sorted(ranks)
        for score in scores:
            assert score is not None
            assert score.total == sum(term.score * term.weight for term in score.terms)
        return
    assert decision.message
    if decision.outcome == "waiting":
        assert decision.attempt > 0
        assert decision.retry_after_ms is not None
        assert sum(reason.nodes for reason in decision.reasons) == refused
        if not decision.message.startswith(_NOTES):
            assert refused == decision.nodes
