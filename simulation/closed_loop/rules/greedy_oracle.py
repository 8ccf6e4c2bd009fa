"""A greedy oracle: knows all future demand, and puts each pod on the node that it heats least.

    cost = share of coming steps with CPU demand above 75 % + 4 * mean excess above 75 %

Demand and excess are shares of the node. A pod goes to the node whose cost grows least, and among equal
nodes to the one with the lowest mean demand. The oracle decides pod by pod and moves nothing, so it is
a reference for placement rules and not a bound: a rule may be luckier with later pods, and evictions
may do better.
"""

import numpy as np

from simulation.closed_loop.rules.view import (
    CPU,
    Array,
    NodesView,
    choose_best,
    find_nodes_with_room,
)

#: A node is hot above this share of its cpu.
HOT_SHARE = 0.75
#: Weight of the mean excess, relative to being hot.
EXCESS_WEIGHT = 4.0
#: Weight of the mean demand, which decides between nodes that the pod does not heat.
MEAN_WEIGHT = 1e-4
HORIZON_S = 6 * 3600


def compute_cost(demand: Array, capacity: Array) -> Array:
    """Return the cost of nodes, shape (nodes,).

    Args:
        demand: CPU over time, shape (nodes, steps).
        capacity: above 0, shape (nodes,).
    """
    share = demand / capacity[:, np.newaxis]
    excess = np.maximum(share - HOT_SHARE, 0.0)
    hot = np.count_nonzero(excess, axis=1) / share.shape[1]
    total: Array = hot + EXCESS_WEIGHT * excess.mean(axis=1)
    return total


def choose(request: Array, view: NodesView, random: np.random.Generator) -> int | None:
    """Return the index of the node whose cost grows least. Raises ValueError if the view has no
    future."""
    if view.future is None:
        raise ValueError("the oracle was given a view without future; give it one")
    capacity = view.allocatable[:, CPU]
    room = find_nodes_with_room(request, view) & (capacity > 0)
    nodes = np.flatnonzero(room)
    growth: Array = np.zeros(room.size)
    if nodes.size:
        future = view.future(HORIZON_S)
        before, of = future[nodes], capacity[nodes]
        after = before + future[-1]
        growth[nodes] = compute_cost(after, of) - compute_cost(before, of)
        growth[nodes] += MEAN_WEIGHT * after.mean(axis=1) / of
    return choose_best(-growth, room, random)
