"""Hot nodes take turns: their pods are looked at in order, and each one that leaves is planned onto a target.

Before each pod it is asked whether the node is still over by the plan. A pod is stopped by the first gate
that says no: it leaves already, its namespace or labels, the evictor's protections, no known usage, no use of what is
over, a memory of attempts in vain, no target that could run it or has room, and last the gate of whoever
emits commands. Pods that leave already count as gone from the start, so a node is not relieved twice.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from schemas.pods import Pod
from streams.cluster.node import Held
from streams.cluster.plugins.base import FloatArray, IntArray
from streams.rebalance.figures import AMOUNT_MAX, UNMEASURED, NodeFigures, amounts_of
from streams.rebalance.fit import Fit, Group
from streams.rebalance.inputs import named, reason_text
from streams.rebalance.order import orders, weights_of
from streams.rebalance.outcome import (
    BOTH_LOW,
    LOW,
    PROD_LOW,
    Candidate,
    EndOfNode,
    EndOfRound,
    HotNode,
    Phase,
    RoundOutcome,
    Unmovable,
    Verdict,
)
from streams.rebalance.pools import UNLIMITED
from streams.rebalance.targets import Targets

if TYPE_CHECKING:
    from streams.rebalance.balance import PoolRound

#: Most unmovable pods that one round reports.
UNMOVABLE_MAX = 1_000


class Turns:
    """The turns of one pool's hot nodes."""

    def __init__(self, pool: "PoolRound", targets: IntArray, outcome: RoundOutcome) -> None:
        """Prepare.

        Args:
            pool: the pool's part of the round.
            targets: positions of the nodes that may take pods.
            outcome: of the whole round.
        """
        self.pool, self.given, self.outcome = pool, pool.given, outcome
        self.nodes = nodes = pool.nodes
        self.universe = pool.rounds.universe
        self.weights: FloatArray = weights_of(nodes, pool.pool.weights, self.universe)
        self.names = [pool.names[position] for position in targets.tolist()]
        used = nodes.usage[:, targets] + nodes.pending[:, targets]
        high, prod_room = pool.limits.high[:, targets], None
        if pool.limits.prod_high is not None:
            prod_used = nodes.prod_usage[:, targets] + nodes.pending[:, targets]
            prod_room = pool.limits.prod_high[:, targets] - prod_used
        watched = [name in pool.thresholds.high for name in nodes.resources]
        self.targets = Targets(high - used, prod_room, nodes.capacity[:, targets], watched)
        self._most_room: dict[bytes, dict[str, int]] = {}
        codes = pool.codes[targets]
        self.fit = Fit(
            self.given.columns,
            nodes.rows[targets],
            {
                "node": np.isin(codes, (LOW, BOTH_LOW)),
                "prod": np.isin(codes, (PROD_LOW, BOTH_LOW)),
            },
            node_fit=pool.rounds.args.node_fit,
        )

    def run(self, phase: Phase) -> None:
        """One phase: all nodes that act, in their order."""
        acting = [hot for hot in self.pool.outcome.hot if hot.acting and hot.phase == phase]
        if not acting:
            return
        places = {name: place for place, name in enumerate(self.pool.names)}
        chosen = [places[hot.name] for hot in acting]
        columns = self.given.columns
        figures = [columns.nodes[row] for row in self.nodes.rows[chosen].tolist()]
        used = self.pool.used(phase)[:, chosen].copy()
        for place, each in enumerate(figures):
            for amounts in self._leaving(each, phase):
                used[:, place] -= amounts
        limits = self.pool.high(phase)[:, chosen]
        excess = (used - limits).astype(np.float64)
        order = orders(figures, excess, self.nodes.which, self.weights)
        for place, hot in enumerate(acting):
            if self.outcome.ended:
                hot.ended = self.outcome.ended
                continue
            turn = Turn(self, hot, figures[place], chosen[place])
            turn.run(used[:, place].tolist(), limits[:, place].tolist(), order[place].tolist())

    def room(self, group: Group) -> dict[str, int]:
        """The most room that any one target of a group had before the first move, where it is limited."""
        room = self._most_room.get(group.places)
        if room is None:
            names = self.nodes.resources
            most = named(names, self.targets.most_room(group) or [0] * len(names))
            room = {name: most[name] for name in names if most[name] < UNLIMITED - 2 * AMOUNT_MAX}
            self._most_room[group.places] = room
        return room

    def leaves(self, pod: Pod) -> bool:
        """The pod is on its way already."""
        return pod.deleting_at_ms is not None or pod.uid in self.given.leaving

    def _leaving(self, figures: NodeFigures, phase: Phase) -> Iterator[IntArray]:
        """What each pod that leaves already uses."""
        for index, pod in enumerate(figures.pods.pods):
            counts = phase == "node" or figures.pods.prod[index]
            if counts and pod.node is not None and self.leaves(pod):
                yield amounts_of(figures.used[index], self.universe)[self.nodes.which]


class Turn:
    """One hot node's turn."""

    def __init__(self, turns: Turns, hot: HotNode, figures: NodeFigures, position: int) -> None:
        self.turns, self.hot, self.figures, self.position = turns, hot, figures, position
        self._pool = turns.pool

    def run(self, used: list[int], limits: list[int], order: list[int]) -> None:
        """Look at pods until the node is below its limits, or none is left.

        Args:
            used: what is used without the pods that leave already, per resource; it shrinks.
            limits: the most that may be.
            order: positions of the pods.
        """
        turns, hot, figures = self.turns, self.hot, self.figures
        measured = (figures.used != UNMEASURED).any(axis=1).tolist()
        amounts = amounts_of(figures.used, turns.universe)[:, turns.nodes.which].tolist()
        for index in order:
            over = [amount > limit for amount, limit in zip(used, limits, strict=True)]
            if not any(over):
                hot.ended = "" if hot.moved else "pods that leave already bring it below"
                return
            pod = figures.pods.pods[index]
            if pod.node is None or (hot.phase == "prod" and not figures.pods.prod[index]):
                continue
            stopped = self._protected(figures.pods.held[index])
            if stopped is None and not measured[index]:
                stopped = "unmeasured", "no usage of it is known"
            if stopped is None and not any(
                amount for amount, above in zip(amounts[index], over, strict=True) if above
            ):
                stopped = "uninvolved", "it uses nothing of what is over"
            if stopped is None:
                stopped = self._remembered(figures.pods.held[index], amounts[index])
            if stopped is not None:
                hot.note(Verdict(pod, *stopped))
                continue
            if self._moves(index, amounts[index], used):
                for place, amount in enumerate(amounts[index]):
                    used[place] -= amount
            elif hot.ended:
                return
        if any(amount > limit for amount, limit in zip(used, limits, strict=True)):
            hot.ended = "no further pod may leave"

    def _protected(self, held: Held) -> tuple[str, str] | None:
        if self.turns.leaves(held.pod):
            return "leaving", "it is on its way already"
        stopped = self._pool.rounds.pod_filter(held)
        if stopped is None:
            protected = self.turns.given.filter(held)
            stopped = None if protected is None else ("filter", protected)
        return stopped

    def _remembered(self, held: Held, amounts: list[int]) -> tuple[str, str] | None:
        """A pod for which no target was found lately is not worth a try until something changes."""
        turns = self.turns
        room = turns.room(turns.fit.group(held, self.hot.phase))
        usage = named(turns.nodes.resources, amounts)
        why = turns.given.remembered(held.pod.uid, usage, room)
        return None if why is None else ("unmovable", why)

    def _moves(self, index: int, amounts: list[int], used: list[int]) -> bool:
        """Plan a pod onto a target and ask the gate; False if it stays."""
        turns, hot = self.turns, self.hot
        held = self.figures.pods.held[index]
        prod = bool(self.figures.pods.prod[index])
        group = turns.fit.group(held, hot.phase)
        target = turns.targets.find(amounts, group, prod=prod)
        if target is None:
            self._stays(held, amounts, group, prod=prod)
            return False
        candidate = Candidate(
            held=held,
            node=hot.name,
            pool=self._pool.pool.name,
            phase=hot.phase,
            reason=reason_text(self._pool.over_text(self.position, hot.phase, used)),
            target=turns.names[target],
            usage=self._usage(index),
        )
        refused = turns.given.gate(candidate)
        if refused is not None:
            hot.note(Verdict(held.pod, "gate", refused, candidate.target, candidate.usage))
            if isinstance(refused, EndOfNode | EndOfRound):
                hot.ended = str(refused)
            if isinstance(refused, EndOfRound):
                turns.outcome.ended = str(refused)
            return False
        turns.targets.take(target, amounts, group, prod=prod)
        hot.note(Verdict(held.pod, "", "", candidate.target, candidate.usage))
        self._pool.outcome.moves.append(candidate)
        return True

    def _stays(self, held: Held, amounts: list[int], group: Group, *, prod: bool) -> None:
        """No target takes the pod: none ever could, or earlier moves have taken the room."""
        turns, hot = self.turns, self.hot
        names = turns.nodes.resources
        usage = named(names, amounts)
        allowed = int(group.mask.sum())
        if not allowed:
            gate, message = "fit", f"none of {len(turns.targets)} targets may run it"
        elif turns.targets.ever(amounts, group, prod=prod):
            gate, message = "room", "earlier moves of the round have taken the room on every target"
        else:
            gate, message = (
                "unmovable",
                (
                    f"none of {allowed} targets that may run it could take it without passing a threshold or "
                    f"its requests' room: it uses {_text(usage)}"
                ),
            )
        if gate != "room" and len(turns.outcome.unmovable) < UNMOVABLE_MAX:
            room = named(names, turns.targets.most_room(group) or [0] * len(names))
            turns.outcome.unmovable.append(
                Unmovable(held.pod, hot.name, self._pool.pool.name, message, usage, _limited(room))
            )
        hot.note(Verdict(held.pod, gate, message, usage=usage))

    def _usage(self, index: int) -> dict[str, int]:
        used = named(self.turns.universe.resources, self.figures.used[index].tolist())
        measured = {name: amount for name, amount in used.items() if amount != UNMEASURED}
        return {**measured, "pods": 1}


def _text(amounts: dict[str, int]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
