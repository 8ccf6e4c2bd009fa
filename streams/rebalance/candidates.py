"""A pod whose turn to leave has come, and what a round asks before it leaves.

Rounds make candidates; migrations and the memory of moves say which gate stops them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from schemas.messages.migrations import Mode
from streams.pods.held import Held
from streams.stage.arrays import BoolArray

Phase = Literal["node", "prod"]
Scope = Literal["pod", "node", "round"]


@dataclass(frozen=True, slots=True)
class Gate:
    """What stops a pod: the name of the gate, and a sentence with numbers."""

    name: str
    text: str
    scope: Scope = "pod"
    """What it stops: this pod, every pod of its node, or every pod of the round."""


class Candidate(NamedTuple):
    """A pod whose turn to leave has come."""

    held: Held
    node: str
    pool: str
    phase: Phase
    reason: str
    """Why, as Koordinator words it: which usage exceeds which threshold."""
    target: str | None
    """Node that the plan moves it to; none: Koordinator's way, which plans none."""
    usage: Mapping[str, int]
    """What was measured of it: millicores, bytes, pieces; it has one of `pods`."""
    mode: Mode | None = None
    """How it leaves; none: as the policy says."""
    source_hot: bool = False
    """The node that it leaves is above its high thresholds."""


class Rules:
    """What a round asks about pods; these rules stop none."""

    leaving: Collection[str] = ()
    """uids of pods that are on their way already: what they use counts as gone."""

    def explain_protection(self, held: Held) -> str | None:
        """Why a pod may never be evicted; None: it may."""
        return None

    def list_avoided_nodes(self, held: Held) -> Collection[str]:
        """Names of nodes that a pod's owner must stay away from."""
        return ()

    def list_cooling_nodes(self) -> Collection[str]:
        """Names of nodes that moves have left and that have not cooled."""
        return ()

    def explain_rest(self, held: Held, node: str, rest_ms: int) -> str | None:
        """Why a pod that came by a move within a time is not moved on; None: it may be.

        Args:
            held: the pod.
            node: that it is on.
            rest_ms: how long ago it came at most.
        """
        return None

    def find_refusing_nodes(self, held: Held) -> BoolArray | None:
        """Rows of nodes that placement refuses a pod like this, shape (nodes,); None: none."""
        return None

    def hold_back(self, held: Held, node: str, pool: str) -> Gate | None:
        """Asked before a target is looked for: what stops a pod of a node; None: nothing does."""
        return None

    def gate(self, candidate: Candidate) -> Gate | None:
        """Asked last, in order: what stops a pod that would leave; None: it leaves."""
        return None
