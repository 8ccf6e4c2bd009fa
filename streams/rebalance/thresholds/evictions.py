"""Which pods leave the hot nodes of a pool, and their targets.

The pods of a hot node are checked in order until the planned moves bring the node below its limits. A pod
stays if one of these gates stops it, in this order:

1. The pod is already leaving.
2. The policy excludes its namespace or labels, or a protection applies.
3. Its usage is unknown, or it uses none of the exceeded resources.
4. A limit of migrations is reached.
5. No target can run the pod, or has room for it.

By Koordinator's rules, nodeFit is checked for all pods of a node first, and uses room for each pod that
fits (docs/reference/upstream.md B4). The evictions of a node also end when the targets together
have no room left (L6, L8).

While a window with `evictWithoutTarget` is open, batch and free pods leave even without a target.
"""

from itertools import compress

import numpy as np

from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Candidate, Gate, Phase
from streams.rebalance.eviction_keys import NO_EVICTION_ANNOTATION
from streams.rebalance.node_figures import NodeFigures
from streams.rebalance.outcome import BOTH_LOW, LOW, PROD_LOW, HotNodeOutcome, RoundOutcome, Verdict
from streams.rebalance.targets import Fit, Targets
from streams.rebalance.thresholds.order import HotPods
from streams.rebalance.thresholds.pool_round import PoolRound
from streams.stage.arrays import BoolArray, IntArray

#: Most pods that one phase of a pool sorts, as a multiple of the pods that may be checked. Only some pods
#: of most nodes are checked.
SORTED_PER_CHECKED = 5
#: Pods that are checked in the time of one unit of `Fit.take_units`.
PODS_PER_UNIT = 4
#: Reason if no pod of a node is checked in this round.
NODE_NOT_CHECKED = "there are more hot nodes than one round checks; a later round checks this node"
#: Reason if further pods of a node are not checked in this round.
PODS_NOT_CHECKED = "the round has checked as many pods as it may; the next round checks others"
#: Classes of pods that may leave without a target, if a window allows it.
_CLASSES_WITHOUT_TARGET = ("free", "batch")


class Evictions:
    """The evictions of one pool in a round."""

    def __init__(self, pool: PoolRound, outcome: RoundOutcome) -> None:
        self.pool, self.inputs, self.outcome = pool, pool.inputs, outcome
        self.differences = differences = pool.shared.differences
        nodes, targets, limits = pool.nodes, pool.targets, pool.limits
        self.targets_by_phase: dict[Phase, BoolArray] = {
            "node": np.isin(pool.codes[targets], (LOW, BOTH_LOW)),
            "prod": np.isin(pool.codes[targets], (PROD_LOW, BOTH_LOW)),
        }
        """Targets of each phase, shape (targets,)."""
        pending = nodes.pending[:, targets] if differences.planned_targets else 0
        room: dict[Phase, IntArray] = {
            "node": limits.high[:, targets] - nodes.usage[:, targets] - pending
        }
        if limits.prod_high is not None:
            prod_used = nodes.prod_usage[:, targets] + pending
            room["prod"] = limits.prod_high[:, targets] - prod_used
        limited = [name in pool.thresholds.high for name in nodes.resources]
        self.names = self.inputs.columns.names[nodes.rows[targets]]
        self.node_fit = pool.shared.args.node_fit
        self.fit = Fit(
            self.inputs.columns,
            nodes.rows[targets],
            self.targets_by_phase,
            node_fit=self.node_fit,
            follows_koordinator=not differences.planned_targets,
        )
        self.total_room: list[int] | None = None
        """Total room of the targets of a phase by resource, by Koordinator's rules."""
        self.targets = Targets(
            differences,
            room,
            nodes.capacity[:, targets],
            limited,
        )

    def run(self) -> None:
        """Plan the moves of the node phase, then of the prod phase."""
        if self.differences.planned_targets:
            self._run_phase("node")
            self._run_phase("prod")
            return
        both_low = self.pool.codes[self.pool.targets] == BOTH_LOW
        both_sums = (self._sum_room("prod", both_low), self._sum_room("node", both_low))
        prod_low = self._sum_room("prod", self.targets_by_phase["prod"] & ~both_low)
        self.total_room = self._sum_room("node", self.targets_by_phase["node"])
        self._run_phase("node")
        # Nodes of class bothLow add the minimum of three sums. Without such nodes, the remaining room of
        # the node phase still counts if it is below 0 (docs/reference/upstream.md B5).
        minima = map(min, *both_sums, self.total_room)
        self.total_room = list(map(int.__add__, prod_low, minima))
        self._run_phase("prod")

    def _sum_room(self, phase: Phase, mask: BoolArray) -> list[int]:
        """Return the room of targets per resource."""
        return [sum(amounts) for amounts in self.targets.room[phase][:, mask].tolist()]

    def _run_phase(self, phase: Phase) -> None:
        abnormal = self.pool.abnormal[phase]
        hot = [node for node in self.pool.outcome.hot if node.abnormal and node.phase == phase]
        budget = self.inputs.budget
        figures = [self.inputs.columns.nodes[row] for row in self.pool.nodes.rows[abnormal]]
        positions = budget.choose([len(node.pods.held) for node in figures], SORTED_PER_CHECKED)
        for position in set(range(len(hot))).difference(positions):
            hot[position].end_reason = NODE_NOT_CHECKED
        for position in positions:
            if self.outcome.end_reason or budget.is_spent:
                hot[position].end_reason = self.outcome.end_reason or PODS_NOT_CHECKED
            else:
                _HotNodeCheck(self, hot[position], figures[position], abnormal[position]).run()


class _HotNodeCheck:
    """Checks the pods of one hot node."""

    def __init__(
        self, evictions: Evictions, hot: HotNodeOutcome, figures: NodeFigures, position: int
    ) -> None:
        self.evictions, self.hot, self.position = evictions, hot, position
        self.pool, self.inputs = evictions.pool, evictions.inputs
        self.differences = evictions.differences
        subtracts_leaving = self.differences.leaving_pods_are_gone
        self.pods = HotPods(
            figures,
            self.pool.nodes.resources,
            self.inputs.rules.leaving if subtracts_leaving else (),
            self.inputs.now_ms,
        )
        self.limits: list[int] = self.pool.readings.limits[hot.phase][:, position].tolist()
        self.used: list[int] = self.pool.readings.used[hot.phase][:, position].tolist()
        """Usage of the node without pods that leave."""
        if subtracts_leaving:
            for index in self.pods.leaving:
                if hot.phase == "node" or self.pods.prod[index]:
                    self._subtract(index)

    def _subtract(self, index: int) -> list[int]:
        """Subtract the usage of a pod from that of the node, and return it."""
        amounts = self.pods.get_amounts(index)
        self.used = list(map(int.__sub__, self.used, amounts))
        return amounts

    def run(self) -> None:
        """Check pods until the node is below its limits."""
        hot, limits, budget = self.hot, self.limits, self.inputs.budget
        plans_targets = self.differences.planned_targets
        excess = list(map(int.__sub__, self.used, limits))
        order = self.pods.sort(excess, self.pool.pool.weights)
        fitting = None if plans_targets else self._find_fitting()
        if self.differences.order_by_uid and self.inputs.no_eviction_last:
            order.sort(key=self._prefers_no_eviction)
        for index in order:
            if not self._is_in_phase(index) or (fitting is not None and index not in fitting):
                continue
            over = list(map(int.__gt__, self.used, limits))
            if True not in over:
                counters = self.pool.shared.counters
                counters.reset(hot.name, self.pool.pool, hot.phase, self.inputs.now_ms)
                break
            room = self.evictions.total_room
            if room is not None and min(room) <= 0:
                hot.end_reason = "the targets have no room left"
                return
            if plans_targets:
                if budget.is_spent:
                    hot.end_reason = PODS_NOT_CHECKED
                    return
                budget.spend()
                gate = self._find_gate(index, over)
                budget.spend(PODS_PER_UNIT * self.evictions.fit.take_units())
                if gate is not None:
                    hot.note(Verdict(self.pods.held[index].pod, gate.name, gate.text))
                    continue
            if self._move(index):
                if self.pods.usages[index] is not None:
                    amounts = self._subtract(index)
                    if room is not None:
                        room[:] = map(int.__sub__, room, amounts)
            elif hot.end_reason:
                return
        if any(map(int.__gt__, self.used, limits)):
            hot.end_reason = "no other pod may leave"
        elif not hot.moved:
            hot.end_reason = "pods that are already leaving bring the node below its thresholds"

    def _is_in_phase(self, index: int) -> bool:
        if self.hot.phase == "prod" and not self.pods.prod[index]:
            return False
        return self.pods.bound[index] or not self.differences.live_usage

    def _prefers_no_eviction(self, index: int) -> bool:
        return NO_EVICTION_ANNOTATION in self.pods.held[index].pod.annotations

    def _find_fitting(self) -> set[int]:
        """Return the pods that may leave, by Koordinator's rules; nodeFit uses room for each of them."""
        self.inputs.budget.spend(len(self.pods.held))
        phase, fitting = self.hot.phase, set()
        for index, held in enumerate(self.pods.held):
            if not self._is_in_phase(index):
                continue
            gate = self._find_lasting_gate(held)
            if gate is None and self.evictions.node_fit:
                gate = self._reserve(index, phase)
            self.inputs.budget.spend(PODS_PER_UNIT * self.evictions.fit.take_units())
            if gate is None:
                fitting.add(index)
            else:
                self.hot.note(Verdict(held.pod, gate.name, gate.text))
        return fitting

    def _reserve(self, index: int, phase: Phase) -> Gate | None:
        usage = self.pods.usages[index]
        if usage is None:
            return Gate("unmeasured", "the pod's usage is unknown")
        targets = self.evictions.targets
        group = self.evictions.fit.find_group(self.pods.held[index], phase)
        # nodeFit ignores the number of pods (B5).
        amounts = [
            0 if name == "pods" else usage.get(name, 0) for name in self.pool.nodes.resources
        ]
        prod = self.pods.prod[index]
        target = targets.find_target(amounts, group, phase, prod=prod)
        if target is None:
            return Gate("fit", f"none of {len(self.evictions.names)} targets accepts the pod")
        targets.use_room(target, amounts, group, phase, prod=prod)
        return None

    def _find_lasting_gate(self, held: HeldPod) -> Gate | None:
        pod_filter = self.pool.shared.pod_filter
        self.inputs.budget.spend(pod_filter.units)
        gate = pod_filter.find_gate(held)
        if gate is not None:
            return gate
        protection = self.inputs.rules.explain_protection(held)
        return None if protection is None else Gate("filter", protection)

    def _find_gate(self, index: int, over: list[bool]) -> Gate | None:
        """Return the first gate before the gates of migrations; None if there is none."""
        if index in self.pods.leaving:
            return Gate("leaving", "the pod is already leaving")
        gate = self._find_lasting_gate(self.pods.held[index])
        if gate is not None:
            return gate
        if self.pods.usages[index] is None:
            return Gate("unmeasured", "the pod's usage is unknown")
        usage = self.pods.get_usage(index)
        exceeded = list(compress(self.pool.nodes.resources, over))
        if not any(usage.get(name) for name in exceeded):
            if not usage.keys() >= set(exceeded):
                return Gate("unmeasured", "the pod's usage of an exceeded resource is unknown")
            return Gate("uninvolved", "the pod uses none of the exceeded resources")
        return None

    def _move(self, index: int) -> bool:
        """Plan the move of a pod, with a target by loadstream's rules; return False if the pod stays."""
        held, hot, rules = self.pods.held[index], self.hot, self.inputs.rules
        gate = rules.check_pod(held, hot.name)
        if gate is not None:
            self._refuse(index, gate)
            return False
        target = None
        if self.differences.planned_targets:
            amounts = self.pods.estimate_on_target(index)
            target = self._find_target(index, amounts)
        needs_no_target = self.differences.planned_targets and target is None
        if needs_no_target and not self._may_leave_without_target(held):
            gate = self._explain_no_target(index)
            hot.note(Verdict(held.pod, gate.name, gate.text))
            return False
        excess = self.pool.describe_excess(hot.phase, self.position, self.used, self.limits)
        reason = f"node is overutilized, {excess}"
        if needs_no_target:
            reason += (
                f"; no target accepts this {held.kind.priority_class} pod, and the open window has "
                "evictWithoutTarget"
            )
        candidate = Candidate(
            held=held,
            node=hot.name,
            pool=self.pool.pool.name,
            phase=hot.phase,
            reason=reason,
            target=None if target is None else self.evictions.names[target],
            usage=self.pods.get_usage(index),
            # Without a target there is no room to reserve.
            mode="EvictDirectly" if needs_no_target else None,
            source_hot=True,
        )
        gate = rules.propose(candidate)
        if gate is not None:
            self._refuse(index, gate, candidate)
            return False
        if target is not None:
            prod, group = self.pods.prod[index], self.evictions.fit.find_group(held, hot.phase)
            self.evictions.targets.use_room(target, amounts, group, hot.phase, prod=prod)
        hot.note(Verdict(held.pod, "", "", candidate.target, candidate.usage))
        self.pool.outcome.moves.append(candidate)
        return True

    def _refuse(self, index: int, gate: Gate, candidate: Candidate | None = None) -> None:
        """Record the gate that stops a pod, and by its scope also later pods."""
        target = None if candidate is None else candidate.target
        usage = self.pods.get_usage(index)
        pod = self.pods.held[index].pod
        self.hot.note(Verdict(pod, "gate", gate.text, target, usage))
        if gate.scope != "pod":
            self.hot.end_reason = gate.text
        if gate.scope == "round":
            self.evictions.outcome.end_reason = gate.text

    # --- targets ----------------------------------------------------------------------------------

    def _find_target(self, index: int, amounts: list[int]) -> int | None:
        """Return the position of the best target that is not excluded for the pod."""
        evictions, phase, held = self.evictions, self.hot.phase, self.pods.held[index]
        prod, group = self.pods.prod[index], evictions.fit.find_group(held, phase)
        best = evictions.targets.find_target(amounts, group, phase, prod=prod)
        if best is None:
            return None
        avoided = self.inputs.exclusions.list_excluded_names(held.pod, self.inputs.now_ms)
        if evictions.names[best] not in avoided:
            return best
        positions = [position for position, name in enumerate(evictions.names) if name in avoided]
        return evictions.targets.find_target(amounts, group, phase, prod=prod, avoided=positions)

    def _may_leave_without_target(self, held: HeldPod) -> bool:
        is_allowed_now = self.pool.thresholds.without_target
        return is_allowed_now and held.kind.priority_class in _CLASSES_WITHOUT_TARGET

    def _explain_no_target(self, index: int) -> Gate:
        evictions, phase, held = self.evictions, self.hot.phase, self.pods.held[index]
        if not evictions.names.size:
            text = "there is no target, and only batch and free pods leave without a target"
            return Gate("fit", text)
        count = int(evictions.targets_by_phase[phase].sum())
        if not count:
            subject = "prod pods" if phase == "prod" else "the whole node"
            lowest, usage = self.pool.find_lowest(phase)
            detail = f": the lowest is {self.pool.names[lowest]} at {usage}" if usage else ""
            return Gate("fit", f"no node is below all low thresholds of {subject}{detail}")
        allowed = int(evictions.fit.find_group(held, phase).mask.sum())
        if not allowed:
            return Gate("fit", f"none of {count} targets can run the pod")
        amounts = zip(self.pool.nodes.resources, self.pods.estimate_on_target(index), strict=True)
        text = ", ".join(f"{name} {amount}" for name, amount in amounts)
        return Gate(
            "room",
            f"none of {allowed} targets that can run the pod has room for it, or all of them are "
            f"excluded for it: it is expected to use {text}",
        )
