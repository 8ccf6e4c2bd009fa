"""The proposal to move a pod: of a round, of a user, or of the drain of a node."""

from dataclasses import dataclass
from typing import Protocol

from schemas.migrations import Mode, Trigger, Watched
from schemas.pods import Pod
from streams.inventory.node import Held


class Candidate(Protocol):
    """A pod that a round of rebalancing wants to leave its node."""

    @property
    def held(self) -> Held:
        """The pod as it is held."""
        ...

    @property
    def node(self) -> str:
        """The node that it is to leave."""
        ...

    @property
    def pool(self) -> str:
        """The pool of nodes whose thresholds it is moved by."""
        ...

    @property
    def phase(self) -> Watched:
        """What is too hot there: everything on the node, or its prod pods alone."""
        ...

    @property
    def reason(self) -> str:
        """Why, with figures."""
        ...

    @property
    def target(self) -> str | None:
        """The node that it is planned to go to, if any is."""
        ...

    @property
    def mode(self) -> Mode | None:
        """How it leaves; none: as the policy says."""
        ...


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
    )
