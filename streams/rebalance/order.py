"""Which hot node comes first, and which of its pods.

Nodes: by the weighted mean of their usage in thousandths of capacity, each at most 1000, highest
first; equal ones by name (docs/upstream.md B4.1, B5.8).

Pods: by the six keys of `costs`, then by usage, then youngest first (docs/upstream.md B4.2). The
score by usage prefers the pod that just covers the excess: per resource that is over, with x =
usage / excess, it is x below 1 and 1 + 1/x from there on; a pod's score is the weighted mean over
the resources that it was measured in. The excess is that before the node's first move.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.base import INT64_MAX
from streams.inventory.arrays import FloatArray, IntArray
from streams.rebalance.node_arrays import UNMEASURED, NodeFigures, Universe
from streams.rebalance.pools import PoolNodes

_THOUSAND = 1_000
#: Products with a thousand stay within 64 bits up to here.
_EXACT_MAX = 2**53


def by_usage(
    nodes: PoolNodes,
    usage: IntArray,
    chosen: IntArray,
    weights: Mapping[str, int],
    divisor: int | None = None,
) -> IntArray:
    """Positions of nodes in the order in which their pods are looked at, most used first.

    Args:
        nodes: the pool's nodes.
        usage: what they are ordered by, shape (resources, nodes).
        chosen: positions of the hot ones, ascending.
        weights: per resource; one that is not named has none.
        divisor: sum of the weights; None: of those of the pool's resources.
    """
    counting = [weights.get(name, 0) for name in nodes.resources]
    weight_sum = sum(counting) if divisor is None else divisor
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


def pods_in_order(
    figures: Sequence[NodeFigures],
    used: IntArray,
    excess: FloatArray,
    weights: FloatArray,
    metered: Sequence[bool],
) -> IntArray:
    """Order of the pods of several nodes, worked out for all of them at once.

    Pods that are equal in all keys stay in the order in which the figures have them.

    Args:
        figures: the nodes in their order.
        used: usage of all their pods, one node's after the other's, shape (pods, resources).
        excess: usage of the nodes beyond the limit, shape (resources, nodes).
        weights: shape (resources,).
        metered: whether anything of each pod was measured, one node's pods after the other's.

    Returns:
        Positions in `used`, those of the first node first.
    """
    node = np.repeat(np.arange(len(figures)), [len(each.pods.held) for each in figures])
    scores = pod_scores(used, excess.T[node], weights, metered)
    keys = np.concatenate([each.pods.keys for each in figures])
    columns = [keys[:, 3], -scores, keys[:, 2], keys[:, 1], keys[:, 0]]
    # What all pods have in common orders none of them, and sorting by it takes as long.
    telling = [each for each in columns if each.size and each.min() != each.max()]
    order: IntArray = np.lexsort((*telling, node))
    return order


def weights_of(nodes: PoolNodes, weights: Mapping[str, int], universe: Universe) -> FloatArray:
    """Weights of the pool's resources; `pods` has none among a pod's usage."""
    return np.array(
        [0.0 if name == "pods" else float(weights.get(name, 0)) for name in nodes.resources]
    )
