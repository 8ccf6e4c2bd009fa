"""One pool in a round as Koordinator makes it: classes, marks, order, evictions (`compat:
koordinator`).

Steps are L1 to L11 of docs/upstream.md; what surprises stands in
`streams.rebalance.koordinator.rules`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from schemas.policy import LowNodeLoadArgs
from streams.inventory.arrays import BoolArray, IntArray
from streams.rebalance.inputs import (
    PodFilter,
    RoundInput,
    named,
    over_text,
    positions,
    reason_text,
)
from streams.rebalance.koordinator.detectors import Detectors
from streams.rebalance.koordinator.fit import NOT_METERED, Fit
from streams.rebalance.koordinator.pools import koordinator_in_force, koordinator_limits
from streams.rebalance.looks import LATER
from streams.rebalance.node_arrays import UNMEASURED, NodeFigures, Universe, amounts_of
from streams.rebalance.order import by_usage, pods_in_order, weights_of
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    PROD_HIGH,
    PROD_LOW,
    SKIPPED,
    Candidate,
    HotNode,
    Phase,
    PoolOutcome,
    Verdict,
)
from streams.rebalance.pools import Pool, PoolNodes, classify


@dataclass(frozen=True, slots=True)
class Standing:
    """What all pools have in common, in all rounds under one policy."""

    args: LowNodeLoadArgs
    universe: Universe
    pod_filter: PodFilter
    detectors: Detectors


class PoolTurn:
    """One pool's part of a round."""

    def __init__(
        self,
        standing: Standing,
        pool: Pool,
        given: RoundInput,
        members: BoolArray,
        fresh: BoolArray,
    ) -> None:
        self.standing, self.pool, self.given = standing, pool, given
        self.universe = standing.universe
        columns = given.columns
        rows = np.flatnonzero(fresh)
        # A resource that is in `low` alone is over as soon as it is used at all (B5.3).
        self.nodes = nodes = PoolNodes(columns, rows, sorted(pool.thresholds.low), self.universe)
        self.limits = koordinator_limits(pool.thresholds, nodes)
        self.codes: IntArray = classify(nodes, self.limits)
        all_rows = np.flatnonzero(members)
        codes = np.full(all_rows.size, SKIPPED, dtype=np.int8)
        codes[np.searchsorted(all_rows, rows)] = self.codes
        self.outcome = PoolOutcome(
            name=pool.name,
            thresholds=koordinator_in_force(pool.thresholds, nodes),
            resources=nodes.resources,
            names=[columns.nodes[row].name for row in all_rows.tolist()],
            codes=codes,
        )
        self.names = [columns.nodes[row].name for row in rows.tolist()]
        self.usage: list[list[int]] = nodes.usage.T.tolist()
        """Per node, as it changes by moves and by what nodeFit reserves."""
        self.prod_usage: list[list[int]] = nodes.prod_usage.T.tolist()

    def run(self) -> bool:
        """Mark, order and evict; False if the round ended early (L3)."""
        high = list(positions(self.codes == HIGH))
        prod_high = list(positions(self.codes == PROD_HIGH))
        if not self.outcome.names:
            return self._ends("the pool has no node")
        if not high and not prod_high:
            return self._ends("no node is above a high threshold")
        acting = self._acting(high, "node")
        prod_acting = self._acting(prod_high, "prod")
        if not acting and not prod_acting:
            return self._ends("no node has been above a high threshold for long enough")
        low, prod_low, both = (
            list(positions(self.codes == code)) for code in (LOW, PROD_LOW, BOTH_LOW)
        )
        self.outcome.targets = targets = len(low) + len(prod_low) + len(both)
        if not targets:
            return self._ends("no node is below all low thresholds")
        self._reset([*low, *both], "node")
        self._reset(prod_low, "prod")
        if targets <= self.standing.args.number_of_nodes:
            return self._ends(
                f"{targets} nodes are below the low thresholds; more than numberOfNodes "
                f"{self.standing.args.number_of_nodes} are needed"
            )
        self._evict(acting, prod_acting, low, prod_low, both)
        now_ms = self.given.now_ms
        for position in acting:
            self.standing.detectors.mark_normal(self.names[position], "node", now_ms)
        for position in prod_acting:
            self.standing.detectors.mark_normal(self.names[position], "prod", now_ms)
        return True

    def _ends(self, why: str) -> bool:
        self.outcome.ended = why
        return False

    # --- detectors ------------------------------------------------------------------------------

    def _acting(self, chosen: Sequence[int], phase: Phase) -> list[int]:
        """The nodes that have been over for long enough; all if one round is (B3.1)."""
        condition = self.pool.condition
        acting = []
        for position in chosen:
            name = self.names[position]
            abnormal = condition.consecutive_abnormalities == 1
            if not abnormal:
                abnormal = self.standing.detectors.mark_abnormal(
                    name, phase, self.pool.name, condition, self.given.now_ms
                )
            if abnormal:
                acting.append(position)
            self._note(position, phase, acting=abnormal)
        return acting

    def _reset(self, chosen: Sequence[int], phase: Phase) -> None:
        for position in chosen:
            self.standing.detectors.reset(self.names[position], phase, self.given.now_ms)

    def _note(self, position: int, phase: Phase, *, acting: bool) -> None:
        name = self.names[position]
        limits = self._phase_limits(phase)[:, position].tolist()
        rounds = self.standing.detectors.rounds(name, phase)
        needed = self.pool.condition.consecutive_abnormalities
        self.outcome.hot.append(
            HotNode(
                name=name,
                phase=phase,
                rounds=rounds,
                acting=acting,
                usage=named(self.nodes.resources, self._used(phase)[position]),
                limits=named(self.nodes.resources, limits),
                capacity=named(self.nodes.resources, self.nodes.capacity[:, position].tolist()),
                over=self._over_text(position, phase),
                ended="" if acting else f"over in {rounds} rounds, more than {needed} are needed",
            )
        )

    # --- evictions ------------------------------------------------------------------------------

    def _used(self, phase: Phase) -> list[list[int]]:
        return self.usage if phase == "node" else self.prod_usage

    def _phase_limits(self, phase: Phase) -> IntArray:
        limits = self.limits.high if phase == "node" else self.limits.prod_high
        assert limits is not None  # noqa: S101 - Koordinator's prod thresholds are filled in
        return limits

    def _over(self, position: int, phase: Phase) -> list[bool]:
        limits = self._phase_limits(phase)[:, position].tolist()
        used = self._used(phase)[position]
        return [amount > limit for amount, limit in zip(used, limits, strict=True)]

    def _over_text(self, position: int, phase: Phase) -> str:
        """Only of resources that the high thresholds name, also for prod pods (B5.1)."""
        thresholds = self.pool.thresholds
        named_high = [name in thresholds.high for name in self.nodes.resources]
        limits = self._phase_limits(phase)[:, position].tolist()
        percents = thresholds.high if phase == "node" else thresholds.prod_high
        return over_text(
            phase,
            list(compress(self.nodes.resources, named_high)),
            list(compress(self._used(phase)[position], named_high)),
            list(compress(limits, named_high)),
            list(compress(self.nodes.capacity[:, position].tolist(), named_high)),
            [float(percents.get(name, 0)) for name in compress(self.nodes.resources, named_high)],
        )

    def _evict(
        self,
        acting: list[int],
        prod_acting: list[int],
        low: list[int],
        prod_low: list[int],
        both: list[int],
    ) -> None:
        """Node phase, then prod phase, each with its own room (L6, B4.3).

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
        used = self.nodes.usage if phase == "node" else self.nodes.prod_usage
        room = self._phase_limits(phase)[:, targets] - used[:, targets]
        return [sum(each) for each in room.tolist()]

    def _phase(self, phase: Phase, acting: list[int], targets: list[int], room: list[int]) -> None:
        if not acting:
            return
        usage = self.nodes.usage if phase == "node" else self.nodes.prod_usage
        order = self._node_order(usage, np.array(acting, dtype=np.int64))
        hot = {(each.phase, each.name): each for each in self.outcome.hot}
        fit = None
        if self.standing.args.node_fit:
            columns, rows = self.given.columns, self.nodes.rows.tolist()
            fit = Fit(
                [columns.nodes[rows[position]] for position in targets],
                [self._used(phase)[position] for position in targets],
                [self._phase_limits(phase)[:, position].tolist() for position in targets],
            )
        nodes, rows, looks = self.given.columns.nodes, self.nodes.rows.tolist(), self.given.looks
        positions = order.tolist()
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
            self.given.columns, self.nodes.rows, [*self.nodes.resources, "pods"], self.universe
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
        limits = self._phase_limits(phase)[:, position]
        used = np.array(self._used(phase)[position], dtype=np.int64)
        excess = (used - limits).astype(np.float64).reshape(-1, 1)
        weights = weights_of(self.nodes, self.pool.weights, self.universe)
        used_by_pods = figures.used[:, self.nodes.which]
        order = pods_in_order([figures], used_by_pods, excess, weights, figures.metered)
        for index in order.tolist():
            if not removable[index]:
                continue
            over = self._over(position, phase)
            if not any(over):
                self._reset([position], phase)
                return
            if min(room) <= 0:
                hot.ended = "the targets have no room left"
                return
            if self._leaves(position, phase, figures, index, hot):
                self._subtract(position, phase, figures, index, room)
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
            for name, amount in named(self.universe.resources, figures.used[index].tolist()).items()
            if amount != UNMEASURED
        }
        candidate = Candidate(
            held=held,
            node=figures.name,
            pool=self.pool.name,
            phase=phase,
            reason=reason_text(self._over_text(position, phase)),
            target=None,
            usage={**usage, "pods": 1},
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
        amounts = amounts_of(figures.used[index], self.universe)[self.nodes.which].tolist()
        for place, amount in enumerate(amounts):
            room[place] -= amount
            self.usage[position][place] -= amount
            if phase == "prod":
                self.prod_usage[position][place] -= amount
