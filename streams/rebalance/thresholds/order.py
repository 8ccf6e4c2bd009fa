"""Order of hot nodes, and of the pods on them.

Nodes are sorted by the weighted mean of their usage in thousandths of capacity, each at most 1000,
highest first, then by name (docs/reference/upstream.md B4, B5).

Pods are sorted by the keys of `eviction_keys`, then by score, then youngest first
(docs/reference/upstream.md B4). The score prefers the pod that just covers the excess:

    x     = usage of the pod / excess of its node before the first move    per exceeded resource
    s(x)  = x if x < 1 else 1 + 1 / x
    score = weighted mean of s(x) over the resources in which the pod was measured
"""

from collections.abc import Collection, Mapping, Sequence

from streams.pods.held_pod import is_overdue
from streams.rebalance.candidates import Phase
from streams.rebalance.eviction_keys import compute_eviction_keys
from streams.rebalance.node_figures import NodeFigures
from streams.rebalance.thresholds.limits import PoolNodes
from streams.stage.arrays import IntArray


def order_nodes(
    nodes: PoolNodes, chosen: IntArray, weights: Mapping[str, int], phase: Phase
) -> list[int]:
    """Return the positions of the chosen nodes, most used first.

    Args:
        nodes: the pool's nodes.
        chosen: positions of nodes in ascending order.
        weights: weights by resource, default 0; `pods` counts even without a threshold.
        phase: whether usage of the whole node or of its prod pods counts.
    """
    if "pods" not in nodes.resources and weights.get("pods"):
        nodes = PoolNodes(nodes.columns, nodes.rows, [*nodes.resources, "pods"])
    usage = nodes.usage if phase == "node" else nodes.prod_usage
    node_weights = [weights.get(name, 0) for name in nodes.resources]
    weight_sum = sum(node_weights)
    if not weight_sum:
        return list(chosen.tolist())
    # Python's integers, because products with large amounts or weights exceed 64 bits.
    amounts = zip(usage[:, chosen].T.tolist(), nodes.capacity[:, chosen].T.tolist(), strict=True)
    scores: dict[int, int] = {}
    for position, (used, capacity) in zip(chosen.tolist(), amounts, strict=True):
        shares = map(_compute_thousandths, used, capacity)
        scores[position] = sum(map(int.__mul__, node_weights, shares)) // weight_sum
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _compute_thousandths(used: int, capacity: int) -> int:
    return 1000 * min(used, capacity) // capacity if capacity else 0


class HotPods:
    """The pods of a hot node, in the order of `NodeFigures`."""

    def __init__(
        self, figures: NodeFigures, resources: Sequence[str], leaving: Collection[str], now_ms: int
    ) -> None:
        """Read the pods of a node.

        Args:
            figures: the node.
            resources: resources of the pool.
            leaving: uids of pods that are already leaving. Overdue pods count as staying.
            now_ms: log time of the round.
        """
        self._figures, self._resources = figures, resources
        pods = figures.pods
        self.held, self.prod, self.bound = pods.held, pods.prod, pods.bound
        self.usages = figures.pod_usages
        """Usage of each pod; None if it was not measured."""
        self.leaving = {
            index
            for index, held in enumerate(pods.held)
            if (held.pod.deleting_at_ms is not None or held.pod.uid in leaving)
            and pods.bound[index]
            and not is_overdue(held.pod, now_ms)
        }
        """Positions of the pods that are already leaving."""

    def get_usage(self, index: int) -> dict[str, int]:
        """Return the measured usage of a pod, and 1 as the number of pods."""
        usage = self.usages[index] or {}
        names = self._figures.reading_rules.resources
        return {name: usage[name] for name in names if name in usage} | {"pods": 1}

    def get_amounts(self, index: int) -> list[int]:
        """Return the usage that the move of a pod removes from its node, by resource of the pool."""
        usage = self.get_usage(index)
        return [usage.get(name, 0) for name in self._resources]

    def estimate_on_target(self, index: int) -> list[int]:
        """Return the usage that a pod is expected to add to a target, by resource of the pool.

        If the measured usage is unknown, the estimate of the pod is used. Without an estimate, its request is used.
        """
        kind, usage = self.held[index].kind, self.get_usage(index)
        node = self._figures.node
        if node is not None and not usage.keys() >= set(self._resources):
            estimator = node.usage.estimator
            estimate = dict(zip(estimator.resources, estimator.estimate(kind).added, strict=True))
            for name in self._resources:
                if name not in usage:
                    usage[name] = estimate.get(name) or kind.demand.requests.get(name, 0)
        return [usage.get(name, 0) for name in self._resources]

    def sort(self, excess: Sequence[int], weights: Mapping[str, int]) -> list[int]:
        """Return the positions of the pods in the order of eviction.

        Args:
            excess: usage of the node above each limit.
            weights: weights by resource, default 0; `pods` does not count.
        """
        exceeded = [
            (name, over, weights.get(name, 0))
            for name, over in zip(self._resources, excess, strict=True)
            if over > 0 and name != "pods"
        ]
        keys = [
            (
                *compute_eviction_keys(held.pod, held.kind),
                -_compute_score(usage, exceeded),
                -(held.pod.created_at_ms or 0),
            )
            for held, usage in zip(self.held, self.usages, strict=True)
        ]
        return sorted(range(len(keys)), key=keys.__getitem__)


def _compute_score(
    usage: Mapping[str, int] | None, exceeded: Sequence[tuple[str, int, int]]
) -> float:
    """Return the score of a pod; `exceeded` has names, excess and weights of resources."""
    if usage is None:
        return -1.0
    # The order of operations is Koordinator's, so that the same pods have equal scores.
    total = weight_sum = 0.0
    for name, over, weight in exceeded:
        amount = usage.get(name)
        if amount is not None:
            share = float(amount) / float(over)
            total += (share if share < 1 else 1 + 1 / share) * weight
            weight_sum += weight
    return total / weight_sum if weight_sum > 0 else 0.0
