import math

import numpy as np
import pytest

from simulation.closed_loop.rules.target_load_packing import (
    choose,
    compute_expected_percent,
    score_percent,
)
from tests.simulation.closed_loop.rules.views import GI, UNMEASURED, request, view


@pytest.mark.parametrize(
    ("percent", "score"),
    [
        (0.0, 40),  # upstream's "new node"
        (20.0, 70),
        (40.0, 100),
        (41.0, 39),  # just above the target
        (50.0, 33),  # upstream's "hot node"
        (100.0, 0),
        (130.0, 0),  # upstream's "excess utilization returns min score"
    ],
)
def test_the_score_rises_to_the_target_and_drops_above_it(percent: float, score: int) -> None:
    assert score_percent(np.array([percent])).tolist() == [score]


def test_expected_usage_includes_measured_usage_the_pod_and_unmeasured_pods() -> None:
    nodes = view(
        (10_000, GI), (10_000, GI), (0, GI), (10_000, GI),
        measured=[(1000, 0), (1000, 0), (0, 0), UNMEASURED],
        unreported=[(0, 0), (2000, 0), (0, 0), (0, 0)],
    )  # fmt: skip
    percents = compute_expected_percent(request(1000), nodes).tolist()
    assert percents[:3] == [25.0, 55.0, 0.0]
    assert math.isnan(percents[3])
    assert compute_expected_percent(request(0), nodes).tolist()[0] == 20.0


def test_it_fills_the_node_that_comes_closest_to_the_target_from_below() -> None:
    measured = [(1000.0, 0.0), (2400.0, 0.0), (2600.0, 0.0), UNMEASURED]
    nodes = view(*[(10_000.0, 64 * GI)] * 4, measured=measured)
    chosen = choose(request(1000), nodes, np.random.default_rng(0))
    assert chosen == 1
