"""Moves by risk: plans the moves that lower the sum of the nodes' costs most.

A node's cost is the probability that it is hot plus its expected excess (`nodes`). A move decreases the cost
of its source, and increases the cost of its target:

    gain = decrease at the source - increase at the target     at least `min_gain`

Nodes with a fresh metric take part. Pods leave only nodes that cost at least `min_gain`, because no move gains
more than the cost of its source. A planned move changes costs, usage and free room for later moves of the
round. Moves by thresholds come first, and change them too. A node that loses pods gets none in the same round.

    decrease of every pod ──▶ heap ──▶ first pod: increase on all targets ──▶ heap ──▶ gates

The decrease is an upper bound of the gain, so pods are compared with targets in that order, and most pods are
never compared. A round searches at most `SOURCES_MAX` nodes for pods, and computes at most about `COSTS_MAX`
costs to compare pods. Half of each limit is for the nodes or pods that come first. The other half is for
others, which differ from round to round (`streams.stage.budget`). Equal gains are ordered by node name and
pod uid.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from streams.inventory.node import Node
from streams.pods.held_pod import is_overdue
from streams.rebalance.candidates import Gate
from streams.rebalance.inputs import PodFilter, RoundInput, describe_fresh_metric, find_measured
from streams.rebalance.outcome import HIGH, NORMAL, SKIPPED, Costs, HotNodeOutcome, RoundOutcome
from streams.rebalance.risk.nodes import RiskNodes, list_risk_resources
from streams.rebalance.risk.pods import RiskPod, RiskPods, estimate_remaining_minutes
from streams.rebalance.risk.results import RiskResults, read_nodes
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
#: Reason if the pods of a node are not compared in this round.
NOT_COMPARED = "the round has compared as many pods as it may; a later round compares others"
#: Reason if no pod leaves a node, because a pod moves to the node.
GETS_PODS = "a pod moves to this node in this round"


def plan_risk_moves(policy: Policy, inputs: RoundInput, outcome: RoundOutcome) -> None:
    """Add moves by risk to the outcome of a round, after its moves by thresholds."""
    if not outcome.end_reason:
        risk_round = _Round(policy, inputs, outcome)
        outcome.pools.append(risk_round.results.outcome)
        risk_round.run()


class _Round:
    def __init__(self, policy: Policy, inputs: RoundInput, outcome: RoundOutcome) -> None:
        self.args, self.inputs, self.outcome = policy.risk_moves, inputs, outcome
        score_args = policy.overutilization_risk
        self.pod_filter = PodFilter(policy.rebalance)
        self.resources = list_risk_resources(policy)
        columns = inputs.columns
        fresh = columns.included & find_measured(
            columns, policy.rebalance, inputs.now_ms, self.resources
        )
        self.rows = np.flatnonzero(fresh)
        self.readings = read_nodes(columns, self.rows, score_args.resources)
        self.names = self.readings.names
        self.position_of = {name: position for position, name in enumerate(self.names)}
        self.nodes: list[Node | None] = [columns.nodes[row].node for row in self.rows.tolist()]
        self.risk = RiskNodes(score_args, self.nodes)
        pods = [columns.nodes[row].pods.held for row in self.rows.tolist()]
        self.remaining_minutes = estimate_remaining_minutes(pods, inputs.now_ms)
        self.min_gain = self.args.min_saved_minutes / self.remaining_minutes
        self.leaving = {*inputs.rules.leaving, *(move.held.pod.uid for move in outcome.moves)}
        cooling = [
            self.position_of[name]
            for name in inputs.exclusions.moves.list_cooling(inputs.now_ms)
            if name in self.position_of
        ]
        self.can_receive: BoolArray = columns.schedulable[self.rows].copy()
        """Mask of the nodes that may get pods, shape (nodes,)."""
        self.can_receive[cooling] = False
        all_nodes = np.ones(self.rows.size, dtype=np.bool_)
        self.fit = Fit(columns, self.rows, {"node": all_nodes})
        self.targets: set[int] = set()
        """Positions of the targets of planned moves."""
        self._include_earlier_moves()
        self.results = RiskResults(
            self.readings,
            score_args.resources,
            columns.names[columns.included].tolist(),
            self._classify(),
            targets=int(self.can_receive.sum()),
            memory=columns.count_memory_kinds(self.rows, self.resources),
        )
        self.pods = RiskPods(self.risk, self.min_gain)
        affordable = COSTS_MAX // max(1, self.rows.size * len(self.resources))
        self.comparisons_left = min(max(affordable, COMPARED_MIN), COMPARED_MAX)
        self.not_compared = ""
        """Why some pods are not compared; empty if all are compared."""
        self.move_count = 0

    def _classify(self) -> NDArray[np.int8]:
        included = self.inputs.columns.included
        codes = np.full(int(included.sum()), SKIPPED, dtype=np.int8)
        positions = np.searchsorted(np.flatnonzero(included), self.rows)
        codes[positions] = np.where(self.risk.costs >= self.min_gain, HIGH, NORMAL)
        return codes

    def _include_earlier_moves(self) -> None:
        """Change costs, room and targets by the moves by thresholds."""
        for move in self.outcome.moves:
            source_position = self.position_of.get(move.node)
            if source_position is not None:
                self.can_receive[source_position] = False
            source_row = self.inputs.columns.find_row(move.node)
            source = None if source_row is None else self.inputs.columns.nodes[source_row].node
            target = self.position_of.get(move.target or "")
            if target is None:
                continue
            self.targets.add(target)
            self.fit.find_group(move.held, "node").use_room(target)
            if source is not None and source.statistics is not None:
                self.risk.add_pod(target, source.statistics.compute_pod_figures(move.held))

    # --- the round --------------------------------------------------------------------------------

    def run(self) -> None:
        at_risk = np.flatnonzero(self.risk.costs >= self.min_gain)
        if not self.rows.size:
            self.results.outcome.end_reason = f"no node has {describe_fresh_metric(self.resources)}"
        elif not at_risk.size:
            self.results.outcome.end_reason = (
                f"no node costs {self.min_gain:.3f} hot minutes per minute: {self._required_gain}"
            )
        for position in self._select_nodes(at_risk.tolist()):
            self._rank_pods(position)
        self._limit_comparisons()
        while not self._find_end() and (pod := self.pods.pop_first()) is not None:
            if pod.costs is not None:
                self._move(pod, pod.costs)
            elif self.comparisons_left > 0:
                self._compare(pod)
            else:
                self.not_compared = NOT_COMPARED
        self._explain_end()

    @property
    def _required_gain(self) -> str:
        return (
            f"a move must save {self.args.min_saved_minutes:g} hot minutes (riskMoves.minSavedMinutes), "
            f"and pods are expected to run for {self.remaining_minutes} more minutes"
        )

    def _select_nodes(self, at_risk: list[int]) -> list[int]:
        """Return the nodes to search for pods, in descending order of cost."""
        costs = self.risk.costs
        at_risk.sort(key=lambda position: (-float(costs[position]), position))
        chosen = Budget(SOURCES_MAX, self.inputs.now_ms).choose([1] * len(at_risk))
        return [at_risk[index] for index in sorted(chosen)]

    def _find_end(self) -> str:
        """Return why no further pod may leave in this round; empty if pods may leave."""
        if self.outcome.end_reason:
            return self.outcome.end_reason
        if self.move_count >= self.args.max_moves_per_round:
            return f"{self.move_count} pods leave by risk in this round; maxMovesPerRound is {self.args.max_moves_per_round}"
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
            pod = RiskPod(held, position, node.statistics.compute_pod_figures(held))
            is_leaving = held.pod.deleting_at_ms is not None or held.pod.uid in self.leaving
            if is_leaving and not is_overdue(held.pod, self.inputs.now_ms):
                self.risk.remove_pod(position, pod.figures)
            else:
                staying.append(pod)
        hot = self.results.add_hot_node(position, before)
        if position in self.targets:
            hot.end_reason = GETS_PODS
            return
        self.pods.add(position, staying)
        if float(self.risk.costs[position]) < self.min_gain:
            hot.end_reason = f"its cost is {float(self.risk.costs[position]):.3f} without the pods that are already leaving"
            return
        self.pods.rank(position)

    def _limit_comparisons(self) -> None:
        """Drop pods if more wait than may be compared.

        Half of the kept pods have the largest decreases. They may be the same in each round, and have no target.
        So the other half is selected from the other pods, and differs from round to round.
        """
        waiting = self.pods.list_waiting()
        if len(waiting) <= self.comparisons_left:
            return
        self.not_compared = NOT_COMPARED
        pods = iter(waiting)
        count = self._count_movable(pods, self.comparisons_left // 2)
        others = iter(rotate(list(pods), self.inputs.now_ms))
        self._count_movable(others, self.comparisons_left - count)
        for pod in others:
            self.pods.drop(pod)

    def _count_movable(self, pods: Iterator[RiskPod], most: int) -> int:
        """Check pods until `most` pods may leave; return how many may leave."""
        count = 0
        while count < most and (pod := next(pods, None)) is not None:
            count += self._can_leave(pod)
        return count

    # --- one pod ----------------------------------------------------------------------------------

    def _can_leave(self, pod: RiskPod) -> bool:
        """Tell whether no gate before the choice of a target stops a pod, and record the gate."""
        gate = self._find_gate(pod)
        if gate is not None:
            self._reject(pod, gate)
        return gate is None

    def _compare(self, pod: RiskPod) -> None:
        """Find the best target of a pod, or record the gate that stops it."""
        if not self._can_leave(pod):
            return
        self.comparisons_left -= 1
        allowed = self._find_targets(pod)
        # A unit costs as much as a comparison. Placement has to rank the nodes for the pod, too.
        self.comparisons_left -= 2 * self.fit.take_units()
        excess = self.risk.compute_excess(pod.figures)
        if not allowed.any():
            message = "every other node is cooling, does not accept the pod, or has no room for it"
            excess[pod.source] = np.inf
            if self.rows.size > 1:
                message += f": the lowest is {self.results.describe_usage(int(excess.argmin()))}"
            self._reject(pod, Gate("fit", message))
            return
        growth = self.risk.compute_growth(pod.figures)
        target = int(np.where(allowed, growth + TIE * excess, np.inf).argmin())
        costs = self._compute_costs(pod, target)
        if costs.gain < self.min_gain:
            message = (
                f"its move to {self.names[target]} saves {costs.gain:.3f} hot minutes per minute; "
                f"required is {self.min_gain:.3f}: {self._required_gain}"
            )
            self._reject(pod, Gate("gain", message), costs, target)
            return
        self.pods.note_compared(pod, target, costs)

    def _compute_costs(self, pod: RiskPod, target: int) -> Costs:
        risk, costs = self.risk, self.risk.costs
        return Costs(
            float(costs[pod.source]),
            risk.compute_cost_without(pod.source, pod.figures),
            float(costs[target]),
            risk.compute_cost_with(target, pod.figures),
        )

    def _find_gate(self, pod: RiskPod) -> Gate | None:
        """Return the first gate before the choice of a target."""
        held, inputs = pod.held, self.inputs
        start_ms = held.pod.scheduled_at_ms
        age_ms = inputs.now_ms - (held.assigned_at_ms if start_ms is None else start_ms)
        if age_ms < self.args.min_pod_age_minutes * _MINUTE_MS:
            minutes = max(0, age_ms) // _MINUTE_MS
            text = f"the pod has been on the node for {minutes} min; minPodAgeMinutes is "
            return Gate("young", f"{text}{self.args.min_pod_age_minutes}")
        gate = self.pod_filter.find_gate(held)
        if gate is not None:
            return gate
        protection = inputs.rules.explain_protection(held)
        if protection is not None:
            return Gate("filter", protection)
        rest = inputs.exclusions.moves.explain_rest(
            held.pod.owner_key,
            self.names[pod.source],
            held.assigned_at_ms,
            self.args.rest_minutes * _MINUTE_MS,
            inputs.now_ms,
        )
        return None if rest is None else Gate("resting", rest)

    def _find_targets(self, pod: RiskPod) -> BoolArray:
        """Return a mask of the nodes that accept a pod and have room for it, shape (nodes,)."""
        allowed = self.fit.find_group(pod.held, "node").find_fitting() & self.can_receive
        allowed[pod.source] = False
        avoided = self.inputs.exclusions.list_excluded_names(pod.held.pod, self.inputs.now_ms)
        allowed[[self.position_of[name] for name in avoided if name in self.position_of]] = False
        refusing = self.inputs.rules.find_refusing_nodes(pod.held.pod)
        return allowed & ~refusing[self.rows]

    def _reject(
        self, pod: RiskPod, gate: Gate, costs: Costs | None = None, target: int | None = None
    ) -> None:
        self.results.note_stay(pod, gate, costs, target)
        self.pods.drop(pod)

    # --- moves ------------------------------------------------------------------------------------

    def _move(self, pod: RiskPod, costs: Costs) -> None:
        """Plan the move of a pod to its best target, unless a gate stops it."""
        target, hot = pod.target, self.results.hot[pod.source]
        assert target is not None  # noqa: S101 - it was compared
        rules, source = self.inputs.rules, self.names[pod.source]
        gate = rules.check_pod(pod.held, source)
        if gate is None:
            candidate = self.results.build_candidate(pod, target, costs)
            gate = rules.propose(candidate)
        if gate is not None:
            self._reject(pod, Gate("gate", gate.text), costs, target)
            if gate.scope != "pod":
                hot.end_reason = gate.text
                self.pods.close_node(pod.source)
            if gate.scope == "round":
                self.outcome.end_reason = gate.text
            return
        self.move_count += 1
        self.results.note_move(pod, candidate, costs)
        self.pods.drop(pod)
        self._apply_move(pod, target)

    def _apply_move(self, pod: RiskPod, target: int) -> None:
        self.fit.find_group(pod.held, "node").use_room(target)
        self.risk.remove_pod(pod.source, pod.figures)
        self.risk.add_pod(target, pod.figures)
        self.can_receive[pod.source] = False
        self.targets.add(target)
        self.pods.note_move(pod.source, target)

    def _explain_end(self) -> None:
        common_reason = self._find_end() or self.not_compared
        for position, hot in self.results.hot.items():
            if not hot.end_reason and float(self.risk.costs[position]) >= self.min_gain:
                reason = GETS_PODS if position in self.targets else common_reason
                hot.end_reason = reason or self._explain_no_gain(hot)

    def _explain_no_gain(self, hot: HotNodeOutcome) -> str:
        gates, saved = hot.gates.most_common(1), f"{self.args.min_saved_minutes:g} hot minutes"
        pod = "further pod" if hot.moved else "pod"
        text = f"no {pod} that may leave saves {saved} (riskMoves.minSavedMinutes)"
        example = next((pod.message for pod in hot.pods if gates and pod.gate == gates[0][0]), "")
        stay = f"{hot.checked - hot.moved} of {hot.checked} checked pods stay"
        return f"{text}: {stay}, for example because {example}" if example else text
