"""Which pods leave a pool's hot nodes, as Koordinator decides it: node phase, then prod phase.

Steps are L6 to L10 of docs/upstream.md.
"""

from collections.abc import Sequence

import numpy as np

from streams.inventory.arrays import BoolArray, IntArray
from streams.rebalance.candidates import Candidate, Phase
from streams.rebalance.inputs import RoundInput, named, reason_text
from streams.rebalance.koordinator.fit import NOT_METERED, Fit
from streams.rebalance.koordinator.pool_usage import PoolUsage
from streams.rebalance.koordinator.standing import Standing
from streams.rebalance.looks import LATER
from streams.rebalance.node_arrays import UNMEASURED, NodeFigures, amounts_of
from streams.rebalance.order import by_usage, pods_in_order, weights_of
from streams.rebalance.outcome import HotNode, PoolOutcome, Verdict
from streams.rebalance.pools import Pool, PoolNodes


class Evictions:
    """The evictions of one pool in a round; what they change is noted in its outcome."""

    def __init__(
        self,
        standing: Standing,
        pool: Pool,
        given: RoundInput,
        usage: PoolUsage,
        outcome: PoolOutcome,
    ) -> None:
        self.standing, self.pool, self.given = standing, pool, given
        self.usage, self.nodes, self.outcome = usage, usage.nodes, outcome
        self.names = [given.columns.nodes[row].name for row in self.nodes.rows.tolist()]

    def run(
        self,
        acting: list[int],
        prod_acting: list[int],
        low: list[int],
        prod_low: list[int],
        both: list[int],
    ) -> None:
        """Node phase, then prod phase, each with its own room (L6, B4.3); nodes in the order of
        their turns.

        What all bothLow nodes together add to the room of the prod phase is one minimum of sums per
        resource. Without such a node the remaining room of the node phase still counts if it is
        below 0 (B5.5).
        """
        of_both = self._room(both, "node")
        room = [a + b for a, b in zip(self._room(low, "node"), of_both, strict=True)]
        self._phase("node", acting, [*low, *both], room)
        shared = zip(self._room(both, "prod"), of_both, room, strict=True)
        prod_room = [
            own + min(share)
            for own, share in zip(self._room(prod_low, "prod"), shared, strict=True)
        ]
        self._phase("prod", prod_acting, [*prod_low, *both], prod_room)

    def _room(self, targets: Sequence[int], phase: Phase) -> list[int]:
        """High limit less usage per resource, summed over the targets as they were before the
        round.
        """
        used = self.usage.before(phase)
        room = self.usage.high(phase)[:, targets] - used[:, targets]
        return [sum(each) for each in room.tolist()]

    def order(self, chosen: Sequence[int], phase: Phase) -> list[int]:
        """Positions in the order of their turns in a phase, those that are used most first."""
        usage = self.usage.before(phase)
        found: list[int] = self._node_order(
            usage, np.array(sorted(chosen), dtype=np.int64)
        ).tolist()
        return found

    def _phase(
        self, phase: Phase, positions: list[int], targets: list[int], room: list[int]
    ) -> None:
        if not positions:
            return
        hot = {(each.phase, each.name): each for each in self.outcome.hot}
        fit = None
        if self.standing.args.node_fit:
            columns, rows = self.given.columns, self.nodes.rows.tolist()
            fit = Fit(
                [columns.nodes[rows[position]] for position in targets],
                [self.usage.now(phase)[position] for position in targets],
                [self.usage.high(phase)[:, position].tolist() for position in targets],
            )
        nodes, rows, looks = self.given.columns.nodes, self.nodes.rows.tolist(), self.given.looks
        sizes = [len(nodes[rows[position]].pods.held) for position in positions]
        places = looks.order(sizes)
        for place in set(range(len(sizes))).difference(places):
            hot[phase, self.names[positions[place]]].ended = LATER
        for place in places:
            position = positions[place]
            each = hot[phase, self.names[position]]
            if looks.over:
                each.ended = looks.over
                continue
            looks.take(sizes[place])
            self._node(position, phase, fit, room, each)

    def _node_order(self, usage: IntArray, chosen: IntArray) -> IntArray:
        """By usage; the number of pods weighs in where the weights name it (B5.8)."""
        weights = self.pool.weights
        names = {*self.nodes.resources, "pods"}
        divisor = sum(weights.get(name, 0) for name in sorted(names))
        if "pods" in self.nodes.resources or not weights.get("pods"):
            return by_usage(self.nodes, usage, chosen, weights, divisor)
        wide = PoolNodes(
            self.given.columns,
            self.nodes.rows,
            [*self.nodes.resources, "pods"],
            self.standing.universe,
        )
        wide_usage = wide.usage if usage is self.nodes.usage else wide.prod_usage
        return by_usage(wide, wide_usage, chosen, weights, divisor)

    def _node(
        self, position: int, phase: Phase, fit: Fit | None, room: list[int], hot: HotNode
    ) -> None:
        """Evict from one node until it is no longer over, or there is no room (L7 to L10)."""
        figures = self.given.columns.nodes[self.nodes.rows.tolist()[position]]
        removable = self._removable(figures, phase, fit, hot)
        if not removable.any():
            hot.ended = "no pod may leave"
            return
        limits = self.usage.high(phase)[:, position]
        used = np.array(self.usage.now(phase)[position], dtype=np.int64)
        excess = (used - limits).astype(np.float64).reshape(-1, 1)
        weights = weights_of(self.nodes, self.pool.weights, self.standing.universe)
        used_by_pods = figures.used[:, self.nodes.which]
        order = pods_in_order([figures], used_by_pods, excess, weights, figures.metered)
        for index in order.tolist():
            if not removable[index]:
                continue
            over = self.usage.over(position, phase)
            if not any(over):
                self.standing.detectors.reset(self.names[position], phase, self.given.now_ms)
                return
            if min(room) <= 0:
                hot.ended = "the targets have no room left"
                return
            if self._leaves(position, phase, figures, index, hot):
                self._subtract(position, phase, figures, index, room)
        if any(self.usage.over(position, phase)):
            hot.ended = "no further pod may leave"

    def _removable(
        self, figures: NodeFigures, phase: Phase, fit: Fit | None, hot: HotNode
    ) -> BoolArray:
        """Pods that may leave.

        NodeFit is tested for all of them and takes room for each that fits.
        """
        removable = np.zeros(len(figures.pods.held), dtype=np.bool_)
        for index, held in enumerate(figures.pods.held):
            if phase == "prod" and not figures.pods.prod[index]:
                continue
            stopped = self._protected(figures, index)
            if stopped is None and fit is not None:
                used = figures.used[index, self.nodes.which].tolist()
                stopped = fit.stops(held, used) if figures.metered[index] else NOT_METERED
            if stopped is None:
                removable[index] = True
            else:
                hot.note(Verdict(held.pod, *stopped))
        return removable

    def _protected(self, figures: NodeFigures, index: int) -> tuple[str, str] | None:
        held = figures.pods.held[index]
        protected = self.given.rules.protected(held)
        return self.standing.pod_filter(held) if protected is None else ("filter", protected)

    def _leaves(
        self, position: int, phase: Phase, figures: NodeFigures, index: int, hot: HotNode
    ) -> bool:
        held = figures.pods.held[index]
        usage = {
            name: amount
            for name, amount in named(
                self.standing.universe.resources, figures.used[index].tolist()
            ).items()
            if amount != UNMEASURED
        }
        candidate = Candidate(
            held=held,
            node=figures.name,
            pool=self.pool.name,
            phase=phase,
            reason=reason_text(self.usage.over_text(position, phase)),
            target=None,
            usage={**usage, "pods": 1},
            source_hot=True,
        )
        refused = self.given.rules.gate(candidate)
        if refused is not None:
            hot.note(Verdict(held.pod, "gate", refused.text, usage=candidate.usage))
            return False
        self.outcome.moves.append(candidate)
        hot.note(Verdict(held.pod, "", usage=candidate.usage))
        return True

    def _subtract(
        self, position: int, phase: Phase, figures: NodeFigures, index: int, room: list[int]
    ) -> None:
        """A pod that is not measured changes nothing (B4.3)."""
        if not figures.metered[index]:
            return
        amounts = amounts_of(figures.used[index], self.standing.universe)[self.nodes.which].tolist()
        for place, amount in enumerate(amounts):
            room[place] -= amount
        self.usage.subtract(position, phase, amounts)
