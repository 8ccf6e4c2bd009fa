import numpy as np
import pytest

from simulation.closed_loop.rules.greedy_oracle import HORIZON_S, choose
from simulation.closed_loop.rules.view import Array
from tests.simulation.closed_loop.rules.views import GI, request, view


def test_it_puts_a_pod_where_its_peaks_meet_none() -> None:
    asked: list[int] = []

    def future(seconds: int) -> Array:
        asked.append(seconds)
        return np.array([[900.0, 0, 0], [0, 0, 700.0], [600.0, 600, 600], [0, 0, 500.0]])

    nodes = view(*[(1000.0, GI)] * 3, future=future)
    assert choose(request(500), nodes, np.random.default_rng(0)) == 0
    assert asked == [HORIZON_S]


def test_nodes_without_room_or_cpu_are_never_chosen() -> None:
    future = np.zeros((4, 2))
    nodes = view((0, GI), (400, GI), (900, GI), future=lambda seconds: future)
    assert choose(request(500), nodes, np.random.default_rng(0)) == 2
    assert choose(request(901), nodes, np.random.default_rng(0)) is None


def test_a_view_without_future_is_refused() -> None:
    with pytest.raises(ValueError, match="without future"):
        choose(request(1), view((10, GI)), np.random.default_rng(0))
