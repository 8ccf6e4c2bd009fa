import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.aggregate.percentile import (
    LIST_MAX,
    compute_means,
    compute_percentiles,
    compute_sums,
    count_measured,
    find_measured,
    find_nearest_rank,
    summarize,
)

PERCENTS = (50, 90, 95, 99)
VALUES = st.one_of(st.integers(-1, 20), st.sampled_from([0, 2**40, 2**62, 2**63 - 1]))
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


def known_values(table: list[list[int]]) -> list[list[int]]:
    return [[value for value in column if value >= 0] for column in zip(*table, strict=True)]


@given(TABLES)
def test_figures_use_only_the_known_values(table: list[list[int]]) -> None:
    values = np.array(table, dtype=np.int64)
    columns = known_values(table)
    assert count_measured(values)[0] == [len(column) for column in columns]
    assert compute_sums(values)[0] == [sum(column) for column in columns]
    means = [sum(column) // len(column) if column else None for column in columns]
    assert compute_means(values) == means
    assert find_measured(values) == [index for index, column in enumerate(columns) if column]
    expected = [
        [sorted(column)[max(len(column) * percent // 100 - 1, 0)] for percent in PERCENTS]
        if column
        else None
        for column in columns
    ]
    assert compute_percentiles(values, PERCENTS) == expected


@given(TABLES, st.booleans())
def test_a_summary_of_complete_values_has_means_and_percentiles(
    table: list[list[int]], long: bool
) -> None:
    values = np.tile(np.array(table, dtype=np.int64), (LIST_MAX + 1 if long else 1, 1))
    lines = summarize(values, PERCENTS)
    small = max(map(max, table)) <= (2**63 - 1) // len(values) or len(values) <= LIST_MAX
    assert (lines is not None) == (small and min(map(min, table)) >= 0)
    if lines is not None:
        assert lines[0] == compute_means(values)
        assert [list(column) for column in zip(*lines[1:], strict=True)] == compute_percentiles(
            values, PERCENTS
        )
