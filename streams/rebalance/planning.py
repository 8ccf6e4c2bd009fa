"""Hot nodes take turns: their pods are looked at in order, and each one that leaves is planned onto
a target.

Before each pod it is asked whether the node is still over by the plan. A pod is stopped by the
first gate that says no: it leaves already, its namespace or labels, the evictor's protections, no
known usage, no use of what is over, a memory of failed attempts, no target that could run it or has
room, and last the gate of what emits commands. Pods that leave already count as gone from the
start, so a node is not relieved twice.

While a window with `evictWithoutTarget` is open, batch and free pods that no target takes leave all
the same.
"""

from itertools import compress

import numpy as np

from streams.inventory.arrays import BoolArray, FloatArray, IntArray
from streams.inventory.node import Held
from streams.inventory.priority import priority_class
from streams.rebalance.candidates import Candidate, Phase
from streams.rebalance.costs import NO_EVICTION_ANNOTATION
from streams.rebalance.fit import Fit, Group
from streams.rebalance.hot_pods import HotPods
from streams.rebalance.inputs import named, over_text, reason_text
from streams.rebalance.looks import LATER
from streams.rebalance.node_arrays import TOTAL_MAX, UNMEASURED
from streams.rebalance.order import pods_in_order, weights_of
from streams.rebalance.outcome import (
    BOTH_LOW,
    LOW,
    PROD_LOW,
    HotNode,
    RoundOutcome,
    Unmovable,
    Verdict,
)
from streams.rebalance.pool_turn import PoolTurn
from streams.rebalance.pools import UNLIMITED
from streams.rebalance.targets import Targets

#: Classes of pods that may leave without a target, where a window says so.
_WITHOUT_TARGET = ("free", "batch")
#: Most unmovable pods that one round reports.
UNMOVABLE_MAX = 1_000


class Planning:
    """The turns of one pool's hot nodes."""

    def __init__(self, pool: PoolTurn, targets: IntArray, outcome: RoundOutcome) -> None:
        """Prepare.

        Args:
            pool: the pool's part of the round.
            targets: positions of the nodes that may take pods.
            outcome: of the whole round.
        """
        self.pool, self.given, self.outcome = pool, pool.given, outcome
        self.nodes = nodes = pool.nodes
        self.universe = pool.standing.universe
        self.pod_filter = pool.standing.pod_filter
        self.weights: FloatArray = weights_of(nodes, pool.pool.weights, self.universe)
        self.names = [pool.names[position] for position in targets.tolist()]
        used = nodes.usage[:, targets] + nodes.pending[:, targets]
        high, prod_room = pool.limits.high[:, targets], None
        if pool.limits.prod_high is not None:
            prod_used = nodes.prod_usage[:, targets] + nodes.pending[:, targets]
            prod_room = pool.limits.prod_high[:, targets] - prod_used
        watched = [name in pool.thresholds.high for name in nodes.resources]
        self.targets = Targets(high - used, prod_room, nodes.capacity[:, targets], watched)
        self._most_room: dict[tuple[bytes, bool], dict[str, int]] = {}
        codes = pool.codes[targets]
        in_phase: dict[Phase, BoolArray] = {
            "node": np.isin(codes, (LOW, BOTH_LOW)),
            "prod": np.isin(codes, (PROD_LOW, BOTH_LOW)),
        }
        self.targets_in = {phase: int(mask.sum()) for phase, mask in in_phase.items()}
        """How many targets take pods in each phase."""
        self.fit = Fit(
            self.given.columns,
            nodes.rows[targets],
            in_phase,
            node_fit=pool.standing.args.node_fit,
        )

    def run(self, phase: Phase) -> None:
        """One phase: all nodes that act, in their order."""
        hot = [each for each in self.pool.outcome.hot if each.acting and each.phase == phase]
        if not hot:
            return
        acting, columns, looks = self.pool.acting[phase], self.given.columns, self.given.looks
        rows = self.nodes.rows[acting].tolist()
        places = looks.order([len(columns.nodes[row].pods.held) for row in rows])
        for place in set(range(len(hot))).difference(places):
            hot[place].ended = LATER
        hot = [hot[place] for place in places]
        chosen = [acting[place] for place in places]
        figures = [columns.nodes[rows[place]] for place in places]
        hot_pods = HotPods(figures, self.nodes.which, self.universe, self.given.rules.leaving)
        used = self.pool.readings.used(phase)[:, chosen].copy()
        for index, place in hot_pods.leaving.items():
            if phase == "node" or hot_pods.prod[index]:
                less = used[:, place] - hot_pods.amounts[index]
                used[:, place] = np.maximum(less, -TOTAL_MAX)
        limits = self.pool.readings.high(phase)[:, chosen]
        excess = (used - limits).astype(np.float64)
        measured = (hot_pods.used != UNMEASURED).any(axis=1).tolist()
        order = pods_in_order(figures, hot_pods.used, excess, self.weights, measured).tolist()
        end = 0
        for place, (each, node) in enumerate(zip(hot, figures, strict=True)):
            begin, end = end, end + len(node.pods.held)
            if self.outcome.ended or looks.over:
                each.ended = self.outcome.ended or looks.over
                continue
            turn = Turn(self, each, hot_pods, chosen[place], limits[:, place].tolist())
            turn.run(used[:, place].tolist(), self._in_turn(order[begin:end], hot_pods))

    def _in_turn(self, order: list[int], hot_pods: HotPods) -> list[int]:
        """A node's pods, those that prefer no eviction last where the policy heeds it."""
        if self.given.reluctant_last:
            order.sort(
                key=lambda index: NO_EVICTION_ANNOTATION in hot_pods.held[index].pod.annotations
            )
        return order

    def target(self, held: Held, amounts: list[int], group: Group, *, prod: bool) -> int | None:
        """The best target for a pod among those that its owner may go to.

        Where it may go to none that has room, the best of all: the gate says what keeps the pod
        from it.
        """
        best = self.targets.find(amounts, group, prod=prod)
        if best is None:
            return None
        avoided = self.given.rules.avoided(held)
        if self.names[best] not in avoided:
            return best
        places = [place for place, name in enumerate(self.names) if name in avoided]
        other = self.targets.find(amounts, group, prod=prod, avoided=places)
        return best if other is None else other

    def room(self, group: Group, *, prod: bool) -> dict[str, int]:
        """The most room that any one target of a group had for a pod before the first move, where
        it is limited.
        """
        key = group.places, prod
        room = self._most_room.get(key)
        if room is None:
            names = self.nodes.resources
            most = named(names, self.targets.most_room(group, prod=prod) or [0] * len(names))
            room = {name: most[name] for name in names if most[name] < UNLIMITED - 2 * TOTAL_MAX}
            self._most_room[key] = room
        return room


class Turn:
    """One hot node's turn."""

    def __init__(
        self, planning: Planning, hot: HotNode, hot_pods: HotPods, position: int, limits: list[int]
    ) -> None:
        self.planning, self.hot, self.hot_pods = planning, hot, hot_pods
        self._limits = limits
        self._pool = pool = planning.pool
        self._capacity: list[int] = pool.nodes.capacity[:, position].tolist()
        self._percents = pool.readings.percents(limits, self._capacity, hot.phase)

    def run(self, used: list[int], order: list[int]) -> None:
        """Look at pods until the node is below its limits, or none is left.

        Args:
            used: what is used without the pods that leave already, per resource; it shrinks.
            order: positions of the node's pods in the hot_pods.
        """
        hot, hot_pods, limits, looks = (
            self.hot,
            self.hot_pods,
            self._limits,
            self.planning.given.looks,
        )
        fit, only_prod = self.planning.fit, hot.phase == "prod"
        for index in order:
            over = list(map(int.__gt__, used, limits))
            if True not in over:
                hot.ended = "" if hot.moved else "pods that leave already bring it below"
                return
            if not hot_pods.bound[index] or (only_prod and not hot_pods.prod[index]):
                continue
            if looks.over:
                hot.ended = looks.over
                return
            looks.take()
            held = hot_pods.held[index]
            group = fit.group(held, hot.phase)
            stopped = self._stopped(index, over, group)
            if stopped is not None:
                hot.note(Verdict(held.pod, *stopped))
            elif self._moves(index, used, group):
                used = list(map(int.__sub__, used, hot_pods.amounts[index]))
            elif hot.ended:
                return
        if any(map(int.__gt__, used, limits)):
            hot.ended = "no further pod may leave"

    def _stopped(self, index: int, over: list[bool], group: Group) -> tuple[str, str] | None:
        """Gate and message of what keeps a pod, before a target is looked for."""
        planning = self.planning
        given, held = planning.given, self.hot_pods.held[index]
        if index in self.hot_pods.leaving:
            return "leaving", "it is on its way already"
        if not planning.pod_filter.open:
            stopped = planning.pod_filter(held)
            if stopped is not None:
                return stopped
        protected = given.rules.protected(held)
        if protected is not None:
            return "filter", protected
        if not self.hot_pods.measured[index]:
            return "unmeasured", "no usage of it is known"
        amounts = self.hot_pods.amounts[index]
        if not any(compress(amounts, over)):
            return "uninvolved", "it uses nothing of what is over"
        if self._class_that_leaves(held) is not None:
            return None
        usage = named(planning.nodes.resources, amounts)
        room = planning.room(group, prod=self.hot_pods.prod[index])
        why = given.rules.unmovable(held.pod.uid, usage, room)
        return None if why is None else ("unmovable", why)

    def _class_that_leaves(self, held: Held) -> str | None:
        """The class of a pod that may leave without a target now; None: it needs one."""
        if not self._pool.thresholds.without_target:
            return None
        of_class = priority_class(held.pod, held.demand)
        return of_class if of_class in _WITHOUT_TARGET else None

    def _moves(self, index: int, used: list[int], group: Group) -> bool:
        """Plan a pod onto a target, or without one where it may, and ask the gate.

        False if it stays.
        """
        planning, hot = self.planning, self.hot
        held, prod = self.hot_pods.held[index], self.hot_pods.prod[index]
        amounts = self.hot_pods.amounts[index]
        target = planning.target(held, amounts, group, prod=prod)
        of_class = self._class_that_leaves(held) if target is None else None
        if target is None and of_class is None:
            self._stays(held, amounts, group, prod=prod)
            return False
        over = over_text(
            hot.phase, planning.nodes.resources, used, self._limits, self._capacity, self._percents
        )
        candidate = Candidate(
            held=held,
            node=hot.name,
            pool=self._pool.pool.name,
            phase=hot.phase,
            reason=reason_text(over) + ("" if of_class is None else _without_target(of_class)),
            target=None if target is None else planning.names[target],
            usage=self.hot_pods.usage(index),
            # Room that is in no target cannot be reserved.
            mode=None if of_class is None else "EvictDirectly",
            source_hot=True,
        )
        refused = planning.given.rules.gate(candidate)
        if refused is not None:
            hot.note(Verdict(held.pod, "gate", refused.text, candidate.target, candidate.usage))
            if refused.scope != "pod":
                hot.ended = refused.text
            if refused.scope == "round":
                planning.outcome.ended = refused.text
            return False
        if target is not None:
            planning.targets.take(target, amounts, group, prod=prod)
        hot.note(Verdict(held.pod, "", "", candidate.target, candidate.usage))
        self._pool.outcome.moves.append(candidate)
        return True

    def _stays(self, held: Held, amounts: list[int], group: Group, *, prod: bool) -> None:
        """No target takes the pod: none ever could, or earlier moves have taken the room."""
        planning, hot = self.planning, self.hot
        names = planning.nodes.resources
        usage = named(names, amounts)
        allowed, targets = int(group.mask.sum()), planning.targets_in[hot.phase]
        if not len(planning.targets):
            message = "no node may take it, and only batch and free pods leave without a target"
            hot.note(Verdict(held.pod, "fit", message, usage=usage))
            return
        if not targets:
            whose = "prod pods" if hot.phase == "prod" else "the whole node"
            message = f"no node is below all low thresholds of {whose}"
            hot.note(Verdict(held.pod, "fit", message, usage=usage))
            return
        if not allowed:
            gate, message = "fit", f"none of {targets} targets may run it"
        elif planning.targets.ever(amounts, group, prod=prod):
            gate, message = "room", "earlier moves of the round have taken the room on every target"
        else:
            gate, message = (
                "unmovable",
                (
                    f"none of {allowed} targets that may run it could take it without passing a threshold or "
                    f"its requests' room: it uses {_text(usage)}"
                ),
            )
        if gate != "room" and len(planning.outcome.unmovable) < UNMOVABLE_MAX:
            room = planning.room(group, prod=prod)
            planning.outcome.unmovable.append(
                Unmovable(held.pod, hot.name, self._pool.pool.name, message, usage, room)
            )
        hot.note(Verdict(held.pod, gate, message, usage=usage))


def _without_target(of_class: str) -> str:
    """What the reason of an eviction says besides."""
    return f"; no target takes this {of_class} pod, and evictWithoutTarget holds in the open window"


def _text(amounts: dict[str, int]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())
