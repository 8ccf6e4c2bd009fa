import numpy as np
import pytest

from simulation.closed_loop.rules.greedy_oracle import HORIZON_S, choose, cost
from simulation.closed_loop.rules.view import Array
from tests.simulation.closed_loop.rules.views import GI, request, view


def test_a_cost_is_the_share_of_hot_steps_and_four_times_the_mean_excess() -> None:
    demand = np.array([[50.0, 75.0, 85.0, 75.1], [0.0, 0.0, 0.0, 0.0]])
    found = cost(demand, np.array([100.0, 100.0])).tolist()
    assert found == [pytest.approx(0.5 + 4 * 0.101 / 4), 0.0]


def test_it_puts_a_pod_where_its_peaks_meet_none() -> None:
    asked: list[int] = []

    def future(seconds: int) -> Array:
        asked.append(seconds)
        return np.array([[900.0, 0, 0], [0, 0, 700.0], [600.0, 600, 600], [0, 0, 500.0]])

    nodes = view(*[(1000.0, GI)] * 3, future=future)
    assert choose(request(500), nodes, np.random.default_rng(0)) == 0
    assert asked == [HORIZON_S]


def test_where_nothing_gets_hot_the_emptier_node_is_chosen() -> None:
    future = np.array([[200.0, 200], [100.0, 100], [10.0, 10]])
    nodes = view((1000, GI), (1000, GI), future=lambda seconds: future)
    assert choose(request(100), nodes, np.random.default_rng(0)) == 1


def test_nodes_without_room_or_cpu_are_never_chosen() -> None:
    future = np.zeros((4, 2))
    nodes = view((0, GI), (400, GI), (900, GI), future=lambda seconds: future)
    assert choose(request(500), nodes, np.random.default_rng(0)) == 2
    assert choose(request(901), nodes, np.random.default_rng(0)) is None


def test_a_view_without_future_is_refused() -> None:
    with pytest.raises(ValueError, match="without future"):
        choose(request(1), view((10, GI)), np.random.default_rng(0))
