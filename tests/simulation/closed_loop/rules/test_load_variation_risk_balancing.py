import numpy as np
import pytest

from simulation.closed_loop.rules.load_variation_risk_balancing import (
    choose,
    score_nodes,
    score_resources,
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
def test_scores_equal_the_test_vectors_of_upstream(
    margin: float, sensitivity: float, capacity: float, used: float, deviation: float, score: int
) -> None:
    """Vectors of TestComputeScore in analysis_test.go; the pod requests 10."""
    one = [np.array([[value]], dtype=np.float64) for value in (used, deviation, capacity)]
    requested = np.array([10.0])
    scores = score_resources(one[0], one[1], requested, one[2], margin, sensitivity)
    assert round(scores.item()) == score


def test_a_node_has_the_lowest_score_of_its_measured_resources() -> None:
    size, unknown = (100.0, 100.0), UNMEASURED[0]
    nodes = view(
        size, size, size,
        measured=[(20, 60), (20, unknown), UNMEASURED],
        deviation=[(10, 10), (10, unknown), UNMEASURED],
    )  # fmt: skip
    # cpu: (1 - (0.3 + 0.1) / 2) * 100; memory: (1 - (0.7 + 0.1) / 2) * 100.
    assert score_nodes(request(10, 10), nodes).tolist() == [60, 80, 0]


def test_of_two_nodes_with_equal_means_the_one_with_less_variation_is_chosen() -> None:
    nodes = view(
        (1000, 1000), (1000, 1000),
        measured=[(400, 100), (400, 100)],
        deviation=[(300, 0), (100, 0)],
    )  # fmt: skip
    rule = choose
    assert rule(request(100, 100), nodes, np.random.default_rng(0)) == 1
