"""The proposal to move a pod, from a round, a user or a drain."""

from dataclasses import dataclass

from schemas.messages.migrations import Mode, Trigger, Watched
from schemas.messages.pods import Pod
from streams.rebalance.candidates import Candidate


@dataclass(frozen=True, slots=True)
class Proposal:
    pod: Pod
    node: str
    pool: str
    reason: str
    trigger: Trigger
    target: str | None = None
    watched: Watched = "node"
    mode: Mode | None = None
    """None for the policy's default."""
    ttl_ms: int | None = None
    """Time until the deadline; None for the policy's default."""
    ignore_windows: bool = False
    source_hot: bool = False
    """Whether the source node is above its high thresholds."""
    dry_run: bool = False
    """Whether the migration is dry even if the policy's evictions are not."""


def build_proposal(candidate: Candidate) -> Proposal:
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
