"""The port that executes placements and evictions in a cluster.

A sink makes one attempt at a command, and returns the result and whether another attempt may help. It
gets many commands at once, but only one command of a pod at a time. `command_rules` handles repeated
and expired commands, dry runs and retries for every sink.

A sink checks conditions that only the cluster knows:

- it binds a pod only if the pod has the uid of the decision and no node;
- it evicts a pod only if the pod has the uid of the command and is on its node;
- if the pod does not exist any more, it returns `pod_gone`;
- `EvictionCommand.policy`: Eviction respects disruption budgets, Delete does not, SoftEviction adds
  the command's annotations to the pod and leaves the rest to its owner.

A decision without a node is shown to users of the cluster (`explain`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision


class SinkError(RuntimeError):
    """The cluster could not be reached or did not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt, in the terms of `CommandOutcome`."""

    result: Literal["done", "failed", "refused", "dry"]
    """done: accepted.

    failed: not accepted. refused: a budget or a precondition forbids it. dry: the cluster was asked
    to change nothing.
    """
    reason: str = ""
    """Why the command was not done, in the words of the cluster."""
    again_in_s: float | None = None
    """Seconds after which another attempt may help; None: it cannot help."""
    pod_gone: bool = False
    """The cluster has no pod with this uid, even if another pod has its name; this is final."""


DONE = Attempt("done")


class Sink(ABC):
    """Executes the commands of one cluster."""

    @abstractmethod
    async def bind(self, decision: PlacementDecision) -> Attempt:
        """Bind a placed pod to the decision's node; raises SinkError or OSError."""

    @abstractmethod
    async def evict(self, command: EvictionCommand) -> Attempt:
        """Evict a pod; raises SinkError or OSError.

        done means that the cluster accepted the eviction, not that the pod is gone.
        """

    async def explain(self, decision: PlacementDecision) -> None:
        """Show users of the cluster why a pod has no node.

        It neither waits for the cluster nor raises. A cluster without users ignores it.
        """
        return
