"""kube-scheduler's default scores: LeastAllocated and BalancedAllocation, on requests.

The score is the sum of both, each with weight 1, over CPU and memory. The stages have the same scores
as plugins; tests compare the two implementations (docs/reference/upstream.md K1 to K7). For
LeastAllocated, kube-scheduler assumes 100m and 200 MiB for a container without requests. Here only the
pod to be placed gets these amounts, which makes no difference if all pods request both resources.
"""

import numpy as np
from numpy.typing import NDArray

from simulation.closed_loop.rules.view import Array, NodesView, choose_best, find_nodes_with_room

#: Assumed request of a container without a request: millicores and bytes.
DEFAULT_REQUEST = np.array([100.0, 200.0 * 1024 * 1024])

_Integers = NDArray[np.int64]


def score_least_allocated(request: Array, view: NodesView) -> _Integers:
    """Return the mean free percentage of CPU and memory with the pod, from 0 to 100; shape (nodes,).

    Percentages and mean are rounded down. `request` has the shape (2,).
    """
    pod_request = np.where(request == 0, DEFAULT_REQUEST, request)
    capacity = view.allocatable.astype(np.int64)
    free = capacity - (view.requested + pod_request).astype(np.int64)
    has_capacity = capacity != 0
    shares = np.where(free >= 0, free * 100 // np.where(has_capacity, capacity, 1), 0)
    scores: _Integers = (shares * has_capacity).sum(axis=1) // np.maximum(
        has_capacity.sum(axis=1), 1
    )
    return scores


def score_balanced_allocation(request: Array, view: NodesView) -> _Integers:
    """Score how the pod changes the difference between the requested shares of CPU and memory.

    Returns 75 if the difference stays, up to 100 if it shrinks, down to 50 if it grows, and 0 for a pod
    without requests; shape (nodes,). `request` has the shape (2,).
    """
    if not request.any():
        return np.zeros(view.pods.size, dtype=np.int64)
    new_evenness = _compute_evenness(view.requested + request, view.allocatable)
    return 50 + (50 + new_evenness - _compute_evenness(view.requested, view.allocatable)) // 2


def _compute_evenness(requested: Array, allocatable: Array) -> _Integers:
    """Return 100 minus the standard deviation of the two shares in percent; shape (nodes,)."""
    has_capacity = allocatable != 0
    shares = np.minimum(requested / np.where(has_capacity, allocatable, 1.0), 1.0)
    deviation = np.abs((shares[:, 0] - shares[:, 1]) / 2)
    return ((1 - np.where(has_capacity.all(axis=1), deviation, 0.0)) * 100).astype(np.int64)


def choose(request: Array, view: NodesView, random: np.random.Generator) -> int | None:
    scores = score_least_allocated(request, view) + score_balanced_allocation(request, view)
    return choose_best(scores, find_nodes_with_room(request, view), random)
