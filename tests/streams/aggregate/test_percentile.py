from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.message import AMOUNT_MAX
from streams.aggregate.collect_policies import AggregateLimits
from streams.aggregate.percentile import (
    compute_means,
    find_measured,
    find_nearest_rank,
    summarize,
)

PERCENTS = (50, 90, 95, 99)
VALUES = st.one_of(st.integers(-1, 20), st.sampled_from([0, 2**40, AMOUNT_MAX]))
TABLES = st.integers(1, 3).flatmap(
    lambda width: st.lists(st.lists(VALUES, min_size=width, max_size=width), min_size=1)
)


@pytest.mark.parametrize(
    ("count", "ranks"),
    [
        (1, [0, 0, 0, 0]),
        (5, [1, 3, 3, 3]),
        (10, [4, 8, 8, 8]),
        (20, [9, 17, 18, 18]),
        (60, [29, 53, 56, 58]),
        (300, [149, 269, 284, 296]),
    ],
)
def test_the_rank_equals_that_of_koordinator(count: int, ranks: list[int]) -> None:
    assert [find_nearest_rank(count, percent) for percent in PERCENTS] == ranks


def test_a_rank_is_right_where_floating_point_is_not() -> None:
    assert int(100 * 0.29) - 1 == 27
    assert find_nearest_rank(100, 29) == 28


@given(TABLES, st.sets(st.integers(1, 5)))
def test_figures_use_only_the_known_values(table: list[list[int]], cuts: set[int]) -> None:
    values = np.array(table, dtype=np.int64)
    columns = [[value for value in column if value >= 0] for column in zip(*table, strict=True)]
    assert find_measured(values) == [index for index, column in enumerate(columns) if column]
    assert summarize(values, PERCENTS) == [
        [
            sum(column) // len(column),
            *(sorted(column)[max(len(column) * percent // 100 - 1, 0)] for percent in PERCENTS),
        ]
        if column
        else []
        for column in columns
    ]
    starts = [0, *sorted(cut for cut in cuts if cut < len(table))]
    runs = [table[start:stop] for start, stop in pairwise([*starts, len(table)])]
    known = [[[v for v in column if v >= 0] for column in zip(*run, strict=True)] for run in runs]
    means = [[sum(column) // len(column) if column else -1 for column in run] for run in known]
    assert compute_means(values, np.array(starts)).tolist() == means


def test_sums_of_the_largest_windows_do_not_overflow() -> None:
    values = np.full((AggregateLimits().samples_per_node, 1), AMOUNT_MAX)
    assert compute_means(values, np.array([0])).tolist() == [[AMOUNT_MAX]]
