"""Means and nearest-rank percentiles of columns of integers.

Both are exact: integers in, integers out. A percentile is the value at index max(n·P // 100 − 1, 0)
of the n values in ascending order, as Koordinator takes it, without interpolation: always a value
that was measured. A mean is rounded down, as Koordinator cuts off what is behind the comma.

Arrays are int64 of shape (samples, columns); −1 is a value that was not measured and counts
nowhere.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Figures = npt.NDArray[np.int64]

UNKNOWN = -1
INT64_MAX = 2**63 - 1
#: Up to here lists are summed up and sorted in less time than arrays.
LIST_MAX = 48


def nearest_rank(count: int, percent: int) -> int:
    """Index of the percentile among `count` values in ascending order; count is at least 1."""
    return max(count * percent // 100 - 1, 0)


@lru_cache(maxsize=1_024)
def _ranks(count: int, percents: tuple[int, ...]) -> list[int]:
    return [nearest_rank(count, percent) for percent in percents]


def within(values: Figures, most: int) -> bool:
    """Every value was measured, and none is above `most`."""
    # Read without a sign, what was not measured is more than any amount: one look finds both.
    return int(np.maximum.reduce(values.view(np.uint64), axis=None, initial=0)) <= most


def measured(values: Figures) -> list[int]:
    """Indexes of the columns that have a value."""
    return np.flatnonzero((values >= 0).any(axis=0)).tolist()


def sums(values: Figures, starts: Sequence[int] | npt.NDArray[np.intp] = (0,)) -> list[list[int]]:
    """Sum of each column over each run of samples, exact also beyond 64 bits.

    `starts` are the indexes with which the runs begin, ascending; there is at least one sample.
    """
    known = np.maximum(values, 0)
    if known.size and int(known.max()) > INT64_MAX // len(known):
        exact = np.add.reduceat(known.astype(object), starts)
        return [[int(total) for total in line] for line in exact]
    return np.add.reduceat(known, starts).tolist()  # type: ignore[no-any-return]


def counts(values: Figures, starts: Sequence[int] | npt.NDArray[np.intp] = (0,)) -> list[list[int]]:
    """How many values each column has in each run of samples; runs as in `sums`."""
    return np.add.reduceat(values >= 0, starts, dtype=np.int64).tolist()  # type: ignore[no-any-return]


def means(values: Figures) -> list[int | None]:
    """Mean of each column, rounded down; None where nothing was measured."""
    if not len(values):
        return [None] * values.shape[1]
    if within(values, INT64_MAX // len(values)):
        return (values.sum(axis=0) // len(values)).tolist()  # type: ignore[no-any-return]
    return [
        total // count if count else None
        for total, count in zip(sums(values)[0], counts(values)[0], strict=True)
    ]


def percentiles(values: Figures, percents: Sequence[int]) -> list[list[int] | None]:
    """The percentiles of each column, in the order asked for; None where nothing was measured."""
    if not len(values):
        return [None] * values.shape[1]
    ordered = np.sort(values.T)
    length = len(values)
    if int(ordered[:, 0].min(initial=0)) >= 0:
        ranks = [nearest_rank(length, percent) for percent in percents]
        return list(ordered[:, ranks].tolist())
    found: list[list[int] | None] = []
    for column, count in zip(ordered, counts(values)[0], strict=True):
        # What is unknown is sorted to the front, as the only negative values.
        ranks = [length - count + nearest_rank(max(count, 1), percent) for percent in percents]
        found.append(column[ranks].tolist() if count else None)
    return found


def summary(values: Figures, percents: Sequence[int]) -> list[Sequence[int]] | None:
    """Mean and percentiles of all columns, a line each, where every value was measured.

    The same as `means` and `percentiles` at a fraction of the cost. None: something was not
    measured, or sums of more than `LIST_MAX` samples may leave 64 bits.
    """
    length = len(values)
    if not values.size:
        return None
    ranks = _ranks(length, tuple(percents))
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


def spans(times: npt.NDArray[np.int64], values: Figures) -> list[int]:
    """Time between the first and the last value of each column; 0 where there are fewer than two."""
    if len(times) and int(values.min(initial=0)) >= 0:
        return [int(times[-1]) - int(times[0])] * values.shape[1]
    known = values >= 0
    found = []
    for column in known.T:
        places = np.flatnonzero(column)
        found.append(int(times[places[-1]] - times[places[0]]) if len(places) else 0)
    return found
