"""The proposal to move a pod: of a round, of a user, or of the drain of a node."""

from dataclasses import dataclass

from schemas.messages.migrations import Mode, Trigger, Watched
from schemas.messages.pods import Pod
from streams.rebalance.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate as migrations see it, from a round, from a user, or from the drain of a node."""

    pod: Pod
    node: str
    pool: str
    reason: str
    trigger: Trigger
    target: str | None = None
    watched: Watched = "node"
    mode: Mode | None = None
    """How to migrate; none: as the policy says."""
    ttl_ms: int | None = None
    """How long it may take; none: as the policy says."""
    ignore_windows: bool = False
    source_hot: bool = False
    """The node that it leaves is above its high thresholds."""
    dry_run: bool = False
    """It is only to be taken note of, whatever the policy says."""


def proposal_of(candidate: Candidate) -> Proposal:
    """The proposal of a round."""
    return Proposal(
        pod=candidate.held.pod,
        node=candidate.node,
        pool=candidate.pool,
        reason=candidate.reason,
        trigger="rebalance",
        target=candidate.target,
        watched=candidate.phase,
        mode=candidate.mode,
        source_hot=candidate.source_hot,
    )
