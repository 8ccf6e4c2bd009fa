"""What carries out placements and evictions: the port that each kind of cluster implements.

A sink makes one attempt at one command and answers what came back, and whether another attempt may
help. It may be asked many things at once, of one pod only one thing at a time. Repeated and expired
commands and dry runs do not reach it: `command_rules` stands before every sink, and tries again.
A sink checks what only its cluster knows:

- a pod is bound only if it has the uid of the decision and no node yet;
- a pod is evicted only if it has the uid of the command and is on its node;
- a command for a pod that is not there any more is answered with `pod_gone`;
- `EvictionCommand.policy`: Eviction heeds disruption budgets, Delete does not, SoftEviction gives
  the pod the command's annotations and leaves the rest to its owner.

A decision that has no node is not carried out but explained, where users of the cluster look.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand


class SinkError(RuntimeError):
    """The cluster could not be asked, or gave no answer; the message says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt, in the words of `CommandOutcome`."""

    result: Literal["done", "failed", "refused", "dry"]
    """done: accepted. failed: tried, not accepted. refused: a budget or a precondition forbids it.
    dry: the cluster was asked to change nothing."""
    reason: str = ""
    """Why, if it was not done: the cluster's own sentence."""
    again_in_s: float | None = None
    """Another attempt may help after that time, in seconds, at the earliest; none: it cannot."""
    pod_gone: bool = False
    """The cluster has no pod of this uid any more, which is final."""


#: It was accepted.
DONE = Attempt("done")


def no_such_pod(result: Literal["failed", "refused"], reason: str) -> Attempt:
    """The cluster has no pod of this uid: it was deleted, or another one has its name now."""
    return Attempt(result, reason, pod_gone=True)


class Sink(ABC):
    """Carries out the commands of one cluster."""

    name: ClassVar[str]
    """What the registry knows it by."""

    @abstractmethod
    async def bind(self, decision: PlacementDecision) -> Attempt:
        """Bind a placed pod to the decision's node; raises SinkError or OSError."""

    @abstractmethod
    async def evict(self, command: EvictionCommand) -> Attempt:
        """Evict a pod; raises SinkError or OSError.

        done: the cluster accepted it, not that the pod is gone.
        """

    async def explain(self, decision: PlacementDecision) -> None:
        """Show to users of the cluster why a pod has no node: a decision that places no pod.

        It neither waits for the cluster nor raises. A cluster without users shows nothing.
        """
        return
