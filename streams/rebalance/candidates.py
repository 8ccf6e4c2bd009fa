"""A pod that may leave its node, and the rules that may stop it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from schemas.messages.migrations import Mode
from schemas.messages.pods import Pod
from streams.pods.held_pod import HeldPod
from streams.stage.arrays import BoolArray

#: Whether a node is hot by the usage of the whole node or of its prod pods.
Phase = Literal["node", "prod"]
Scope = Literal["pod", "node", "round"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A reason that stops a pod: a name, and a sentence with numbers."""

    name: str
    text: str
    scope: Scope = "pod"
    """Whether the gate stops one pod, all pods of a node, or all pods of the round."""


class Candidate(NamedTuple):
    held: HeldPod
    node: str
    pool: str
    phase: Phase
    reason: str
    """The usage that exceeds a threshold, in Koordinator's words."""
    target: str | None
    """The planned target; None if no target is planned."""
    usage: Mapping[str, int]
    """Measured usage in millicores, bytes and pieces; `pods` is 1."""
    mode: Mode | None = None
    """How to migrate; None for the policy's default."""
    source_hot: bool = False
    """Whether the source node is above its high thresholds."""


@dataclass(frozen=True, slots=True)
class RoundRules:
    """Rules of migrations for a round. They are passed in, because `migration` imports `rebalance`."""

    leaving: Collection[str]
    """uids of pods that are already leaving."""
    explain_protection: Callable[[HeldPod], str | None]
    """Returns why a pod may never be evicted; None if it may be."""
    find_refusing_nodes: Callable[[Pod], BoolArray]
    """Returns a mask of the nodes that refuse a replacement of a pod, shape (nodes,)."""
    check_pod: Callable[[HeldPod, str], Gate | None]
    """Returns the gate that stops a pod of a node for any target; called before a target is chosen."""
    propose: Callable[[Candidate], Gate | None]
    """Starts the migration of a candidate, or returns the gate that stops it."""
