"""Moves by risk: the pod whose move lowers the sum of the nodes' costs most leaves first.

A node's cost is the probability that it is hot plus its expected excess (`nodes`). A move saves the decrease
of cost at its source, and costs the increase at its target:

    gain = decrease at the source - increase at the target     at least `gain` of the round

Nodes with a fresh metric take part. Pods leave only nodes that cost at least `gain`, because no move saves
more than the cost of its source. A planned move changes costs, usage and free room for later moves of the
round, and so do moves by thresholds, which come first. No node loses and gets pods in the same round.

    decrease of every pod ──▶ heap ──▶ first pod: increase on all targets ──▶ heap ──▶ gates

The decrease is an upper bound of the gain, so pods are compared with targets in that order, and most pods are
never compared. A round is bounded: at most `SOURCES_MAX` nodes are searched for pods, and at most as many
pods are compared as `COSTS_MAX` costs allow. Half of each limit is for the first by cost or decrease, and
half for the others in turn (`streams.stage.budget`). Equal gains are ordered by node name and pod uid.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from streams.inventory.node import Node
from streams.pods.held import is_overdue
from streams.rebalance.inputs import PodFilter, RoundInput, describe_fresh_metric, find_measured
from streams.rebalance.outcome import (
    HIGH,
    NORMAL,
    SKIPPED,
    Costs,
    RoundOutcome,
)
from streams.rebalance.risk.nodes import RiskNodes
from streams.rebalance.risk.pods import RiskPod, RiskPods, expect_life_minutes
from streams.rebalance.risk.record import RiskRecord, read_nodes
from streams.rebalance.targets import Fit
from streams.risk.overutilization import TIE
from streams.stage.arrays import BoolArray
from streams.stage.budget import Budget, rotate

#: Most nodes that one round searches for pods: with 110 pods on each, this takes 50 ms.
SOURCES_MAX = 64
#: Most costs that one round computes to compare targets, which takes 100 ms.
COSTS_MAX = 1_000_000
#: Fewest and most pods that one round compares with all targets.
COMPARED_MIN, COMPARED_MAX = 50, 500
_MINUTE_MS = 60_000
#: Reason if not all pods are compared.
LATER = "the round has compared as many pods as it may; a later round compares others"
#: Reason if no pod leaves a node.
GETS_PODS = "a pod moves to this node in this round"


class RiskMoves:
    """Plans the moves of rounds under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.args, self.score = policy.risk_moves, policy.overutilization_risk
        self.rebalance = policy.rebalance
        self.pod_filter = PodFilter(policy.rebalance)
        self.resources = tuple(resource.name for resource in self.score.resources)

    def round(self, inputs: RoundInput, outcome: RoundOutcome) -> None:
        """Plan moves after those that the round has already planned."""
        if outcome.ended:
            return
        risk_round = _Round(self, inputs, outcome)
        outcome.pools.append(risk_round.record.outcome)
        risk_round.run()


class _Round:
    """One round by risk."""

    def __init__(self, moves: RiskMoves, inputs: RoundInput, outcome: RoundOutcome) -> None:
        self.args, self.inputs, self.outcome = moves.args, inputs, outcome
        self.pod_filter = moves.pod_filter
        self.resources = moves.resources
        columns = inputs.columns
        fresh = columns.included & find_measured(
            columns, moves.rebalance, inputs.now_ms, self.resources
        )
        self.rows = np.flatnonzero(fresh)
        self.readings = read_nodes(columns, self.rows, moves.score.resources)
        self.names = self.readings.names
        self.position_of = {name: position for position, name in enumerate(self.names)}
        self.nodes: list[Node | None] = [columns.nodes[row].node for row in self.rows.tolist()]
        self.risk = RiskNodes(moves.score, self.nodes)
        pods = [columns.nodes[row].pods.held for row in self.rows.tolist()]
        self.life_minutes = expect_life_minutes(pods, inputs.now_ms)
        self.gain = self.args.min_saved_minutes / self.life_minutes
        """Least gain of a move."""
        self.leaving = {*inputs.rules.leaving, *(move.held.pod.uid for move in outcome.moves)}
        cooling = [
            self.position_of[name]
            for name in inputs.exclusions.moves.list_cooling(inputs.now_ms)
            if name in self.position_of
        ]
        self.open: BoolArray = columns.schedulable[self.rows].copy()
        """Nodes that may get pods, shape (nodes,)."""
        self.open[cooling] = False
        everywhere = np.ones(self.rows.size, dtype=np.bool_)
        self.fit = Fit(columns, self.rows, {"node": everywhere})
        self.targets: set[int] = set()
        """Positions of nodes that planned moves bring pods to."""
        self._include_planned()
        self.record = RiskRecord(
            self.readings,
            moves.score.resources,
            columns.names[columns.included].tolist(),
            self._codes(),
            targets=int(self.open.sum()),
            memory=columns.count_memory_kinds(self.rows, self.resources),
        )
        self.pods = RiskPods(self.risk, self.gain)
        compared = COSTS_MAX // max(1, self.rows.size * len(self.resources))
        self.left = min(max(compared, COMPARED_MIN), COMPARED_MAX)
        """Number of pods that may still be compared with all targets."""
        self.later = ""
        """Why some pods are not compared; empty if all are."""
        self.begun = 0

    def _codes(self) -> NDArray[np.int8]:
        included = self.inputs.columns.included
        codes = np.full(int(included.sum()), SKIPPED, dtype=np.int8)
        at = np.searchsorted(np.flatnonzero(included), self.rows)
        codes[at] = np.where(self.risk.costs >= self.gain, HIGH, NORMAL)
        return codes

    def _include_planned(self) -> None:
        """Include the moves that the round has planned before."""
        for move in self.outcome.moves:
            source_position = self.position_of.get(move.node)
            if source_position is not None:
                self.open[source_position] = False
            source_row = self.inputs.columns.row(move.node)
            source = None if source_row is None else self.inputs.columns.nodes[source_row].node
            target = self.position_of.get(move.target or "")
            if target is None:
                continue
            self.targets.add(target)
            self.fit.group(move.held, "node").take(target)
            if source is not None and source.statistics is not None:
                self.risk.add(target, source.statistics.compute_figures(move.held))

    # --- the round --------------------------------------------------------------------------------

    def run(self) -> None:
        at_risk = np.flatnonzero(self.risk.costs >= self.gain)
        if not self.rows.size:
            self.record.outcome.ended = f"no node has {describe_fresh_metric(self.resources)}"
        elif not at_risk.size:
            self.record.outcome.ended = (
                f"no node has a cost of {self.gain:.3f} or more: {self._required_gain}"
            )
        for position in self._select_nodes(at_risk.tolist()):
            self._rank_pods(position)
        self._limit_comparisons()
        while not self._find_end() and (pod := self.pods.pop_first()) is not None:
            if pod.costs is not None:
                self._move(pod, pod.costs)
            elif self.left > 0:
                self._compare(pod)
            else:
                self.later = LATER
        self._explain_end()

    @property
    def _required_gain(self) -> str:
        return (
            f"a move must save {self.args.min_saved_minutes:g} hot minutes, and pods are expected to "
            f"run for {self.life_minutes} more minutes"
        )

    def _select_nodes(self, at_risk: list[int]) -> list[int]:
        """Return the nodes to search for pods, in descending order of cost."""
        costs = self.risk.costs
        at_risk.sort(key=lambda position: (-float(costs[position]), position))
        chosen = Budget(SOURCES_MAX, self.inputs.now_ms).choose([1] * len(at_risk))
        return [at_risk[index] for index in sorted(chosen)]

    def _find_end(self) -> str:
        """Return why no other pod may leave; empty if pods may leave."""
        if self.outcome.ended:
            return self.outcome.ended
        if self.begun >= self.args.max_moves_per_round:
            return f"{self.begun} pods leave by risk in this round; maxMovesPerRound is {self.args.max_moves_per_round}"
        return ""

    def _rank_pods(self, position: int) -> None:
        """Rank the pods of a node; pods that are already leaving count as gone."""
        node = self.nodes[position]
        if node is None or node.statistics is None:
            return
        before = float(self.risk.costs[position])
        figures = self.inputs.columns.nodes[int(self.rows[position])]
        staying = []
        for index, held in enumerate(figures.pods.held):
            if not figures.pods.bound[index]:
                continue
            pod = RiskPod(held, position, node.statistics.compute_figures(held))
            leaves = held.pod.deleting_at_ms is not None or held.pod.uid in self.leaving
            if leaves and not is_overdue(held.pod, self.inputs.now_ms):
                self.risk.remove(position, pod.figures)
            else:
                staying.append(pod)
        hot = self.record.add_hot_node(position, before)
        if position in self.targets:
            hot.ended = GETS_PODS
            return
        self.pods.add(position, staying)
        if float(self.risk.costs[position]) < self.gain:
            hot.ended = f"its cost is {float(self.risk.costs[position]):.3f} without the pods that are already leaving"
            return
        self.pods.rank(position)

    def _limit_comparisons(self) -> None:
        """Drop pods if more wait than may be compared.

        Half of the kept pods are the first by decrease. Every round may compare these pods without finding a
        target, so the other half is another one in each round.
        """
        waiting = self.pods.list_waiting()
        if len(waiting) <= self.left:
            return
        self.later = LATER
        by_saved = iter(waiting)
        chosen = self._count_movable(by_saved, self.left // 2)
        others = list(by_saved)
        in_turn = iter(rotate(others, self.inputs.now_ms))
        self._count_movable(in_turn, self.left - chosen)
        for pod in in_turn:
            self.pods.drop(pod)

    def _count_movable(self, pods: Iterator[RiskPod], most: int) -> int:
        """Check pods until `most` of them may leave; return how many may."""
        chosen = 0
        while chosen < most and (pod := next(pods, None)) is not None:
            chosen += self._may_leave(pod)
        return chosen

    # --- one pod ----------------------------------------------------------------------------------

    def _may_leave(self, pod: RiskPod) -> bool:
        """Tell whether no gate before the choice of a target stops a pod, and record the gate."""
        stopped = self._find_gate(pod)
        if stopped is not None:
            self._reject(pod, *stopped)
        return stopped is None

    def _compare(self, pod: RiskPod) -> None:
        """Find the best target of a pod, or record what stops it."""
        if not self._may_leave(pod):
            return
        self.left -= 1
        allowed = self._find_targets(pod)
        # A unit costs as much as a comparison, and placement ranks such a kind too.
        self.left -= 2 * self.fit.take_units()
        excess = self.risk.compute_excess(pod.figures)
        if not allowed.any():
            message = "every other node is cooling, does not accept the pod, or has no room for it"
            excess[pod.source] = np.inf
            if self.rows.size > 1:
                message += f": the lowest is {self.record.describe_usage(int(excess.argmin()))}"
            self._reject(pod, "fit", message)
            return
        growth = self.risk.compute_growth(pod.figures)
        target = int(np.where(allowed, growth + TIE * excess, np.inf).argmin())
        costs = self._costs(pod, target)
        if costs.gain < self.gain:
            message = (
                f"its move to {self.names[target]} lowers the sum of costs by {costs.gain:.3f}; "
                f"required is {self.gain:.3f}: {self._required_gain}"
            )
            self._reject(pod, "gain", message, costs, target)
            return
        self.pods.note_compared(pod, target, costs)

    def _costs(self, pod: RiskPod, target: int) -> Costs:
        risk, costs = self.risk, self.risk.costs
        return Costs(
            float(costs[pod.source]),
            risk.cost_without_pod(pod.source, pod.figures),
            float(costs[target]),
            risk.cost_with_pod(target, pod.figures),
        )

    def _find_gate(self, pod: RiskPod) -> tuple[str, str] | None:
        """Return gate and message of the first gate before the choice of a target."""
        held, inputs = pod.held, self.inputs
        since_ms = held.pod.scheduled_at_ms
        age_ms = inputs.now_ms - (held.assigned_at_ms if since_ms is None else since_ms)
        if age_ms < self.args.min_pod_age_minutes * _MINUTE_MS:
            minutes = max(0, age_ms) // _MINUTE_MS
            least = self.args.min_pod_age_minutes
            return (
                "young",
                f"the pod has been on the node for {minutes} min; minPodAgeMinutes is {least}",
            )
        if not self.pod_filter.open:
            stopped = self.pod_filter(held)
            if stopped is not None:
                return stopped
        protected = inputs.rules.explain_protection(held)
        if protected is not None:
            return "filter", protected
        resting = inputs.exclusions.moves.explain_rest(
            held.pod.owner_key,
            self.names[pod.source],
            held.assigned_at_ms,
            self.args.rest_minutes * _MINUTE_MS,
            inputs.now_ms,
        )
        return None if resting is None else ("resting", resting)

    def _find_targets(self, pod: RiskPod) -> BoolArray:
        """Return a mask of the nodes that accept a pod and have room for it, shape (nodes,)."""
        allowed = self.fit.group(pod.held, "node").fitting() & self.open
        allowed[pod.source] = False
        avoided = self.inputs.exclusions.list_names(pod.held.pod, self.inputs.now_ms)
        allowed[[self.position_of[name] for name in avoided if name in self.position_of]] = False
        refused = self.inputs.rules.find_refusing_nodes(pod.held.pod)
        return allowed & ~refused[self.rows]

    def _reject(
        self,
        pod: RiskPod,
        gate: str,
        message: str,
        costs: Costs | None = None,
        target: int | None = None,
    ) -> None:
        self.record.note_stay(pod, gate, message, costs, target)
        self.pods.drop(pod)

    # --- moves ------------------------------------------------------------------------------------

    def _move(self, pod: RiskPod, costs: Costs) -> None:
        """Plan the move that gains most, unless a gate stops it."""
        target, hot = pod.target, self.record.hot[pod.source]
        assert target is not None  # noqa: S101 - it was compared
        rules, source = self.inputs.rules, self.names[pod.source]
        refused = rules.hold_back(pod.held, source)
        if refused is None:
            candidate = self.record.build_candidate(pod, target, costs)
            refused = rules.propose(candidate)
        if refused is not None:
            self._reject(pod, "gate", refused.text, costs, target)
            if refused.scope != "pod":
                hot.ended = refused.text
                self.pods.close_node(pod.source)
            if refused.scope == "round":
                self.outcome.ended = refused.text
            return
        self.begun += 1
        self.record.note_move(pod, candidate, costs)
        self.pods.drop(pod)
        self._plan(pod, target)

    def _plan(self, pod: RiskPod, target: int) -> None:
        self.fit.group(pod.held, "node").take(target)
        self.risk.remove(pod.source, pod.figures)
        self.risk.add(target, pod.figures)
        self.open[pod.source] = False
        self.targets.add(target)
        self.pods.note_move(pod.source, target)

    def _explain_end(self) -> None:
        reason = self._find_end() or self.later
        for position, hot in self.record.hot.items():
            if not hot.ended and float(self.risk.costs[position]) >= self.gain:
                further = f"no other pod that may leave gains {self.gain:.3f}"
                hot.ended = GETS_PODS if position in self.targets else reason or further
