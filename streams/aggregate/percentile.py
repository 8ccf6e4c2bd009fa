"""Means and nearest-rank percentiles of columns of integers.

Both are exact integers, as in Koordinator. The percentile P of n values in ascending order is the value
at index max(n * P // 100 - 1, 0), without interpolation. A mean is rounded down.

Arrays are int64 of shape (samples, columns). The value -1 means not measured, and is ignored.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Figures = npt.NDArray[np.int64]

UNKNOWN = -1
INT64_MAX = 2**63 - 1
#: Up to this length, lists are summed and sorted faster than arrays.
LIST_MAX = 48


def find_nearest_rank(count: int, percent: int) -> int:
    """Return the index of a percentile among `count` (at least 1) values in ascending order."""
    return max(count * percent // 100 - 1, 0)


@lru_cache(maxsize=1_024)
def _compute_ranks(count: int, percents: tuple[int, ...]) -> list[int]:
    return [find_nearest_rank(count, percent) for percent in percents]


def are_all_within(values: Figures, most: int) -> bool:
    """Tell whether all values were measured and are at most `most`."""
    # As an unsigned number, -1 is larger than any amount.
    return int(np.maximum.reduce(values.view(np.uint64), axis=None, initial=0)) <= most


def find_measured(values: Figures) -> list[int]:
    """Return the indexes of the columns that have a value."""
    return np.flatnonzero((values >= 0).any(axis=0)).tolist()


def compute_sums(
    values: Figures, starts: Sequence[int] | npt.NDArray[np.intp] = (0,)
) -> list[list[int]]:
    """Return the sum of each column over each run of samples, exact even beyond 64 bits.

    Args:
        values: at least one sample.
        starts: indexes at which the runs begin, ascending.
    """
    amounts = np.maximum(values, 0)
    if amounts.size and int(amounts.max()) > INT64_MAX // len(amounts):
        exact = np.add.reduceat(amounts.astype(object), starts)
        return [[int(total) for total in line] for line in exact]
    return np.add.reduceat(amounts, starts).tolist()  # type: ignore[no-any-return]


def count_measured(
    values: Figures, starts: Sequence[int] | npt.NDArray[np.intp] = (0,)
) -> list[list[int]]:
    """Return the number of measured values of each column over each run; arguments as in `compute_sums`."""
    return np.add.reduceat(values >= 0, starts, dtype=np.int64).tolist()  # type: ignore[no-any-return]


def compute_means(values: Figures) -> list[int | None]:
    """Return the mean of each column, rounded down; None if nothing was measured."""
    if not len(values):
        return [None] * values.shape[1]
    if are_all_within(values, INT64_MAX // len(values)):
        return (values.sum(axis=0) // len(values)).tolist()  # type: ignore[no-any-return]
    return [
        total // count if count else None
        for total, count in zip(compute_sums(values)[0], count_measured(values)[0], strict=True)
    ]


def compute_percentiles(values: Figures, percents: Sequence[int]) -> list[list[int] | None]:
    """Return the given percentiles of each column; None if nothing was measured."""
    if not len(values):
        return [None] * values.shape[1]
    ordered = np.sort(values.T)
    length = len(values)
    if int(ordered[:, 0].min(initial=0)) >= 0:
        ranks = [find_nearest_rank(length, percent) for percent in percents]
        return list(ordered[:, ranks].tolist())
    results: list[list[int] | None] = []
    for column, count in zip(ordered, count_measured(values)[0], strict=True):
        # Unknown values, the only negative ones, come first.
        ranks = [length - count + find_nearest_rank(max(count, 1), percent) for percent in percents]
        results.append(column[ranks].tolist() if count else None)
    return results


def summarize(values: Figures, percents: Sequence[int]) -> list[Sequence[int]] | None:
    """Return a line of means, then a line per percentile; faster than separate calls.

    Returns None if a value was not measured, or if a sum of more than `LIST_MAX` samples may exceed 64 bits.
    """
    length = len(values)
    if not values.size:
        return None
    ranks = _compute_ranks(length, tuple(percents))
    if length <= LIST_MAX:
        columns = values.T.tolist()
        totals = list(map(sum, columns))
        for column in columns:
            column.sort()
        if min([column[0] for column in columns]) < 0:
            return None
        lines = list(zip(*columns, strict=True))
        return [[total // length for total in totals], *(lines[rank] for rank in ranks)]
    ordered = np.sort(values, axis=0)
    if int(ordered[0].min()) < 0 or int(ordered[-1].max()) > INT64_MAX // length:
        return None
    mean: list[int] = (values.sum(axis=0) // length).tolist()
    return [mean, *ordered[ranks].tolist()]


def compute_spans(times: npt.NDArray[np.int64], values: Figures) -> list[int]:
    """Return the time between the first and the last measured value of each column, or 0."""
    if len(times) and int(values.min(initial=0)) >= 0:
        return [int(times[-1]) - int(times[0])] * values.shape[1]
    measured = values >= 0
    results = []
    for column in measured.T:
        indexes = np.flatnonzero(column)
        results.append(int(times[indexes[-1]] - times[indexes[0]]) if len(indexes) else 0)
    return results
