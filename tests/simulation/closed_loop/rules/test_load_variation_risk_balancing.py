import numpy as np
import pytest

from simulation.closed_loop.rules.load_variation_risk_balancing import (
    choose,
    node_scores,
    risk_scores,
)
from tests.simulation.closed_loop.rules.views import UNMEASURED, request, view


@pytest.mark.parametrize(
    ("margin", "sensitivity", "capacity", "used", "deviation", "score"),
    [
        (1, 1, 100, 40, 36, 57),
        (1, 2, 0, 40, 36, 0),
        (1, 2, 100, -40, 36, 65),
        (1, 2, 100, 200, 36, 20),
        (1, 2, 100, 40, -36, 75),
        (1, 2, 100, 40, 120, 25),
        (-1, 1, 100, 40, 36, 75),
        (1, -1, 100, 40, 36, 57),
        (1, 0, 100, 40, 36, 75),
    ],
)
def test_scores_are_those_of_upstreams_own_vectors(
    margin: float, sensitivity: float, capacity: float, used: float, deviation: float, score: int
) -> None:
    """TestComputeScore of analysis_test.go; the pod requests 10."""
    one = [np.array([[value]], dtype=np.float64) for value in (used, deviation, capacity)]
    wanted = np.array([10.0])
    found = risk_scores(one[0], one[1], wanted, one[2], margin, sensitivity)
    assert round(found.item()) == score


def test_a_node_has_the_lower_score_of_its_resources_and_the_only_one_that_is_measured() -> None:
    size, unknown = (100.0, 100.0), UNMEASURED[0]
    nodes = view(
        size, size, size,
        measured=[(20, 60), (20, unknown), UNMEASURED],
        deviation=[(10, 10), (10, unknown), UNMEASURED],
    )  # fmt: skip
    # cpu: (1 - (0.3 + 0.1) / 2) * 100; memory: (1 - (0.7 + 0.1) / 2) * 100.
    assert node_scores(request(10, 10), nodes).tolist() == [60, 80, 0]


def test_of_two_nodes_with_one_mean_the_steadier_is_chosen() -> None:
    nodes = view(
        (1000, 1000), (1000, 1000),
        measured=[(400, 100), (400, 100)],
        deviation=[(300, 0), (100, 0)],
    )  # fmt: skip
    rule = choose
    assert rule(request(100, 100), nodes, np.random.default_rng(0)) == 1
