"""Means and nearest-rank percentiles of columns of integers.

Both are exact integers, as in Koordinator. The percentile P of n values in ascending order is the value
at index max(n * P // 100 - 1, 0), without interpolation. A mean is rounded down.

Arrays are int64 of shape (samples, columns). The value -1 means not measured, and is ignored. Sums fit into
64 bits, because amounts (`AMOUNT_MAX`) and samples (`AggregateLimits.samples_per_node`) are limited.
"""

from bisect import bisect_left
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Figures = npt.NDArray[np.int64]

UNKNOWN = -1


def find_nearest_rank(count: int, percent: int) -> int:
    """Return the index of a percentile among `count` (at least 1) values in ascending order."""
    return max(count * percent // 100 - 1, 0)


@lru_cache(maxsize=1_024)
def _compute_ranks(count: int, percents: tuple[int, ...]) -> list[int]:
    return [find_nearest_rank(count, percent) for percent in percents]


def find_measured(values: Figures) -> list[int]:
    """Return the indexes of the columns that have a value."""
    return np.flatnonzero((values >= 0).any(axis=0)).tolist()


def compute_means(values: Figures, starts: npt.NDArray[np.intp]) -> Figures:
    """Return the means of runs of samples, shape (runs, columns).

    Args:
        values: at least one sample.
        starts: indexes at which the runs begin, ascending.
    """
    counts = np.add.reduceat(values >= 0, starts, dtype=np.int64)
    sums = np.add.reduceat(np.maximum(values, 0), starts)
    return np.where(counts, sums // np.maximum(counts, 1), UNKNOWN)


def summarize(values: Figures, percents: tuple[int, ...]) -> list[list[int]]:
    """Return the mean of each column, followed by its percentiles; empty for a column without values."""
    results: list[list[int]] = []
    for column in np.sort(values.T).tolist():
        first = bisect_left(column, 0)
        count = len(column) - first
        if not count:
            results.append([])
            continue
        # Each value before `first` is -1.
        ranks = _compute_ranks(count, percents)
        results.append([(sum(column) + first) // count, *[column[first + rank] for rank in ranks]])
    return results


def compute_spans(times: npt.NDArray[np.int64], values: Figures) -> list[int]:
    """Return the time between the first and the last measured value of each column, or 0."""
    if int(values.min(initial=0)) >= 0:
        return [int(times[-1]) - int(times[0])] * values.shape[1]
    results = []
    for column in values.T:
        indexes = np.flatnonzero(column >= 0)
        results.append(int(times[indexes[-1]] - times[indexes[0]]) if len(indexes) else 0)
    return results
