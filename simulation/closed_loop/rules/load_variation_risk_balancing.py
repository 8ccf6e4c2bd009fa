"""Trimaran's LoadVariationRiskBalancing: balances mean usage plus its standard deviation.

    score = (1 - (mu + margin * sigma^(1 / sensitivity)) / 2) * 100

mu is the measured mean plus the request of the pod, and sigma the measured standard deviation, both as
shares of the node from 0 to 1. Margin and sensitivity are 1. A node gets the lower score of CPU and
memory, rounded. If only one resource is measured, the other scores 0, and the node gets the higher score.

Source: kubernetes-sigs/scheduler-plugins, pkg/trimaran/loadvariationriskbalancing, `computeScore`
of analysis.go and `Score` of loadvariationriskbalancing.go, with `GetMuSigma` of
pkg/trimaran/resourcestats.go. As upstream, the score ignores placed pods that are not measured yet.
"""

import numpy as np
from numpy.typing import NDArray

from simulation.closed_loop.rules.view import Array, NodesView, choose_best, find_nodes_with_room


def score_resources(
    mean: Array,
    deviation: Array,
    request: Array,
    capacity: Array,
    margin: float = 1.0,
    sensitivity: float = 1.0,
) -> Array:
    """Score each resource of each node, from 0 to 100, not rounded; shape (nodes, resources).

    Args:
        mean: measured usage; nan if not measured, which scores 0; shape (nodes, resources).
        deviation: standard deviation of usage; nan counts as 0; shape (nodes, resources).
        request: request of the pod; shape (resources,).
        capacity: capacity of the nodes; a capacity of 0 scores 0; shape (nodes, resources).
        margin: factor of the deviation.
        sensitivity: the deviation has the exponent 1 / sensitivity; 0: ignored; below 0: as 1.
    """
    has_capacity = capacity > 0
    divisor = np.where(has_capacity, capacity, 1.0)
    demand = np.maximum(request, 0.0)
    used = np.clip(np.nan_to_num(mean), 0.0, capacity)
    mu = np.clip((used + demand) / divisor, 0.0, 1.0)
    sigma = np.clip(np.nan_to_num(deviation) / divisor, 0.0, 1.0)
    if sensitivity >= 0:
        # With upstream's exponent of 1 / 0, a deviation below the whole node becomes 0.
        power = 1 / sensitivity if sensitivity else np.inf
        sigma = np.power(sigma, power)
    sigma = np.clip(sigma * margin, 0.0, 1.0)
    return np.where(has_capacity & ~np.isnan(mean), (1 - (mu + sigma) / 2) * 100, 0.0)


def score_nodes(request: Array, view: NodesView) -> NDArray[np.int64]:
    """Return the score of each node from 0 to 100; shape (nodes,)."""
    scores = score_resources(view.measured, view.deviation, request, view.allocatable)
    both_measured = ~np.isnan(view.measured).any(axis=1)
    total: Array = np.where(both_measured, scores.min(axis=1), scores.max(axis=1))
    return np.floor(total + 0.5).astype(np.int64)


def choose(request: Array, view: NodesView, random: np.random.Generator) -> int | None:
    return choose_best(score_nodes(request, view), find_nodes_with_room(request, view), random)
