"""Which nodes have room for a pod, and which of them has the highest score.

Room is kube-scheduler's filter NodeResourcesFit: requests against allocatable, and the number of
pods. Among equal scores one node is drawn, as kube-scheduler does (`selectHost` in
pkg/scheduler/schedule_one.go).
"""

import numpy as np
from numpy.typing import NDArray

from simulation.closed_loop.rules.view import Array, NodesView

#: Most pods of a node: the kubelet's default.
PODS_MAX = 110


def with_room(request: Array, view: NodesView) -> NDArray[np.bool_]:
    """Nodes that have what a pod requests; what it requests nothing of is not looked at.

    Args:
        request: of the pod; shape (2,).
        view: the nodes.

    Returns:
        Shape (nodes,).
    """
    enough = (view.requested + request <= view.allocatable) | (request == 0)
    room: NDArray[np.bool_] = enough.all(axis=1) & (view.pods < PODS_MAX)
    return room


def best(
    scores: NDArray[np.float64] | NDArray[np.int64],
    room: NDArray[np.bool_],
    random: np.random.Generator,
) -> int | None:
    """Index of the node with the highest score of those that have room; None: none has.

    Args:
        scores: shape (nodes,), not nan where there is room.
        room: shape (nodes,).
        random: draws among equals; not asked where there is one best node.
    """
    nodes = np.flatnonzero(room)
    if not nodes.size:
        return None
    found = scores[nodes]
    equals = nodes[found == found.max()]
    return int(equals[0] if equals.size == 1 else random.choice(equals))
