"""What rebalancing does, by its rounds and commands: nodes turn hot, pods leave, nodes cool.

Messages come in as they were read. A node is hot from the first round that names it to the first
that does not, if it is named twice in a row at least; what left it belongs to that time. Of dry
commands, which come again and again while a node stays hot, the first one for each node is shown.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from connectors.simulated.cluster import Eviction
from schemas.evictions import EvictionCommand
from schemas.moves import MoveOutcome
from schemas.rounds import HotNode, RebalanceRound

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
    until_ms: int | None = None
    """None: it is hot still."""
    left: int = 0
    """Pods evicted from it."""
    newest: HotNode | None = None
    """As the newest round has it."""
    rounds: int = 1
    """Rounds that have named it."""
    dry: bool = False
    """A dry command for it was shown."""


@dataclass(slots=True)
class Relief:
    """Rounds, commands and the verdicts on them."""

    left_out: str | None = None
    """A node whose load no eviction can move: it is called hot by rounds and never relieved."""
    rounds: int = 0
    newest: RebalanceRound | None = None
    spells: list[HotSpell] = field(default_factory=list)
    """In the order in which they began."""
    hot: dict[str, HotSpell] = field(default_factory=dict)
    """Those that last, by node."""
    happenings: deque[Happening] = field(default_factory=lambda: deque(maxlen=HAPPENINGS_KEPT))
    commands: int = 0
    dry_commands: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    """Verdicts on moves that were carried out."""
    dry_verdicts: Counter[str] = field(default_factory=Counter)

    def round(self, message: RebalanceRound) -> None:
        """A round was made."""
        self.rounds += 1
        self.newest = message
        if message.gate:
            return
        named: dict[str, HotNode] = {}
        for pool in message.pools:
            for hot in pool.hot:
                if hot.node != self.left_out:
                    named.setdefault(hot.node, hot)
        at_ms = message.decided_at_ms
        for node, hot in named.items():
            spell = self.hot.get(node)
            if spell is None:
                spell = self.hot[node] = HotSpell(node, at_ms)
            else:
                spell.rounds += 1
            spell.newest = hot
            if spell.rounds == 2:
                self.spells.append(spell)
                self._happen(at_ms, "hot", node, f"{node} turns hot: {reading_text(hot)}")
        if any(pool.hot_left_out for pool in message.pools):
            return  # a node that is not named may be hot still
        for node in [node for node in self.hot if node not in named]:
            spell = self.hot.pop(node)
            spell.until_ms = at_ms
            if spell.rounds < 2:
                continue
            minutes = (at_ms - spell.since_ms) // 60_000
            pods = f"{spell.left} pod{'' if spell.left == 1 else 's'}"
            after = f" after {pods} left it" if spell.left else " by itself"
            self._happen(at_ms, "cool", node, f"{node} has cooled{after}, {minutes} min hot")

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

    def outcome(self, outcome: MoveOutcome) -> None:
        """It was judged whether a move helped."""
        verdicts = self.dry_verdicts if outcome.dry_run else self.verdicts
        verdicts[outcome.verdict] += 1

    def _happen(self, at_ms: int, what: What, node: str, text: str) -> None:
        self.happenings.append(Happening(at_ms, what, node, text))


def reading_text(hot: HotNode) -> str:
    """The resources of a hot node that are above their limits, in percent."""
    texts = [
        f"{name} {100 * reading.used / reading.capacity:.0f} % of at most "
        f"{100 * reading.limit / reading.capacity:.0f} %"
        for name, reading in hot.readings.items()
        if reading.capacity
    ]
    return ", ".join(texts) or "no reading"
