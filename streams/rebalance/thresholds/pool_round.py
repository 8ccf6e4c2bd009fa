"""One pool's part of a round: classifies nodes, and counts their hot and calm rounds.

The results are the class of each node, the hot nodes, the abnormal nodes, whose pods may leave, and the
targets. `evictions` then checks pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from schemas.policy import LowNodeLoadArgs
from streams.rebalance.candidates import Phase
from streams.rebalance.differences import Differences
from streams.rebalance.inputs import PodFilter, RoundInput, describe_fresh_metric
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    PROD_HIGH,
    PROD_LOW,
    SKIPPED,
    UNLIMITED,
    HotNodeOutcome,
    PoolOutcome,
    PoolReadings,
    PoolThresholds,
)
from streams.rebalance.thresholds.counters import Counters
from streams.rebalance.thresholds.limits import (
    PoolNodes,
    classify,
    compute_limits,
    convert_to_percentages,
)
from streams.rebalance.thresholds.order import order_nodes
from streams.rebalance.thresholds.pools import Pool
from streams.stage.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class PoolsContext:
    """Arguments and state that the pools of a policy share."""

    args: LowNodeLoadArgs
    differences: Differences
    pod_filter: PodFilter
    counters: Counters


class PoolRound:
    """One pool's part of a round; positions are those of `PoolNodes`."""

    def __init__(
        self,
        shared: PoolsContext,
        pool: Pool,
        thresholds: PoolThresholds,
        inputs: RoundInput,
        members: BoolArray,
        nodes: PoolNodes,
    ) -> None:
        self.shared, self.pool, self.thresholds = shared, pool, thresholds
        self.inputs, self.nodes = inputs, nodes
        differences, columns = shared.differences, inputs.columns
        self.limits = compute_limits(thresholds, nodes, differences)
        self.codes: IntArray = classify(nodes, self.limits)
        self.names: list[str] = columns.names[nodes.rows].tolist()
        high: dict[Phase, IntArray] = {"node": self.limits.high}
        if self.limits.prod_high is not None:
            high["prod"] = self.limits.prod_high
        self.readings = PoolReadings(
            self.names,
            nodes.resources,
            {"node": nodes.usage, "prod": nodes.prod_usage},
            high,
            nodes.capacity,
        )
        self.abnormal: dict[Phase, list[int]] = {"node": [], "prod": []}
        """Hot nodes whose pods may leave, most used first."""
        self.targets: IntArray = np.zeros(0, dtype=np.int64)
        """Nodes that may get pods."""
        self._lowest: dict[Phase, tuple[int, str]] = {}
        all_rows = np.flatnonzero(members)
        codes = np.full(all_rows.size, SKIPPED, dtype=np.int8)
        codes[np.searchsorted(all_rows, nodes.rows)] = self.codes
        needed = pool.condition.consecutive_abnormalities
        self.outcome = PoolOutcome(
            name=pool.name,
            thresholds=convert_to_percentages(thresholds, nodes, differences),
            resources=nodes.resources,
            names=columns.names[all_rows].tolist(),
            codes=codes,
            rounds_needed=needed if differences.consecutive_counts else 0,
            readings=self.readings if differences.cooled_moves_end else None,
            memory=columns.count_memory_kinds(nodes.rows, nodes.resources),
        )

    # --- figures ----------------------------------------------------------------------------------

    def describe_excess(
        self, phase: Phase, position: int, used: Sequence[int], limits: Sequence[int]
    ) -> str:
        """Return the usage that exceeds thresholds, in Koordinator's words (upstream.md B5).

        Koordinator names only resources with a high threshold, and configured percentages even by
        deviation.
        """
        thresholds, as_given = self.thresholds, self.shared.differences.thresholds_as_given
        percents = thresholds.high if phase == "node" else thresholds.prod_high
        texts = []
        for name, amount, limit, capacity in zip(
            self.nodes.resources,
            used,
            limits,
            self.nodes.capacity[:, position].tolist(),
            strict=True,
        ):
            if amount <= limit or not (as_given or name in thresholds.high):
                continue
            percent = float(percents.get(name, 0))
            if as_given and thresholds.deviation:
                percent = 100 * limit / capacity if capacity else 0.0
            usage = 100 * amount / capacity if capacity else 0
            texts.append(f"{phase} {name} usage({usage:.2f}%)>threshold({percent:.2f}%)")
        return ", ".join(texts)

    # --- the round --------------------------------------------------------------------------------

    def count_round(self) -> bool:
        """Count the round for each node; return whether pods are to be checked."""
        if not self.nodes.resources:
            self.outcome.end_reason = "the pool has no thresholds"
            return False
        self._count_phase("node", HIGH)
        if self.limits.prod_high is not None:
            self._count_phase("prod", PROD_HIGH)
        self.outcome.end_reason = self._find_end()
        return not self.outcome.end_reason

    def count_evictions(self) -> None:
        """Count the round again for abnormal nodes, after their pods were checked."""
        for phase, abnormal in self.abnormal.items():
            names = [self.names[position] for position in abnormal]
            self.shared.counters.count_evictions(names, self.pool, phase, self.inputs.now_ms)

    def _find_end(self) -> str:
        """Return why no pod is checked; empty if pods are checked (docs/reference/upstream.md L3)."""
        if not self.outcome.names:
            return "the pool has no nodes"
        if not self.names:
            return f"no node of the pool has {describe_fresh_metric(self.nodes.resources, 'or')}"
        if not self.outcome.hot:
            return "no node is above a high threshold"
        if not any(self.abnormal.values()):
            needed = self.pool.condition.consecutive_abnormalities
            return f"no node has been hot for enough rounds; consecutiveAbnormalities is {needed}"
        self.targets = self._find_targets()
        self.outcome.targets = count = self.targets.size
        required = self.shared.args.number_of_nodes
        if count:
            self._reset_calm()
        if count > required:
            return ""
        if self.thresholds.without_target:
            self.targets = self.targets[:0]
            return ""
        if not count:
            return self._explain_no_target()
        nodes = "node is" if count == 1 else "nodes are"
        return (
            f"{count} {nodes} below the low thresholds; numberOfNodes requires more than {required}"
        )

    def _explain_no_target(self) -> str:
        lowest, usage = self.find_lowest("node")
        name = self.names[lowest]
        if usage:
            return f"no node is below all low thresholds: the lowest is {name} at {usage}"
        reason = "was hot lately" if self.nodes.schedulable[lowest] else "is cordoned"
        return f"no node below all low thresholds accepts pods: {name} {reason}"

    def find_lowest(self, phase: Phase) -> tuple[int, str]:
        """Return the position of the node nearest to its low limits, and its usage above them as text."""
        if phase in self._lowest:
            return self._lowest[phase]
        prod_low = self.limits.prod_low
        low = self.limits.low if phase == "node" or prod_low is None else prod_low
        used, capacity = self.readings.used[phase], np.maximum(self.nodes.capacity, 1)
        excess = (used - low) / capacity
        distance = excess.max(axis=0)
        distance[(distance > 0) & ~self.nodes.schedulable] += UNLIMITED
        lowest = int(distance.argmin())
        shares = zip(self.nodes.resources, used[:, lowest] / capacity[:, lowest], strict=True)
        exceeding = compress(shares, excess[:, lowest] > 0)
        text = " and ".join(f"{name} {100 * share:.1f} %" for name, share in exceeding)
        self._lowest[phase] = lowest, text
        return lowest, text

    def _count_phase(self, phase: Phase, code: int) -> None:
        """Count a hot round for nodes of the class, and a calm round for others that have a counter."""
        counters, now_ms = self.shared.counters, self.inputs.now_ms
        hot_positions = np.flatnonzero(self.codes == code)
        hot = {self.names[position] for position in hot_positions.tolist()}
        calm = [
            name
            for name in counters.list_counted(self.pool, phase)
            if name not in hot and self.readings.find_position(name) is not None
        ]
        counters.count_calm(calm, self.pool, phase, now_ms)
        order = order_nodes(self.nodes, hot_positions, self.pool.weights, phase)
        # Converting all nodes costs as much as converting one.
        figures = zip(
            order,
            self.readings.used[phase][:, order].T.tolist(),
            self.readings.limits[phase][:, order].T.tolist(),
            self.nodes.capacity[:, order].T.tolist(),
            strict=True,
        )
        waiting = []
        for position, used, limits, capacity in figures:
            name = self.names[position]
            is_abnormal, rounds = counters.count_hot(name, self.pool, phase, now_ms)
            hot_node = HotNodeOutcome(
                name=name,
                phase=phase,
                rounds=rounds,
                abnormal=is_abnormal,
                readings=self.readings.build_readings(used, limits, capacity),
                end_reason="" if is_abnormal else counters.describe_wait(rounds, self.pool),
            )
            if is_abnormal:
                self.abnormal[phase].append(position)
                self.outcome.hot.append(hot_node)
            else:
                waiting.append(hot_node)
        self.outcome.hot += waiting

    def _find_targets(self) -> IntArray:
        """Return the nodes that may get pods: low nodes that are not abnormal.

        By Koordinator's rules, nodes below both low thresholds come last.
        """
        low = np.isin(self.codes, (LOW, BOTH_LOW, PROD_LOW))
        abnormal = map(self.inputs.columns.find_row, self.shared.counters.list_abnormal(self.pool))
        low &= ~np.isin(self.nodes.rows, [row for row in abnormal if row is not None])
        targets = np.flatnonzero(low)
        if self.shared.differences.planned_targets:
            return targets
        ordered: IntArray = targets[np.argsort(self.codes[targets] == BOTH_LOW, kind="stable")]
        return ordered

    def _reset_calm(self) -> None:
        """End the abnormal state of targets, by Koordinator's rules (docs/reference/upstream.md B5)."""
        counters, now_ms = self.shared.counters, self.inputs.now_ms
        if self.shared.differences.consecutive_counts:
            return
        for position in self.targets.tolist():
            phase: Phase = "prod" if self.codes[position] == PROD_LOW else "node"
            counters.reset(self.names[position], self.pool, phase, now_ms)
