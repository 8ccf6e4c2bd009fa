"""Order of hot nodes, and of the pods on them.

Nodes are sorted by the weighted mean of their usage in thousandths of capacity, each at most 1000,
highest first, then by name (docs/reference/upstream.md B4.1, B5.8).

Pods are sorted by the keys of `eviction_keys`, then by score, then youngest first
(docs/reference/upstream.md B4.2). The score prefers the pod that just covers the excess:

    x     = usage of the pod / excess of its node before the first move    per exceeded resource
    s(x)  = x if x < 1 else 1 + 1 / x
    score = weighted mean of s(x) over the resources in which the pod was measured
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from schemas.base.message import INT64_MAX
from streams.pods.held_pod import HeldPod, is_overdue
from streams.rebalance.candidates import Phase
from streams.rebalance.node_figures import UNMEASURED, NodeFigures, ReadingRules
from streams.rebalance.thresholds.limits import PoolNodes
from streams.stage.arrays import FloatArray, IntArray

_THOUSAND = 1_000
#: The product of 1000 and a larger amount may exceed 64 bits.
_EXACT_MAX = 2**53


def order_nodes(
    nodes: PoolNodes, chosen: IntArray, weights: Mapping[str, int], phase: Phase
) -> IntArray:
    """Return the positions of the chosen nodes, most used first.

    Args:
        nodes: the pool's nodes.
        chosen: positions of nodes in ascending order.
        weights: weights by resource, default 0; `pods` counts even without a threshold.
        phase: whether usage of the whole node or of its prod pods counts.
    """
    names = list(nodes.resources)
    if "pods" not in names and weights.get("pods"):
        names.append("pods")
        nodes = PoolNodes(nodes.columns, nodes.rows, names)
    usage = nodes.usage if phase == "node" else nodes.prod_usage
    node_weights = [weights.get(name, 0) for name in names]
    weight_sum = sum(node_weights)
    # Sums with large weights may exceed 64 bits, but not Python's integers.
    too_large = max(_THOUSAND * sum(map(abs, node_weights)), abs(weight_sum)) > INT64_MAX
    total = np.zeros(chosen.size, dtype=object if too_large else np.int64)
    for index, weight in enumerate(node_weights):
        if weight:
            share = compute_thousandths(usage[index, chosen], nodes.capacity[index, chosen])
            total += share.astype(total.dtype, copy=False) * weight
    scores = total // weight_sum if weight_sum else np.zeros_like(total)
    ordered: IntArray = chosen[np.argsort(-scores, kind="stable")]
    return ordered


def compute_thousandths(used: IntArray, capacity: IntArray) -> IntArray:
    """Return the used thousandths of capacity, truncated, at most 1000; 0 without capacity."""
    capped = np.minimum(used, capacity)
    if capacity.size and int(capacity.max()) > _EXACT_MAX:
        pairs = zip(capped.tolist(), capacity.tolist(), strict=True)
        return np.array([a * _THOUSAND // b if b else 0 for a, b in pairs], dtype=np.int64)
    result: IntArray = np.zeros_like(capped)
    np.floor_divide(capped * _THOUSAND, capacity, out=result, where=capacity > 0)
    return result


def compute_pod_scores(
    used: IntArray, excess: FloatArray, weights: FloatArray, in_metric: Sequence[bool]
) -> FloatArray:
    """Return the scores of pods, shape (pods,); negative for pods without a measurement.

    Args:
        used: usage or `UNMEASURED`, shape (pods, resources).
        excess: usage of the pod's node above each limit, shape (pods, resources) or (resources,).
        weights: shape (resources,).
        in_metric: whether each pod is in the metric.
    """
    over = excess > 0
    measured = used != UNMEASURED
    # The order of operations is Koordinator's, so that the same pods have equal scores.
    share = np.divide(used, excess, out=np.zeros(used.shape), where=over & measured)
    beyond = np.divide(1.0, share, out=np.zeros(used.shape), where=share >= 1)
    values = np.where(share < 1, share, 1 + beyond)
    weight = np.where(over & measured, weights, 0.0)
    total = np.zeros(used.shape[0])
    weight_sum = np.zeros(used.shape[0])
    for index in range(used.shape[1]):
        total += values[:, index] * weight[:, index]
        weight_sum += weight[:, index]
    scores = np.divide(total, weight_sum, out=np.zeros_like(total), where=weight_sum > 0)
    scores[~np.array(in_metric, dtype=np.bool_)] = -1.0
    return scores


class HotPods:
    """The pods of all hot nodes in flat lists, node by node."""

    def __init__(
        self,
        figures: Sequence[NodeFigures],
        column_indexes: IntArray,
        reading_rules: ReadingRules,
        leaving: Collection[str],
        now_ms: int,
    ) -> None:
        """Flatten the pods of the hot nodes.

        Args:
            figures: the hot nodes.
            column_indexes: positions of the pool's resources in the columns.
            reading_rules: resources and rules of the columns.
            leaving: uids of pods that are already leaving. Overdue pods count as staying.
            now_ms: log time of the round.
        """
        self._figures = figures
        used = np.concatenate([node.pod_usage for node in figures])
        self._rows: list[list[int]] = used.tolist()
        self._names = reading_rules.resources
        self._column_indexes: list[int] = column_indexes.tolist()
        self.used: IntArray = used[:, column_indexes]
        """Usage or `UNMEASURED`, shape (pods, resources of the pool)."""
        amounts = np.maximum(used, 0)
        amounts[:, reading_rules.pods_index] = 1
        self.amounts: list[list[int]] = amounts[:, column_indexes].tolist()
        """Usage that the move of each pod removes from its node."""
        self.in_metric: list[bool] = []
        """Whether each pod is in the metric, even if it lacks some resources there."""
        self.held: list[HeldPod] = []
        self.prod: list[bool] = []
        self.bound: list[bool] = []
        """False if room is only reserved for the pod."""
        self.leaving: dict[int, int] = {}
        """Positions of the nodes of pods that are already leaving, by position of the pod."""
        for position, node in enumerate(figures):
            pods, begin = node.pods, len(self.held)
            self.in_metric += node.in_metric
            self.held += pods.held
            self.prod += pods.prod
            self.bound += pods.bound
            leaving_indexes = pods.terminating
            if leaving:
                leaving_indexes = [
                    index
                    for index, pod in enumerate(pods.pods)
                    if pod.deleting_at_ms is not None or pod.uid in leaving
                ]
            self.leaving.update(
                {
                    begin + index: position
                    for index in leaving_indexes
                    if pods.bound[index] and not is_overdue(pods.pods[index], now_ms)
                }
            )

    def get_usage(self, index: int) -> dict[str, int]:
        """Return the measured usage of a pod by resource."""
        used = zip(self._names, self._rows[index], strict=True)
        usage = {name: amount for name, amount in used if amount != UNMEASURED}
        usage["pods"] = 1
        return usage

    def estimate_on_target(self, index: int) -> list[int]:
        """Return the usage that a pod is expected to add to a target, by resource of the pool.

        If the measured usage is unknown, the estimate of the pod is used. Without an estimate, its request is used.
        """
        amounts, kind, usage = self.amounts[index], self.held[index].kind, self.get_usage(index)
        names = [self._names[column] for column in self._column_indexes]
        node = self._figures[0].node
        if node is None or usage.keys() >= set(names):
            return amounts
        estimator = node.usage.estimator
        estimate = dict(zip(estimator.resources, estimator.estimate(kind).added, strict=True))
        return [
            amount if name in usage else estimate.get(name) or kind.demand.requests.get(name, 0)
            for name, amount in zip(names, amounts, strict=True)
        ]

    def sort(self, excess: FloatArray, weights: FloatArray) -> list[int]:
        """Return the positions of the pods in the order of eviction, node by node.

        `excess` is the usage of the nodes above their limits, shape (resources, nodes).
        """
        sizes = [len(node.pods.held) for node in self._figures]
        node_of_pod = np.repeat(np.arange(len(sizes)), sizes)
        scores = compute_pod_scores(self.used, excess.T[node_of_pod], weights, self.in_metric)
        keys = np.concatenate([node.pods.keys for node in self._figures])
        columns = [keys[:, 3], -scores, keys[:, 2], keys[:, 1], keys[:, 0]]
        # Sorting by a column of equal values takes as long and changes nothing.
        varying = [column for column in columns if column.size and column.min() != column.max()]
        order: list[int] = np.lexsort((*varying, node_of_pod)).tolist()
        return order


def build_pod_weights(resources: Sequence[str], weights: Mapping[str, int]) -> FloatArray:
    """Return the weights of resources for the scores of pods; the weight of `pods` is 0."""
    return np.array([0.0 if name == "pods" else float(weights.get(name, 0)) for name in resources])
