"""Any node with room, all with the same probability."""

import numpy as np

from simulation.closed_loop.rules.view import Array, NodesView, choose_best, find_nodes_with_room


def choose(request: Array, view: NodesView, random: np.random.Generator) -> int | None:
    return choose_best(np.zeros(view.pods.size), find_nodes_with_room(request, view), random)
