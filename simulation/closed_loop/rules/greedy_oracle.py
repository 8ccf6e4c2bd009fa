"""A greedy oracle: puts each pod where it heats the least, knowing what everything will use.

A node's cost is the share of the coming steps at which its demand for cpu is above the hot mark,
plus four times the mean excess over it, as a share of the node: being hot, and how hot. A pod goes
where the cost grows least; among equal ones to the node with the lowest mean demand. It decides pod
by pod and moves nothing, so it is a mark for rules of placement, not a bound: a rule that is wrong
about one pod may be luckier with the next, and evictions may do better.
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
#: What the mean excess counts, against being hot at all.
EXCESS_WEIGHT = 4.0
#: What the mean demand counts: it decides between nodes on which the pod heats nothing.
MEAN_WEIGHT = 1e-4
#: How far it looks ahead.
HORIZON_S = 6 * 3600


def cost(demand: Array, capacity: Array) -> Array:
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
        growth[nodes] = cost(after, of) - cost(before, of)
        growth[nodes] += MEAN_WEIGHT * after.mean(axis=1) / of
    return choose_best(-growth, room, random)
