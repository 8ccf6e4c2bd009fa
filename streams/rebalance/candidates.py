"""A pod that may leave its node, and the rules that may stop it.

Rounds create candidates. `streams.cluster.rebalancer` has the rules of migrations and earlier moves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from schemas.messages.migrations import Mode
from streams.pods.held import HeldPod
from streams.stage.arrays import BoolArray

Phase = Literal["node", "prod"]
Scope = Literal["pod", "node", "round"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A reason that stops a pod: a name, and a sentence with numbers."""

    name: str
    text: str
    scope: Scope = "pod"
    """Whether it stops this pod, every pod of its node, or every pod of the round."""


class Candidate(NamedTuple):
    """A pod that may leave its node."""

    held: HeldPod
    node: str
    pool: str
    phase: Phase
    reason: str
    """The usage that exceeds a threshold, in Koordinator's words."""
    target: str | None
    """The planned target; None under Koordinator's rules, which plan none."""
    usage: Mapping[str, int]
    """Measured usage in millicores, bytes and pieces; `pods` is 1."""
    mode: Mode | None = None
    """How to migrate; None for the policy's default."""
    source_hot: bool = False
    """Whether the source node is above its high thresholds."""


class Rules:
    """The rules of a round; this base class stops no pod."""

    leaving: Collection[str] = ()
    """uids of pods that are already leaving; their usage counts as gone."""

    def explain_protection(self, held: HeldPod) -> str | None:
        """Return why a pod may never be evicted; None if it may be."""
        return None

    def list_avoided_nodes(self, held: HeldPod) -> Collection[str]:
        """Return the names of nodes that are excluded for the pod."""
        return ()

    def list_cooling_nodes(self) -> Collection[str]:
        """Return the names of nodes that moves have left and that have not cooled."""
        return ()

    def explain_rest(self, held: HeldPod, node: str, rest_ms: int) -> str | None:
        """Return why a pod that a move brought within `rest_ms` is not moved again; None if it may be."""
        return None

    def find_refusing_nodes(self, held: HeldPod) -> BoolArray | None:
        """Return a mask of nodes that refuse a replacement of the pod, shape (nodes,); None if none does."""
        return None

    def hold_back(self, held: HeldPod, node: str, pool: str) -> Gate | None:
        """Return the gate that stops a pod for any target; called before a target is chosen."""
        return None

    def gate(self, candidate: Candidate) -> Gate | None:
        """Start the candidate's migration, or return the gate that stops it."""
        return None
