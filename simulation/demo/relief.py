"""What rebalancing does: nodes turn hot, pods leave, nodes cool.

What nodes used comes in by bins of time, rounds and commands as they were read. A node is
hot from the first bin in which its mean usage is above the share of its cores from which the policy
calls it hot, to the first in which it is not; what left it in between belongs to that time.
Hot-node minutes are counted in the same way, so the live view and the summary agree. Of dry
commands, which come again and again while a node stays hot, the first one for each node is shown.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from schemas.messages.evictions import EvictionCommand
from schemas.messages.rounds import RebalanceRound
from schemas.policy import Policy
from simulation.cluster.cluster import Eviction

#: Happenings that are kept to be shown.
HAPPENINGS_KEPT = 5_000

What = Literal["hot", "left", "dry", "back", "cool"]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something to show."""

    at_ms: int
    what: What
    """hot: it turned hot. left: a pod left it. dry: one would leave. back: what came in its place
    arrived there. cool: it cooled."""
    node: str
    text: str


@dataclass(slots=True)
class HotSpell:
    """A time in which a node was hot."""

    node: str
    since_ms: int
    used: float
    """Share of its cores that it used in the newest bin."""
    until_ms: int | None = None
    """None: it is hot still."""
    left: int = 0
    """Pods evicted from it."""
    dry: bool = False
    """A dry command for it was shown."""


@dataclass(slots=True)
class Relief:
    """Hot nodes and commands."""

    hot_above: float
    """Share of a node's cores above which it is hot."""
    newest: RebalanceRound | None = None
    spells: list[HotSpell] = field(default_factory=list)
    """In the order in which they began."""
    hot: dict[str, HotSpell] = field(default_factory=dict)
    """Those that last, by node."""
    happenings: deque[Happening] = field(default_factory=lambda: deque(maxlen=HAPPENINGS_KEPT))
    commands: int = 0
    dry_commands: int = 0

    def used(self, node: str, share: float, begin_ms: int, end_ms: int) -> None:
        """A node used this share of its cores from `begin_ms` to `end_ms`; NaN: not measured."""
        spell = self.hot.get(node)
        if share > self.hot_above:
            if spell is None:
                spell = self.hot[node] = HotSpell(node, begin_ms, share)
                self.spells.append(spell)
                text = f"{node} turns hot: {usage_text(share, self.hot_above)}"
                self._happen(end_ms, "hot", node, text)
            spell.used = share
        elif spell is not None:
            del self.hot[node]
            spell.until_ms = begin_ms
            minutes = (begin_ms - spell.since_ms) // 60_000
            pods = f"{spell.left} pod{'' if spell.left == 1 else 's'}"
            after = f" after {pods} left it" if spell.left else " by itself"
            self._happen(end_ms, "cool", node, f"{node} has cooled{after}, {minutes} min hot")

    def round(self, message: RebalanceRound) -> None:
        """A round was made."""
        self.newest = message

    def gate(self, node: str) -> str:
        """Why the newest round moves nothing from a node; empty: nothing keeps it, or not named."""
        if self.newest is None:
            return ""
        if self.newest.gate:
            return self.newest.gate
        named = (hot.gate for pool in self.newest.pools for hot in pool.hot if hot.node == node)
        return next(named, "")

    def command(self, command: EvictionCommand) -> None:
        """A pod must leave its node."""
        if not command.dry_run:
            self.commands += 1
            return
        self.dry_commands += 1
        spell = self.hot.get(command.node)
        if spell is None or spell.dry:
            return
        spell.dry = True
        text = f"dry run: {command.pod.name} would leave {command.node}"
        self._happen(command.decided_at_ms, "dry", command.node, text)

    def evicted(self, eviction: Eviction) -> None:
        """A pod has left its node."""
        if (spell := self.hot.get(eviction.node)) is not None:
            spell.left += 1
        text = f"{eviction.pod.name} leaves {eviction.node}"
        self._happen(eviction.at_ms, "left", eviction.node, text)

    def arrived(self, name: str, source: str, node: str, at_ms: int) -> None:
        """What came in place of an evicted pod was bound to a node."""
        self._happen(at_ms, "back", node, f"{name}, which left {source}, goes to {node}")

    def _happen(self, at_ms: int, what: What, node: str, text: str) -> None:
        self.happenings.append(Happening(at_ms, what, node, text))


def hot_above(policy: Policy) -> float:
    """Share of a node's cores above which rebalancing calls it hot.

    That of moves by thresholds where the policy has one, or that of moves by risk.
    """
    if "cpu" in (high := policy.rebalance.high_thresholds or {}):
        return high["cpu"] / 100
    shares = (
        each.hot_share for each in policy.overutilization_risk.resources if each.name == "cpu"
    )
    return next(shares, 1.0)


def usage_text(share: float, above: float) -> str:
    """What a hot node uses, in percent of its cores."""
    return f"cpu {100 * share:.0f} % of at most {100 * above:.0f} %"
