"""Moves by risk: the pod whose move lowers the sum of the nodes' costs most leaves, if by a gain.

A node costs the probability that it is hot, and what it is expected to be beyond (`nodes`).
Moving a pod saves the drop of cost at its source, and costs the growth at its target. In come the
nodes with a fresh metric; pods are looked for on those that cost at least the gain, since no move
saves more than its source costs. Each planned move changes the costs that the next one is judged
by, so the moves of a round are planned together; so are requests on the targets. No node that a pod
leaves takes one in the same round. All of it holds for moves by thresholds, too, which come first.

    saved of every pod ──▶ heap ──▶ the first: growth on all targets at once ──▶ heap ──▶ gates

What is saved is the most that a move can gain, so pods are looked at in that order, and most never
are. A round is bounded: `SOURCES_MAX` nodes have their turn, half of them those that cost most and
the others in turn (`streams.stage.budget`), and of their pods as many are compared with all
targets as `COSTS_MAX` costs of nodes allow, half of them those that save most and the others in
turn.

The cost is that of `streams.risk.overutilization`. Equal gains: by the node's name, then the pod's uid.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from streams.inventory.node import Node
from streams.pods.held import is_overdue
from streams.rebalance.fit import Fit
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
from streams.rebalance.risk.record import POOL, RiskReadings, RiskRecord
from streams.risk.overutilization import TIE
from streams.stage.arrays import BoolArray
from streams.stage.budget import Budget, rotate

#: Most nodes whose pods one round looks at: with 110 pods on each a twentieth of a second.
SOURCES_MAX = 64
#: Most costs of nodes that one round works out to compare targets, a tenth of a second; at least
#: `COMPARED_MIN` pods are compared with all of them, at most `COMPARED_MAX`.
COSTS_MAX = 1_000_000
COMPARED_MIN, COMPARED_MAX = 50, 500
_MINUTE_MS = 60_000
#: Why not all pods are compared.
LATER = "no round compares more pods with all targets"
#: Why no pod leaves a node that one comes to.
TAKES = "a pod comes to it in this round"


class RiskMoves:
    """Plans the moves of rounds under one policy."""

    def __init__(self, policy: Policy) -> None:
        self.args, self.score = policy.risk_moves, policy.overutilization_risk
        self.rebalance = policy.rebalance
        self.pod_filter = PodFilter(policy.rebalance)
        self.resources = tuple(resource.name for resource in self.score.resources)

    def round(self, given: RoundInput, outcome: RoundOutcome) -> None:
        """Add what should leave nodes at risk to a round, whose moves so far are planned already."""
        if given.paused or outcome.ended:
            return
        made = _Round(self, given, outcome)
        outcome.pools.append(made.record.outcome)
        made.run()


class _Round:
    """One round by risk."""

    def __init__(self, moves: RiskMoves, given: RoundInput, whole: RoundOutcome) -> None:
        self.args, self.given, self.whole = moves.args, given, whole
        self.pod_filter = moves.pod_filter
        self.resources = moves.resources
        columns = given.columns
        fresh = columns.looked_at & find_measured(
            columns, moves.rebalance, given.now_ms, self.resources
        )
        self.rows = np.flatnonzero(fresh)
        self.readings = RiskReadings(columns, self.rows, moves.score.resources)
        self.names, self.place = self.readings.names, self.readings.place
        self.nodes: list[Node | None] = [columns.nodes[row].node for row in self.rows.tolist()]
        self.risk = RiskNodes(moves.score, self.nodes)
        pods = [columns.nodes[row].pods.held for row in self.rows.tolist()]
        self.life_minutes = expect_life_minutes(pods, given.now_ms)
        self.gain = self.args.min_saved_minutes / self.life_minutes
        """By how much a move must lower the sum of costs at least."""
        self.leaving = {*given.rules.leaving, *(move.held.pod.uid for move in whole.moves)}
        cooling = [
            self.place[name] for name in given.rules.list_cooling_nodes() if name in self.place
        ]
        self.open: BoolArray = columns.schedulable[self.rows].copy()
        """Nodes that take pods, shape (nodes,)."""
        self.open[cooling] = False
        everywhere = np.ones(self.rows.size, dtype=np.bool_)
        self.fit = Fit(columns, self.rows, {"node": everywhere})
        self.taking: set[int] = set()
        """Positions of nodes that pods come to by the plan."""
        self._plan_ahead()
        self.record = RiskRecord(
            self.readings,
            moves.score.resources,
            columns.names[columns.looked_at].tolist(),
            self._codes(),
            targets=int(self.open.sum()),
        )
        self.pods = RiskPods(self.risk, self.gain)
        compared = COSTS_MAX // max(1, self.rows.size * len(self.resources))
        self.left = min(max(compared, COMPARED_MIN), COMPARED_MAX)
        """How many pods may still be compared with all targets."""
        self.later = ""
        """Why some pods are not compared; empty: all are."""
        self.begun = 0

    def _codes(self) -> NDArray[np.int8]:
        """The class of each node that is looked at."""
        looked_at = self.given.columns.looked_at
        codes = np.full(int(looked_at.sum()), SKIPPED, dtype=np.int8)
        at = np.searchsorted(np.flatnonzero(looked_at), self.rows)
        codes[at] = np.where(self.risk.costs >= self.gain, HIGH, NORMAL)
        return codes

    def _plan_ahead(self) -> None:
        """Count what the round has planned before: pods that move count at their targets, and the
        nodes that they leave take none."""
        for move in self.whole.moves:
            left = self.place.get(move.node)
            if left is not None:
                self.open[left] = False
            node = self.given.columns.row(move.node)
            source = None if node is None else self.given.columns.nodes[node].node
            target = self.place.get(move.target or "")
            if target is None:
                continue
            self.taking.add(target)
            self.fit.group(move.held, "node").take(target)
            if source is not None and source.statistics is not None:
                self.risk.add(target, source.statistics.compute_figures(move.held))

    # --- the round --------------------------------------------------------------------------------

    def run(self) -> None:
        """Plan moves until none gains enough, or a limit is reached."""
        at_risk = np.flatnonzero(self.risk.costs >= self.gain)
        if not self.rows.size:
            self.record.outcome.ended = f"no node has {describe_fresh_metric(self.resources)}"
        elif not at_risk.size:
            self.record.outcome.ended = f"no node costs {self.gain:.3f}: {self._price}"
        for place in self._in_turn(at_risk.tolist()):
            self._look_at(place)
        self._choose()
        while not self._over() and (pod := self.pods.first()) is not None:
            if pod.costs is not None:
                self._move(pod, pod.costs)
            elif self.left > 0:
                self._compare(pod)
            else:
                self.later = LATER
        self._close()

    @property
    def _price(self) -> str:
        return (
            f"a move must save {self.args.min_saved_minutes:g} hot minutes, and pods are expected to "
            f"run for {self.life_minutes} more"
        )

    def _in_turn(self, at_risk: list[int]) -> list[int]:
        """Nodes whose pods are looked at, those that cost most first."""
        costs = self.risk.costs
        at_risk.sort(key=lambda place: (-float(costs[place]), place))
        chosen = Budget(SOURCES_MAX, self.given.now_ms).choose([1] * len(at_risk))
        return [at_risk[index] for index in sorted(chosen)]

    def _over(self) -> str:
        """Why no further pod is looked at; empty: pods still are."""
        if self.whole.ended:
            return self.whole.ended
        if self.begun >= self.args.max_moves_per_round:
            return f"{self.begun} pods leave by risk in this round; maxMovesPerRound is {self.args.max_moves_per_round}"
        return ""

    def _look_at(self, place: int) -> None:
        """A node has its turn: count pods that leave already as gone, and rank the others."""
        node = self.nodes[place]
        if node is None or node.statistics is None:
            return
        before = float(self.risk.costs[place])
        figures = self.given.columns.nodes[int(self.rows[place])]
        staying = []
        for index, held in enumerate(figures.pods.held):
            if not figures.pods.bound[index]:
                continue
            pod = RiskPod(held, place, node.statistics.compute_figures(held))
            leaves = held.pod.deleting_at_ms is not None or held.pod.uid in self.leaving
            if leaves and not is_overdue(held.pod, self.given.now_ms):
                self.risk.remove(place, pod.figures)
            else:
                staying.append(pod)
        hot = self.record.begin(place, before)
        if place in self.taking:
            hot.ended = TAKES
            return
        self.pods.add(place, staying)
        if float(self.risk.costs[place]) < self.gain:
            hot.ended = (
                f"it costs {float(self.risk.costs[place]):.3f} without pods that leave already"
            )
            return
        self.pods.rank(place)

    def _choose(self) -> None:
        """Let no more pods wait than may be compared: half of them those that save most, since these
        may be compared in vain in every round, and the others in turn."""
        waiting = self.pods.waiting()
        if len(waiting) <= self.left:
            return
        self.later = LATER
        by_saved = iter(waiting)
        chosen = self._chosen(by_saved, self.left // 2)
        rest = list(by_saved)
        in_turn = iter(rotate(rest, self.given.now_ms))
        self._chosen(in_turn, self.left - chosen)
        for pod in in_turn:
            self.pods.drop(pod)

    def _chosen(self, pods: Iterator[RiskPod], most: int) -> int:
        """How many of the next pods may leave, at most that number; what keeps others is noted."""
        chosen = 0
        while chosen < most and (pod := next(pods, None)) is not None:
            chosen += self._may_leave(pod)
        return chosen

    # --- one pod ----------------------------------------------------------------------------------

    def _may_leave(self, pod: RiskPod) -> bool:
        """Whether nothing keeps a pod before a target is looked for; what does is noted."""
        stopped = self._stopped(pod)
        if stopped is not None:
            self._stays(pod, *stopped)
        return stopped is None

    def _compare(self, pod: RiskPod) -> None:
        """Look for the best target of a pod; what keeps it is noted."""
        if not self._may_leave(pod):
            return
        self.left -= 1
        allowed = self._allowed(pod)
        # A comparison takes about as long as a unit, and placement ranks such a kind too.
        self.left -= 2 * self.fit.take_units()
        if not allowed.any():
            self._stays(pod, "fit", "no node that is not cooling may run it and has room for it")
            return
        growth = self.risk.growth(pod.figures)
        order = np.where(allowed, growth + TIE * self.risk.shares(pod.figures), np.inf)
        target = int(order.argmin())
        costs = self._costs(pod, target)
        if costs.gain < self.gain:
            message = (
                f"its move to {self.names[target]} would lower the sum of costs by {costs.gain:.3f}, "
                f"asked for is {self.gain:.3f}: {self._price}"
            )
            self._stays(pod, "gain", message, costs, target)
            return
        self.pods.compared(pod, target, costs)

    def _costs(self, pod: RiskPod, target: int) -> Costs:
        risk, costs = self.risk, self.risk.costs
        return Costs(
            float(costs[pod.source]),
            risk.without_pod(pod.source, pod.figures),
            float(costs[target]),
            risk.with_pod(target, pod.figures),
        )

    def _stopped(self, pod: RiskPod) -> tuple[str, str] | None:
        """Gate and message of what keeps a pod before a target is looked for."""
        held, given = pod.held, self.given
        since_ms = held.pod.scheduled_at_ms
        age_ms = given.now_ms - (held.assigned_at_ms if since_ms is None else since_ms)
        if age_ms < self.args.min_pod_age_minutes * _MINUTE_MS:
            minutes = max(0, age_ms) // _MINUTE_MS
            least = self.args.min_pod_age_minutes
            return "young", f"it has been here for {minutes} min; minPodAgeMinutes is {least}"
        if not self.pod_filter.open:
            stopped = self.pod_filter(held)
            if stopped is not None:
                return stopped
        protected = given.rules.explain_protection(held)
        if protected is not None:
            return "filter", protected
        why = given.rules.explain_rest(
            held, self.names[pod.source], self.args.rest_minutes * _MINUTE_MS
        )
        return None if why is None else ("resting", why)

    def _allowed(self, pod: RiskPod) -> BoolArray:
        """Nodes that may run a pod and have room for it now, shape (nodes,)."""
        allowed = self.fit.group(pod.held, "node").fitting() & self.open
        allowed[pod.source] = False
        avoided = self.given.rules.list_avoided_nodes(pod.held)
        allowed[[self.place[name] for name in avoided if name in self.place]] = False
        refused = self.given.rules.find_refusing_nodes(pod.held)
        if refused is not None:
            allowed &= ~refused[self.rows]
        return allowed

    def _stays(
        self,
        pod: RiskPod,
        gate: str,
        message: str,
        costs: Costs | None = None,
        target: int | None = None,
    ) -> None:
        self.record.stays(pod, gate, message, costs, target)
        self.pods.drop(pod)

    # --- moves ------------------------------------------------------------------------------------

    def _move(self, pod: RiskPod, costs: Costs) -> None:
        """Plan a move that gains more than every other one, and ask the gate."""
        target, hot = pod.target, self.record.hot[pod.source]
        assert target is not None  # noqa: S101 - it was compared
        rules, source = self.given.rules, self.names[pod.source]
        refused = rules.hold_back(pod.held, source, POOL)
        candidate = self.record.candidate(pod, target, costs)
        refused = refused or rules.gate(candidate)
        if refused is not None:
            self._stays(pod, "gate", refused.text, costs, target)
            if refused.scope != "pod":
                hot.ended = refused.text
                self.pods.close(pod.source)
            if refused.scope == "round":
                self.whole.ended = refused.text
            return
        self.begun += 1
        self.record.leaves(pod, candidate, costs)
        self.pods.drop(pod)
        self._plan(pod, target)

    def _plan(self, pod: RiskPod, target: int) -> None:
        """What a move changes for those that come after it."""
        self.fit.group(pod.held, "node").take(target)
        self.risk.remove(pod.source, pod.figures)
        self.risk.add(target, pod.figures)
        self.open[pod.source] = False
        self.taking.add(target)
        self.pods.planned(pod.source, target)

    def _close(self) -> None:
        """Say why no further pod leaves the nodes that had their turn."""
        why = self._over() or self.later
        for place, hot in self.record.hot.items():
            if not hot.ended and float(self.risk.costs[place]) >= self.gain:
                further = f"no further pod that may leave gains {self.gain:.3f}"
                hot.ended = TAKES if place in self.taking else why or further
