"""Which hot node comes first, and which of its pods.

Nodes: by the weighted mean of their usage in thousandths of capacity, each at most 1000, highest
first; equal ones by name (docs/reference/upstream.md B4.1, B5.8).

Pods: by the six keys of `costs`, then by usage, then youngest first (docs/reference/upstream.md B4.2). The
score by usage prefers the pod that just covers the excess: per resource that is over, with x =
usage / excess, it is x below 1 and 1 + 1/x from there on; a pod's score is the weighted mean over
the resources that it was measured in. The excess is that before the node's first move.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from schemas.base.message import INT64_MAX
from streams.pods.held import Held, is_overdue
from streams.rebalance.candidates import Phase
from streams.rebalance.node_arrays import UNMEASURED, NodeFigures, Universe
from streams.rebalance.thresholds.limits import PoolNodes
from streams.stage.arrays import FloatArray, IntArray

_THOUSAND = 1_000
#: Products with a thousand stay within 64 bits up to here.
_EXACT_MAX = 2**53


def order_nodes(
    nodes: PoolNodes, chosen: IntArray, weights: Mapping[str, int], phase: Phase
) -> IntArray:
    """Positions of nodes in the order in which their pods are looked at, most used first.

    The number of pods weighs in where the weights name it, also without a threshold.

    Args:
        nodes: the pool's nodes.
        chosen: positions of the hot ones, ascending.
        weights: per resource; one that is not named has none.
        phase: whether the usage of the whole node or of its prod pods counts.
    """
    names = list(nodes.resources)
    if "pods" not in names and weights.get("pods"):
        names.append("pods")
        nodes = PoolNodes(nodes.columns, nodes.rows, names)
    usage = nodes.usage if phase == "node" else nodes.prod_usage
    counting = [weights.get(name, 0) for name in names]
    weight_sum = sum(counting)
    # Sums of large weights leave 64 bits; Python's integers do not.
    exact = max(_THOUSAND * sum(map(abs, counting)), abs(weight_sum)) > INT64_MAX
    total = np.zeros(chosen.size, dtype=object if exact else np.int64)
    for index, weight in enumerate(counting):
        if weight:
            share = thousandths(usage[index, chosen], nodes.capacity[index, chosen])
            total += share.astype(total.dtype, copy=False) * weight
    scores = total // weight_sum if weight_sum else np.zeros_like(total)
    ordered: IntArray = chosen[np.argsort(-scores, kind="stable")]
    return ordered


def thousandths(used: IntArray, capacity: IntArray) -> IntArray:
    """Truncated thousandths of the capacity that are used, at most 1000; 0 without capacity."""
    capped = np.minimum(used, capacity)
    if capacity.size and int(capacity.max()) > _EXACT_MAX:
        pairs = zip(capped.tolist(), capacity.tolist(), strict=True)
        return np.array([a * _THOUSAND // b if b else 0 for a, b in pairs], dtype=np.int64)
    parts: IntArray = np.zeros_like(capped)
    np.floor_divide(capped * _THOUSAND, capacity, out=parts, where=capacity > 0)
    return parts


def pod_scores(
    used: IntArray, excess: FloatArray, weights: FloatArray, metered: Sequence[bool]
) -> FloatArray:
    """Score by usage of pods, shape (pods,); below 0 where nothing of the pod was measured.

    Args:
        used: usage, shape (pods, resources), `UNMEASURED` where it was not.
        excess: what the pod's node uses beyond each limit, shape (pods, resources) or (resources,);
            not above 0 where the resource is not over.
        weights: shape (resources,).
        metered: whether anything of each pod was measured, even of other resources only.
    """
    over = excess > 0
    measured = used != UNMEASURED
    # Divided as Koordinator divides, so that equal pods stay equal and others do not become it.
    share = np.divide(used, excess, out=np.zeros(used.shape), where=over & measured)
    beyond = np.divide(1.0, share, out=np.zeros(used.shape), where=share >= 1)
    each = np.where(share < 1, share, 1 + beyond)
    weight = np.where(over & measured, weights, 0.0)
    total = np.zeros(used.shape[0])
    weight_sum = np.zeros(used.shape[0])
    for index in range(used.shape[1]):
        total += each[:, index] * weight[:, index]
        weight_sum += weight[:, index]
    scores = np.divide(total, weight_sum, out=np.zeros_like(total), where=weight_sum > 0)
    scores[~np.array(metered, dtype=np.bool_)] = -1.0
    return scores


class HotPods:
    """The pods of all nodes that act, one node's after the other's.

    Flat lists, so that a node's turn need not look at the pods themselves.
    """

    def __init__(
        self,
        figures: Sequence[NodeFigures],
        which: IntArray,
        universe: Universe,
        leaving: Collection[str],
        now_ms: int,
    ) -> None:
        """Flatten.

        Args:
            figures: the nodes in the order of their turns.
            which: positions of the pool's resources.
            universe: all resources.
            leaving: uids of pods that leave already.
            now_ms: the log's time; what should have gone before stays.
        """
        self._figures = figures
        whole = np.concatenate([each.used for each in figures])
        self._rows: list[list[int]] = whole.tolist()
        self._names = universe.resources
        self.used: IntArray = whole[:, which]
        """Shape (pods, resources of the pool); `UNMEASURED` where the metric lacks it."""
        amounts = np.maximum(whole, 0)
        amounts[:, universe.pods] = 1
        self.amounts: list[list[int]] = amounts[:, which].tolist()
        """What moving each takes away."""
        self.metered: list[bool] = []
        """Whether the metric says anything of each, even of other resources only."""
        self.held: list[Held] = []
        self.prod: list[bool] = []
        self.bound: list[bool] = []
        """Not those for which room is only reserved."""
        self.leaving: dict[int, int] = {}
        """Pods that leave already, with the position of their node."""
        for place, each in enumerate(figures):
            pods, begin = each.pods, len(self.held)
            self.metered += each.metered
            self.held += pods.held
            self.prod += pods.prod
            self.bound += pods.bound
            gone = pods.terminating
            if leaving:
                gone = [
                    index
                    for index, pod in enumerate(pods.pods)
                    if pod.deleting_at_ms is not None or pod.uid in leaving
                ]
            self.leaving.update(
                {
                    begin + index: place
                    for index in gone
                    if pods.bound[index] and not is_overdue(pods.pods[index], now_ms)
                }
            )

    def usage(self, index: int) -> dict[str, int]:
        """What was measured of a pod, by resource."""
        used = zip(self._names, self._rows[index], strict=True)
        usage = {name: amount for name, amount in used if amount != UNMEASURED}
        usage["pods"] = 1
        return usage

    def order(self, excess: FloatArray, weights: FloatArray) -> list[int]:
        """Positions of the pods in the order of eviction, those of the first node first.

        Pods that are equal in all keys stay in the order in which the figures have them.

        Args:
            excess: usage of the nodes beyond the limit, shape (resources, nodes).
            weights: shape (resources,).
        """
        sizes = [len(each.pods.held) for each in self._figures]
        node = np.repeat(np.arange(len(sizes)), sizes)
        scores = pod_scores(self.used, excess.T[node], weights, self.metered)
        keys = np.concatenate([each.pods.keys for each in self._figures])
        columns = [keys[:, 3], -scores, keys[:, 2], keys[:, 1], keys[:, 0]]
        # What all pods have in common orders none of them, and sorting by it takes as long.
        telling = [each for each in columns if each.size and each.min() != each.max()]
        order: list[int] = np.lexsort((*telling, node)).tolist()
        return order


def pod_weights(resources: Sequence[str], weights: Mapping[str, int]) -> FloatArray:
    """Weights of the pool's resources; `pods` has none among a pod's usage."""
    return np.array([0.0 if name == "pods" else float(weights.get(name, 0)) for name in resources])
