"""Which pods leave the hot nodes of a pool, and their targets.

Pods of a hot node are checked in order until the node is below its limits by the plan. A pod stays if
one of these gates stops it, in this order: it is already leaving, its namespace or labels, protections,
its usage is unknown, it does not use an exceeded resource, gates of migrations, or no target can run it
or has room.

By Koordinator's rules, nodeFit is checked for all pods of a node first, and uses room for each pod that
fits (docs/reference/upstream.md B4.4). A node's evictions also end when the targets together have no
room left (L6, L8).

While a window with `evictWithoutTarget` is open, batch and free pods leave even without a target.
"""

import numpy as np

from streams.pods.held import HeldPod
from streams.rebalance.candidates import Candidate, Gate, Phase
from streams.rebalance.eviction_keys import NO_EVICTION_ANNOTATION
from streams.rebalance.node_arrays import TOTAL_MAX
from streams.rebalance.outcome import BOTH_LOW, LOW, PROD_LOW, HotNodeOutcome, RoundOutcome, Verdict
from streams.rebalance.targets import Fit, Targets
from streams.rebalance.thresholds.order import HotPods, pod_weights
from streams.rebalance.thresholds.pool_round import PoolRound
from streams.stage.arrays import BoolArray, FloatArray, IntArray

#: Most pods that one phase of a pool sorts, as a multiple of those that may be checked: on most nodes
#: only some pods are checked.
ORDERED_PER_CHECKED = 5
#: Hot nodes whose pods are packed and sorted at once: a round that reaches a limit packs no others.
NODES_PACKED = 32
#: Pods that are checked in the time of one unit of `Fit.take_units`.
PODS_PER_UNIT = 4
#: Reason if no pod of a node is checked in this round.
LATER = "there are more hot nodes than one round checks; a later round checks this node"
#: Reason if further pods are not checked in this round.
CHECKED_MAX = "the round has checked as many pods as it may; the next round checks others"
#: Classes of pods that may leave without a target, if a window allows it.
_WITHOUT_TARGET = ("free", "batch")


class Evictions:
    """The evictions of one pool in a round."""

    def __init__(self, pool: PoolRound, outcome: RoundOutcome) -> None:
        self.pool, self.inputs, self.outcome = pool, pool.inputs, outcome
        self.differences = differences = pool.shared.differences
        nodes, targets, limits = pool.nodes, pool.targets, pool.limits
        self.weights: FloatArray = pod_weights(nodes.resources, pool.pool.weights)
        self.targets_in: dict[Phase, BoolArray] = {
            "node": np.isin(pool.codes[targets], (LOW, BOTH_LOW)),
            "prod": np.isin(pool.codes[targets], (PROD_LOW, BOTH_LOW)),
        }
        """Targets of each phase, shape (targets,)."""
        expected = nodes.pending[:, targets] if differences.planned_targets else 0
        self.room = limits.high[:, targets] - nodes.usage[:, targets] - expected
        self.prod_room = None
        if limits.prod_high is not None:
            prod_used = nodes.prod_usage[:, targets] + expected
            self.prod_room = limits.prod_high[:, targets] - prod_used
        watched = [name in pool.thresholds.high for name in nodes.resources]
        self.names = self.inputs.columns.names[nodes.rows[targets]]
        self.node_fit = pool.shared.args.node_fit
        self.fit = Fit(
            self.inputs.columns,
            nodes.rows[targets],
            self.targets_in,
            node_fit=self.node_fit,
            as_koordinator=not differences.planned_targets,
        )
        self.room_in_all: list[int] | None = None
        """Room of all targets of a phase together, by Koordinator's rules."""
        self.targets = Targets(
            differences,
            self.room.copy(),
            None if self.prod_room is None else self.prod_room.copy(),
            nodes.capacity[:, targets],
            watched,
        )

    def run(self) -> None:
        """Plan moves: first pods of hot nodes, then prod pods of nodes that are hot by their prod pods."""
        if self.differences.planned_targets:
            self._run_phase("node")
            self._run_phase("prod")
            return
        both = self.pool.codes[self.pool.targets] == BOTH_LOW
        self.room_in_all = self._sum_room("node", self.targets_in["node"])
        self._run_phase("node")
        # bothLow nodes add the minimum of three sums. Without such a node the remaining room of the
        # node phase still counts if it is below 0 (docs/reference/upstream.md B5.5).
        shares = zip(
            self._sum_room("prod", both),
            self._sum_room("node", both),
            self.room_in_all,
            strict=True,
        )
        prod_low = self._sum_room("prod", self.targets_in["prod"] & ~both)
        self.room_in_all = [
            amount + min(share) for amount, share in zip(prod_low, shares, strict=True)
        ]
        self._run_phase("prod")

    def _sum_room(self, phase: Phase, which: BoolArray) -> list[int]:
        """Return the room of targets before the round, per resource."""
        room = self.room if phase == "node" else self.prod_room
        assert room is not None  # noqa: S101 - Koordinator's prod thresholds are filled in
        return [sum(amounts) for amounts in room[:, which].tolist()]

    def _run_phase(self, phase: Phase) -> None:
        acting = self.pool.acting[phase]
        hot = [node for node in self.pool.outcome.hot if node.acting and node.phase == phase]
        nodes, budget = self.inputs.columns.nodes, self.inputs.budget
        sizes = [len(nodes[row].pods.held) for row in self.pool.nodes.rows[acting]]
        positions = budget.choose(sizes, ORDERED_PER_CHECKED)
        for position in set(range(len(hot))).difference(positions):
            hot[position].ended = LATER
        for number, position in enumerate(positions):
            if self.outcome.ended or budget.is_spent:
                hot[position].ended = self.outcome.ended or CHECKED_MAX
                continue
            column = number % NODES_PACKED
            if column == 0:
                part = [acting[index] for index in positions[number : number + NODES_PACKED]]
                pods, used, limits, order = self._pack(phase, part)
                end = 0
            begin, end = end, end + sizes[position]
            checks = _HotNode(
                self, hot[position], pods, acting[position], limits[:, column].tolist()
            )
            checks.run(used[:, column].tolist(), order[begin:end], range(begin, end))

    def _pack(
        self, phase: Phase, chosen: list[int]
    ) -> tuple[HotPods, IntArray, IntArray, list[int]]:
        """Return the pods of hot nodes, usage and limits of the nodes, and the order of the pods."""
        columns = self.inputs.columns
        figures = [columns.nodes[row] for row in self.pool.nodes.rows[chosen].tolist()]
        subtracts_leaving = self.differences.leaving_pods_are_gone
        pods = HotPods(
            figures,
            self.pool.nodes.column_indexes,
            columns.reading_rules,
            self.inputs.rules.leaving if subtracts_leaving else (),
            self.inputs.now_ms,
        )
        used = self.pool.readings.used[phase][:, chosen].copy()
        if subtracts_leaving:
            for index, position in pods.leaving.items():
                if phase == "node" or pods.prod[index]:
                    remaining = used[:, position] - pods.amounts[index]
                    used[:, position] = np.maximum(remaining, -TOTAL_MAX)
        limits = self.pool.readings.limits[phase][:, chosen]
        order = pods.order((used - limits).astype(np.float64), self.weights)
        return pods, used, limits, order


class _HotNode:
    """Checks the pods of one hot node."""

    def __init__(
        self,
        evictions: Evictions,
        hot: HotNodeOutcome,
        pods: HotPods,
        position: int,
        limits: list[int],
    ) -> None:
        self.evictions, self.hot, self.pods = evictions, hot, pods
        self.pool, self.inputs = evictions.pool, evictions.inputs
        self.differences = evictions.differences
        self.position, self.limits = position, limits

    def run(self, used: list[int], order: list[int], pods: range) -> None:
        """Check pods in `order` until the node is below its limits; `pods` are in the order of arrival.

        Usage of pods that are already leaving is not part of `used`.
        """
        hot, limits, budget = self.hot, self.limits, self.inputs.budget
        one_by_one = self.differences.planned_targets
        candidates = set(pods) if one_by_one else self._find_fitting(pods)
        if self.differences.order_by_uid and self.inputs.reluctant_last:
            order = sorted(order, key=self._is_reluctant)
        for index in order:
            if index not in candidates or not self._is_in_phase(index):
                continue
            over = list(map(int.__gt__, used, limits))
            if True not in over:
                self._end_below(index)
                return
            room = self.evictions.room_in_all
            if room is not None and min(room) <= 0:
                hot.ended = "the targets have no room left"
                return
            if one_by_one:
                if budget.is_spent:
                    hot.ended = CHECKED_MAX
                    return
                budget.spend()
                stopped = self._find_gate(index, over)
                budget.spend(PODS_PER_UNIT * self.evictions.fit.take_units())
                if stopped is not None:
                    hot.note(Verdict(self.pods.held[index].pod, *stopped))
                    continue
            if self._move(index, used):
                if self.pods.metered[index]:
                    amounts = self.pods.amounts[index]
                    used = list(map(int.__sub__, used, amounts))
                    if room is not None:
                        room[:] = map(int.__sub__, room, amounts)
            elif hot.ended:
                return
        if any(map(int.__gt__, used, limits)):
            hot.ended = "no other pod may leave"
        elif not hot.moved:
            hot.ended = "pods that are already leaving bring the node below its thresholds"

    def _is_in_phase(self, index: int) -> bool:
        if self.hot.phase == "prod" and not self.pods.prod[index]:
            return False
        return self.pods.bound[index] or not self.differences.live_usage

    def _is_reluctant(self, index: int) -> bool:
        return NO_EVICTION_ANNOTATION in self.pods.held[index].pod.annotations

    def _end_below(self, index: int) -> None:
        if not self.hot.moved:
            self.hot.ended = "pods that are already leaving bring the node below its thresholds"
        counters, now_ms = self.pool.shared.counters, self.inputs.now_ms
        counters.reset(self.hot.name, self.pool.pool, self.hot.phase, now_ms)

    def _find_fitting(self, pods: range) -> set[int]:
        """Return the pods that may leave, by Koordinator's rules; nodeFit uses room for each of them."""
        self.inputs.budget.spend(len(pods))
        phase, fitting = self.hot.phase, set()
        for index in filter(self._is_in_phase, pods):
            held = self.pods.held[index]
            stopped = self._find_protection(held)
            if stopped is None and self.evictions.node_fit:
                stopped = self._reserve(index, phase)
            self.inputs.budget.spend(PODS_PER_UNIT * self.evictions.fit.take_units())
            if stopped is None:
                fitting.add(index)
            else:
                self.hot.note(Verdict(held.pod, *stopped))
        return fitting

    def _reserve(self, index: int, phase: Phase) -> tuple[str, str] | None:
        if not self.pods.metered[index]:
            return "unmeasured", "the pod's usage is unknown"
        targets = self.evictions.targets
        group = self.evictions.fit.group(self.pods.held[index], phase)
        amounts, prod = self._measured_amounts(index), self.pods.prod[index]
        target = targets.find_target(amounts, group, phase, prod=prod)
        if target is None:
            return "fit", f"none of {len(self.evictions.names)} targets accepts the pod"
        targets.take(target, amounts, group, phase, prod=prod)
        return None

    def _measured_amounts(self, index: int) -> list[int]:
        """Return usage without the number of pods, which nodeFit ignores (B5.9)."""
        return [max(0, amount) for amount in self.pods.used[index].tolist()]

    def _find_protection(self, held: HeldPod) -> tuple[str, str] | None:
        """Return gate and message if a pod may never be moved."""
        pod_filter = self.pool.shared.pod_filter
        self.inputs.budget.spend(pod_filter.units)
        stopped = None if pod_filter.open else pod_filter(held)
        if stopped is not None:
            return stopped
        protected = self.inputs.rules.explain_protection(held)
        return None if protected is None else ("filter", protected)

    def _find_gate(self, index: int, over: list[bool]) -> tuple[str, str] | None:
        """Return gate and message of the first gate before those of migrations."""
        if index in self.pods.leaving:
            return "leaving", "the pod is already leaving"
        stopped = self._find_protection(self.pods.held[index])
        if stopped is not None:
            return stopped
        if not self.pods.metered[index]:
            return "unmeasured", "the pod's usage is unknown"
        amounts = self.pods.amounts[index]
        if not any(amount for amount, is_over in zip(amounts, over, strict=True) if is_over):
            if any(self.pods.used[index, over] < 0):
                return "unmeasured", "the pod's usage of an exceeded resource is unknown"
            return "uninvolved", "the pod uses none of the exceeded resources"
        return None

    def _move(self, index: int, used: list[int]) -> bool:
        """Plan the move of a pod, with a target by loadstream's rules; return False if it stays."""
        held, hot, rules = self.pods.held[index], self.hot, self.inputs.rules
        refused = rules.hold_back(held, hot.name)
        if refused is not None:
            self._refuse(index, refused)
            return False
        target = of_class = None
        if self.differences.planned_targets:
            amounts = self.pods.expect_on_target(index)
            target = self._find_target(index, amounts)
            if target is None:
                of_class = self._class_without_target(held)
                if of_class is None:
                    hot.note(Verdict(held.pod, *self._explain_no_target(index)))
                    return False
        reason = self.pool.describe_excess(hot.phase, self.position, used, self.limits)
        candidate = Candidate(
            held=held,
            node=hot.name,
            pool=self.pool.pool.name,
            phase=hot.phase,
            reason=f"node is overutilized, {reason}{_without_target(of_class)}",
            target=None if target is None else self.evictions.names[target],
            usage=self.pods.usage(index),
            # Without a target there is no room to reserve.
            mode=None if of_class is None else "EvictDirectly",
            source_hot=True,
        )
        refused = rules.propose(candidate)
        if refused is not None:
            self._refuse(index, refused, candidate)
            return False
        if target is not None:
            prod, group = self.pods.prod[index], self.evictions.fit.group(held, hot.phase)
            self.evictions.targets.take(target, amounts, group, hot.phase, prod=prod)
        hot.note(Verdict(held.pod, "", "", candidate.target, candidate.usage))
        self.pool.outcome.moves.append(candidate)
        return True

    def _refuse(self, index: int, refused: Gate, candidate: Candidate | None = None) -> None:
        """Record the gate that stops a pod, and perhaps all later ones."""
        target = None if candidate is None else candidate.target
        usage = self.pods.usage(index)
        pod = self.pods.held[index].pod
        self.hot.note(Verdict(pod, "gate", refused.text, target, usage))
        if refused.scope != "pod":
            self.hot.ended = refused.text
        if refused.scope == "round":
            self.evictions.outcome.ended = refused.text

    # --- targets ----------------------------------------------------------------------------------

    def _find_target(self, index: int, amounts: list[int]) -> int | None:
        """Return the best target for a pod that is not excluded."""
        evictions, phase, held = self.evictions, self.hot.phase, self.pods.held[index]
        prod, group = self.pods.prod[index], evictions.fit.group(held, phase)
        best = evictions.targets.find_target(amounts, group, phase, prod=prod)
        if best is None:
            return None
        avoided = self.inputs.exclusions.list_excluded_names(held.pod, self.inputs.now_ms)
        if evictions.names[best] not in avoided:
            return best
        positions = [position for position, name in enumerate(evictions.names) if name in avoided]
        return evictions.targets.find_target(amounts, group, phase, prod=prod, avoided=positions)

    def _class_without_target(self, held: HeldPod) -> str | None:
        """Return the class of a pod that may leave without a target now; None if it needs one."""
        if not self.pool.thresholds.without_target:
            return None
        of_class = held.kind.priority_class
        return of_class if of_class in _WITHOUT_TARGET else None

    def _explain_no_target(self, index: int) -> tuple[str, str]:
        """Return gate and message of a pod without a target."""
        evictions, phase, held = self.evictions, self.hot.phase, self.pods.held[index]
        if not evictions.names.size:
            return "fit", "there is no target, and only batch and free pods leave without one"
        count = int(evictions.targets_in[phase].sum())
        if not count:
            whose = "prod pods" if phase == "prod" else "the whole node"
            lowest, over = self.pool.find_lowest(phase)
            at = f": the lowest is {self.pool.names[lowest]} at {over}" if over else ""
            return "fit", f"no node is below all low thresholds of {whose}{at}"
        allowed = int(evictions.fit.group(held, phase).mask.sum())
        if not allowed:
            return "fit", f"none of {count} targets can run the pod"
        usage = zip(self.pool.nodes.resources, self.pods.expect_on_target(index), strict=True)
        text = ", ".join(f"{name} {amount}" for name, amount in usage)
        return (
            "room",
            f"none of {allowed} targets that can run the pod has room for it, or all of them are "
            f"excluded for it: it is expected to use {text}",
        )


def _without_target(of_class: str | None) -> str:
    if of_class is None:
        return ""
    return f"; no target accepts this {of_class} pod, and the open window has evictWithoutTarget"
