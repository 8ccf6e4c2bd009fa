"""What a round came to: plain values, from which the round's record and the eviction commands are
made.

Everything says its numbers: which thresholds were in force, how many nodes were in each class, and
for each hot node and each pod that was looked at the first gate that stopped it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.messages.pods import Pod
from streams.rebalance.candidates import Candidate, Phase

NodeClass = Literal["low", "bothLow", "prodLow", "high", "prodHigh", "normal", "skipped"]
#: Classes by their code in `PoolOutcome.codes`.
CLASSES: tuple[NodeClass, ...] = (
    "low", "bothLow", "prodLow", "high", "prodHigh", "normal", "skipped",
)  # fmt: skip
LOW, BOTH_LOW, PROD_LOW, HIGH, PROD_HIGH, NORMAL, SKIPPED = range(len(CLASSES))

Percents = Mapping[str, float]

#: Most pods of a hot node whose verdicts are kept; the others are counted.
VERDICTS_MAX = 32


@dataclass(frozen=True, slots=True)
class PoolThresholds:
    """Thresholds of one pool as they were in force, in percent or, by deviation, in points of it."""

    low: Percents
    high: Percents
    prod_low: Percents
    prod_high: Percents
    deviation: bool = False
    """They are distances from the mean."""
    source: str = "policy"
    """How they came about: the policy's own, a weekly window, the recent past."""
    without_target: bool = False
    """Batch and free pods of a hot node may leave although no target takes them."""


class Costs(NamedTuple):
    """What a move changes by the plan: costs by the risk that nodes are overutilized."""

    source_before: float
    source_after: float
    target_before: float
    target_after: float

    @property
    def gain(self) -> float:
        """By how much the sum of the nodes' costs falls."""
        return self.source_before - self.source_after + self.target_before - self.target_after


class Verdict(NamedTuple):
    """A pod of a hot node that was looked at, and how far it came."""

    pod: Pod
    gate: str
    """The first gate that stopped it: leaving, namespaces, selectors, filter, unmeasured,
    uninvolved, gate, fit, room; empty: it leaves."""
    message: str = ""
    """What the gate said, with numbers."""
    target: str | None = None
    """Where the plan moves it; none: it stays, or no target was planned."""
    usage: Mapping[str, int] = MappingProxyType({})
    """What was measured of it."""
    costs: Costs | None = None
    """What its move changes or would change; none: risk was not looked at."""


@dataclass(slots=True)
class HotNodeOutcome:
    """A node above a high threshold, and what was done about it."""

    name: str
    phase: Phase
    rounds: int
    """Rounds in a row in which it was over, this one included."""
    acting: bool
    """It has been over for long enough."""
    usage: Mapping[str, int]
    """Before the round's moves, for the resources with thresholds."""
    limits: Mapping[str, int]
    capacity: Mapping[str, int]
    ended: str = ""
    """Why no further pod leaves it; empty: it is below its thresholds by the plan."""
    cost: float | None = None
    """By the risk that it is overutilized, before the round's moves; none: thresholds make it hot."""
    moved: int = 0
    """Pods that leave."""
    looked_at: int = 0
    """Pods whose turn came."""
    pods: list[Verdict] = field(default_factory=list)
    """The first of them, in their order."""
    gates: Counter[str] = field(default_factory=Counter)
    """How many pods each gate stopped."""

    def note(self, verdict: Verdict) -> None:
        """A pod was looked at."""
        self.looked_at += 1
        if verdict.gate:
            self.gates[verdict.gate] += 1
        else:
            self.moved += 1
        if len(self.pods) < VERDICTS_MAX:
            self.pods.append(verdict)


@dataclass(frozen=True, slots=True)
class NodeStanding:
    """How a node stands in a round, per resource that has a high threshold; empty: none has."""

    used: Mapping[str, int]
    limit: Mapping[str, int]
    capacity: Mapping[str, int]

    @property
    def is_hot(self) -> bool:
        """Whether it is above a threshold."""
        return any(used > self.limit[name] for name, used in self.used.items())


@dataclass(slots=True)
class PoolOutcome:
    """One pool's part of a round."""

    name: str
    thresholds: PoolThresholds
    """As they were in force, in percent also by deviation."""
    resources: tuple[str, ...]
    names: list[str]
    """Nodes of the pool, in ascending order of names."""
    codes: NDArray[np.int8]
    """Class of each of them, an index into `CLASSES`."""
    hot: list[HotNodeOutcome] = field(default_factory=list)
    """Hot nodes: those that act in the order of their turns, then the others, most used first."""
    rounds_needed: int = 0
    """Rounds in a row that make a node act."""
    targets: int = 0
    """How many nodes may take pods."""
    ended: str = ""
    """Why the pool's round ended before any pod was looked at; empty: it did not."""
    moves: list[Candidate] = field(default_factory=list)
    """Pods that leave, in order."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Number of measured nodes by what their memory counts, where these are several."""

    readings: Callable[[str, Phase], "NodeStanding | None"] | None = None
    """How a measured node of the pool stands; none where nothing was measured."""

    def counts(self) -> dict[str, int]:
        """How many nodes are in each class."""
        counted = np.bincount(self.codes, minlength=len(CLASSES)).tolist()
        return dict(zip(CLASSES, counted, strict=True))

    @property
    def hot_names(self) -> list[str]:
        """Nodes that are hot or at risk, those included whose pods had no turn."""
        hot = np.flatnonzero((self.codes == HIGH) | (self.codes == PROD_HIGH))
        return [self.names[position] for position in hot.tolist()]

    def class_of(self, node: str) -> NodeClass | None:
        """The class of a node; none: the pool has no such node."""
        at = bisect_left(self.names, node)
        there = at < len(self.names) and self.names[at] == node
        return CLASSES[int(self.codes[at])] if there else None

    def classes(self) -> dict[str, NodeClass]:
        """The class of each node."""
        return {
            name: CLASSES[code] for name, code in zip(self.names, self.codes.tolist(), strict=True)
        }


@dataclass(slots=True)
class RoundOutcome:
    """What a round came to."""

    now_ms: int
    paused: bool = False
    ended: str = ""
    """The text of the gate that ended the whole round."""
    pools: list[PoolOutcome] = field(default_factory=list)
    means: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """Mean usage of the measured nodes of each pool in percent, also where rounds are paused."""

    @property
    def hot_names(self) -> set[str]:
        """Nodes that are hot or at risk in any pool, those included whose pods had no turn."""
        return {name for pool in self.pools for name in pool.hot_names}

    @property
    def moves(self) -> list[Candidate]:
        """All pods that leave, in order."""
        return [move for pool in self.pools for move in pool.moves]
