import numpy as np

from simulation.closed_loop.rules import random_choice
from tests.simulation.closed_loop.rules.views import GI, request, view


def test_every_node_that_has_room_is_chosen_about_as_often() -> None:
    nodes = view((1000, GI), (1, GI), (8000, 64 * GI))
    random = np.random.default_rng(7)
    chosen = [random_choice.choose(request(500), nodes, random) for _ in range(1000)]
    assert set(chosen) == {0, 2}
    assert 400 < chosen.count(0) < 600
