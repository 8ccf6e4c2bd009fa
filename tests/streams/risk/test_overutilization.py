import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.risk.normal_table import get_normal_table
from streams.risk.overutilization import (
    EXCESS_WEIGHT,
    MEAN_SCALE,
    VARIANCE_SCALE,
    CostArrays,
    build_cost_function,
)

#: Mean usage less the hot share, and variance, as shares of a node.
_MEANS = st.floats(-1, 50, allow_nan=False)
_VARIANCES = st.floats(0.0004, 100, allow_nan=False)


def _cost(mean: float, variance: float) -> float:
    return build_cost_function()(mean * MEAN_SCALE, variance * VARIANCE_SCALE)


def _by_the_error_function(mean: float, variance: float) -> float:
    deviation = math.sqrt(variance)
    z = mean / deviation
    hot = 0.5 * math.erfc(-z / math.sqrt(2))
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return hot + EXCESS_WEIGHT * (deviation * density + mean * hot)


@given(_MEANS, _VARIANCES)
def test_a_node_costs_what_the_formula_says(mean: float, variance: float) -> None:
    expected = _by_the_error_function(mean, variance)
    # Of Phi at most 2e-6, and of the excess 1e-8 a standard deviation.
    allowed = 2e-6 + EXCESS_WEIGHT * 1e-8 * math.sqrt(variance) + 1e-12 * expected
    assert abs(_cost(mean, variance) - expected) <= allowed


@given(st.lists(st.tuples(_MEANS, _VARIANCES), max_size=50))
def test_costs_of_many_nodes_equal_those_of_single_nodes(
    nodes: list[tuple[float, float]],
) -> None:
    means = np.array([mean for mean, _ in nodes])
    variances = np.array([variance for _, variance in nodes])
    together = CostArrays().compute(means * MEAN_SCALE, variances * VARIANCE_SCALE).tolist()
    assert together == [_cost(mean, variance) for mean, variance in nodes]


@given(st.floats(-1, 5), st.floats(0.001, 1), st.floats(0.01, 1))
def test_a_node_that_is_used_more_costs_more(mean: float, more: float, deviation: float) -> None:
    variance = deviation * deviation
    # Steps of the table are 2e-6 high.
    assert _cost(mean + more, variance) >= _cost(mean, variance) - 4e-6


@pytest.mark.parametrize(
    ("mean", "expected"), [(-0.75, 0.0), (0.0, 0.5 + 4 * 0.1 / math.sqrt(2 * math.pi)), (3.0, 13.0)]
)
def test_calm_warm_and_overloaded_nodes_cost_what_the_formula_says(
    mean: float, expected: float
) -> None:
    assert _cost(mean, 0.01) == pytest.approx(expected, abs=1e-5)


def test_a_node_that_is_hot_costs_more_as_its_usage_grows() -> None:
    assert _cost(1.0, 0.0004) - _cost(0.5, 0.0004) == pytest.approx(2.0)


def test_the_plugins_of_all_clusters_share_one_table() -> None:
    kept = [(build_cost_function(), CostArrays())]
    tracemalloc.start()
    try:
        kept += [(build_cost_function(), CostArrays()) for _ in range(100)]
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    table = get_normal_table()
    assert grown / 100 < sum(column.nbytes for column in table) / 10
