"""Results of a round as plain values, from which the message about the round is built.

They include the thresholds, the class of each node, and the first gate that stopped each hot node and each
checked pod.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.messages.pods import Pod
from streams.rebalance.candidates import Candidate, Phase
from streams.rebalance.node_figures import TOTAL_MAX
from streams.stage.arrays import IntArray

NodeClass = Literal["low", "bothLow", "prodLow", "high", "prodHigh", "normal", "skipped"]
#: Classes by their code in `PoolOutcome.codes`.
CLASSES: tuple[NodeClass, ...] = (
    "low", "bothLow", "prodLow", "high", "prodHigh", "normal", "skipped",
)  # fmt: skip
LOW, BOTH_LOW, PROD_LOW, HIGH, PROD_HIGH, NORMAL, SKIPPED = range(len(CLASSES))

Percents = Mapping[str, float]

#: A limit that no usage exceeds.
UNLIMITED = 4 * TOTAL_MAX
#: Most verdicts per hot node; other pods are only counted.
VERDICTS_MAX = 32


@dataclass(frozen=True, slots=True)
class PoolThresholds:
    """Thresholds of one pool in percent."""

    low: Percents
    high: Percents
    prod_low: Percents
    prod_high: Percents
    deviation: bool = False
    """Whether the thresholds are distances from the mean."""
    source: str = "policy"
    """Origin of the thresholds: the policy or a weekly window."""
    without_target: bool = False
    """Whether batch and free pods of a hot node may leave without a target."""


class Costs(NamedTuple):
    """Costs of overutilization risk before and after a planned move."""

    source_before: float
    source_after: float
    target_before: float
    target_after: float

    @property
    def gain(self) -> float:
        """Reduction of the sum of the nodes' costs."""
        return self.source_before - self.source_after + self.target_before - self.target_after


class Verdict(NamedTuple):
    """The result for a checked pod of a hot node."""

    pod: Pod
    gate: str
    """The first gate that stopped the pod; empty if the pod leaves."""
    message: str = ""
    """The text of the gate, with numbers."""
    target: str | None = None
    """The planned target; None if the pod stays, or without planned targets."""
    usage: Mapping[str, int] = MappingProxyType({})
    """Measured usage of the pod."""
    costs: Costs | None = None
    """Costs of the move; None if the round does not move pods by risk."""


@dataclass(frozen=True, slots=True)
class NodeReadings:
    """Usage, limits and capacity of a node by resource with a high threshold."""

    used: Mapping[str, int]
    limit: Mapping[str, int]
    capacity: Mapping[str, int]

    @property
    def is_hot(self) -> bool:
        return any(used > self.limit[name] for name, used in self.used.items())


@dataclass(slots=True)
class HotNodeOutcome:
    """The result for a hot node."""

    name: str
    phase: Phase
    rounds: int
    """Hot rounds in a row, including this one."""
    abnormal: bool
    """Whether the node has been hot for enough rounds, so that pods may leave."""
    readings: NodeReadings
    """Usage before the round's moves, and limits."""
    end_reason: str = ""
    """Why no further pod leaves; empty if the planned moves bring the node below its thresholds."""
    cost: float | None = None
    """Cost of overutilization risk before the round's moves; None if the node is hot by thresholds."""
    moved: int = 0
    """Number of pods that leave."""
    checked: int = 0
    """Number of checked pods."""
    pods: list[Verdict] = field(default_factory=list)
    """The first verdicts, in order."""
    gates: Counter[str] = field(default_factory=Counter)
    """Number of pods that each gate stopped."""

    def note(self, verdict: Verdict) -> None:
        self.checked += 1
        if verdict.gate:
            self.gates[verdict.gate] += 1
        else:
            self.moved += 1
        if len(self.pods) < VERDICTS_MAX:
            self.pods.append(verdict)


def _find_position(names: Sequence[str], name: str) -> int | None:
    """Return the position of a name in ascending names."""
    position = bisect_left(names, name)
    return position if position < len(names) and names[position] == name else None


@dataclass(frozen=True, slots=True)
class PoolReadings:
    """Usage, high limits and capacity of measured nodes, as arrays of shape (resources, nodes)."""

    names: Sequence[str]
    """The nodes, in ascending order."""
    resources: Sequence[str]
    used: Mapping[Phase, IntArray]
    limits: Mapping[Phase, IntArray]
    """High limits; a phase without limits is left out."""
    capacity: IntArray

    def find_position(self, name: str) -> int | None:
        """Return the position of a node; None if it is not measured."""
        return _find_position(self.names, name)

    def find_readings(self, name: str, phase: Phase) -> NodeReadings | None:
        """Return the readings of a node; None if it is not measured."""
        position = self.find_position(name)
        return None if position is None else self.get_readings(position, phase)

    def get_readings(self, position: int, phase: Phase) -> NodeReadings:
        if phase not in self.limits:
            return NodeReadings({}, {}, {})
        return self.build_readings(
            self.used[phase][:, position].tolist(),
            self.limits[phase][:, position].tolist(),
            self.capacity[:, position].tolist(),
        )

    def build_readings(
        self, used: Sequence[int], limits: Sequence[int], capacity: Sequence[int]
    ) -> NodeReadings:
        """Return readings from amounts per resource, without unlimited resources."""
        limited = [limit < UNLIMITED for limit in limits]
        names = list(compress(self.resources, limited))
        return NodeReadings(
            used=dict(zip(names, compress(used, limited), strict=True)),
            limit=dict(zip(names, compress(limits, limited), strict=True)),
            capacity=dict(zip(names, compress(capacity, limited), strict=True)),
        )


@dataclass(slots=True)
class PoolOutcome:
    """The result for one pool."""

    name: str
    thresholds: PoolThresholds
    """Percentages of capacity, also by deviation."""
    resources: tuple[str, ...]
    names: list[str]
    """Nodes of the pool, in ascending order."""
    codes: NDArray[np.int8]
    """Class of each node, an index into `CLASSES`."""
    hot: list[HotNodeOutcome] = field(default_factory=list)
    """Hot nodes of each phase: abnormal nodes, then others, each most used first."""
    rounds_needed: int = 0
    """Hot rounds in a row after which pods may leave."""
    targets: int = 0
    """Number of nodes that may get pods."""
    end_reason: str = ""
    """Why no pod was checked; empty if pods were checked."""
    moves: list[Candidate] = field(default_factory=list)
    """Pods that leave, in order."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Number of nodes by definition of memory usage; empty if there is only one definition."""
    readings: PoolReadings | None = None
    """None with `compat: koordinator`, where migrations off nodes that have cooled go on."""

    @property
    def class_counts(self) -> dict[str, int]:
        """Number of nodes by class."""
        counts = np.bincount(self.codes, minlength=len(CLASSES)).tolist()
        return dict(zip(CLASSES, counts, strict=True))

    @property
    def hot_names(self) -> list[str]:
        """Nodes that are hot or at risk, including those without checked pods."""
        hot = np.flatnonzero((self.codes == HIGH) | (self.codes == PROD_HIGH))
        return [self.names[position] for position in hot.tolist()]

    def get_class(self, node: str) -> NodeClass | None:
        """Return the class of a node; None if it is not in the pool."""
        position = _find_position(self.names, node)
        return None if position is None else CLASSES[int(self.codes[position])]

    @property
    def classes(self) -> dict[str, NodeClass]:
        return {name: CLASSES[code] for name, code in zip(self.names, self.codes, strict=True)}


@dataclass(slots=True)
class RoundOutcome:
    now_ms: int
    end_reason: str = ""
    """Text of the gate that ended the round."""
    pools: list[PoolOutcome] = field(default_factory=list)

    @property
    def hot_names(self) -> set[str]:
        """Nodes that are hot or at risk in any pool."""
        return {name for pool in self.pools for name in pool.hot_names}

    @property
    def moves(self) -> list[Candidate]:
        return [move for pool in self.pools for move in pool.moves]
