"""The input of a rule, and the choice of the best node.

Arrays are indexed by node and resource: first CPU in millicores, then memory in bytes. Float64 is
exact for these amounts, which are whole numbers below 2^53.

A node has room if it passes kube-scheduler's filter NodeResourcesFit: requests against allocatable, and
the number of pods. Among equal scores one node is drawn, as in kube-scheduler (`selectHost` in
pkg/scheduler/schedule_one.go).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulation.cluster.machines import PODS_PER_NODE

Array = NDArray[np.float64]

#: Index of CPU in the last axis.
CPU = 0


@dataclass(frozen=True, slots=True)
class NodesView:
    """All nodes at the time of a choice."""

    allocatable: Array
    """Shape (nodes, 2)."""
    requested: Array
    """Requests of the bound pods; shape (nodes, 2)."""
    pods: Array
    """Number of bound pods; shape (nodes,)."""
    measured: Array
    """Mean usage over 5 minutes in the newest report; nan: not measured; shape (nodes, 2)."""
    deviation: Array
    """Standard deviation of usage over the last 15 minutes; nan: not measured; shape (nodes, 2)."""
    unreported: Array
    """Requests of the pods that the newest report does not include: placed later, or less than a
    minute earlier; shape (nodes, 2)."""


Rule = Callable[[Array, NodesView, np.random.Generator], int | None]
"""Returns the index of a node for a request of shape (2,), or None if no node has room. The generator
draws among equal nodes."""


def find_nodes_with_room(request: Array, view: NodesView) -> NDArray[np.bool_]:
    """Tell which nodes have room for a request of shape (2,); shape (nodes,).

    Resources that the pod does not request are not checked.
    """
    enough = (view.requested + request <= view.allocatable) | (request == 0)
    room: NDArray[np.bool_] = enough.all(axis=1) & (view.pods < PODS_PER_NODE)
    return room


def choose_best(
    scores: NDArray[np.float64] | NDArray[np.int64],
    room: NDArray[np.bool_],
    random: np.random.Generator,
) -> int | None:
    """Return the index of the node with the highest score among nodes with room, or None.

    Args:
        scores: not nan for nodes with room; shape (nodes,).
        room: whether each node has room; shape (nodes,).
        random: draws among equal nodes; not used if there is a single best node.
    """
    nodes = np.flatnonzero(room)
    if not nodes.size:
        return None
    room_scores = scores[nodes]
    best_nodes = nodes[room_scores == room_scores.max()]
    return int(best_nodes[0] if best_nodes.size == 1 else random.choice(best_nodes))
