"""Usage of the nodes themselves, without their pods: the system part.

The shape is the usage of production machines over eight days: CPU and memory in steps of five minutes,
relative to the mean of all machines. A scenario scales the shape to a share of each node. The shape comes
from the Alibaba 2018 cluster trace (`machine_usage`), or from a model of machines with different levels
and a daily swing.

A row of the trace is one reading: machine, seconds since the start of the trace, CPU and memory in
percent of the machine, and columns that are not read. Readings are irregular, and rows of machines may
be mixed. A step takes the newest earlier reading; after its last reading, a machine's series repeats.
By the description of the trace, an empty reading, -1 and 101 are invalid. Rows are left out if CPU or
memory is invalid or outside of 0 to 100.
"""

from array import array
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.closed_loop.trace_files import (
    TraceError,
    find_trace,
    parse_whole_number,
    read_rows,
)

#: CPU and memory relative to the mean of all machines; shape (2, machines, steps).
Shape = npt.NDArray[np.float32]

STEP_S = 300
#: Eight days, the length of the published trace.
STEPS = 8 * 86_400 // STEP_S

PATTERNS = ("*machine*usage*.csv.gz", "*machine*usage*.csv")
COLUMNS = (
    "machine_id", "time_seconds", "cpu_util_percent", "mem_util_percent", "mem_gps", "mkpi",
    "net_in", "net_out", "disk_io_percent",
)  # fmt: skip
_INVALID_READINGS = frozenset({"", "-1", "101"})

#: Parameters of the model, which approximate the spreads of the trace and the correlation of its steps.
#: A spread is a standard deviation of logarithms, of CPU and of memory: of machines, hours and steps.
_MACHINES = 64
_LEVEL_SPREAD, _HOUR_SPREAD, _STEP_SPREAD = (0.33, 0.04), (0.17, 0.045), (0.17, 0.02)
#: Swing of CPU over the day.
_DAY_SWING = 0.28
_HOUR_STEPS = 3600 // STEP_S
_MODEL_SEED = 20_180_101

_Columns = tuple["array[int]", "array[float]", "array[float]"]
"""Times in seconds, CPU and memory in percent of one machine."""


def has_system_usage(directory: Path) -> bool:
    """Tell whether a directory has a file with usage of machines."""
    return directory.is_dir() and any(
        path.match(pattern) for path in directory.iterdir() for pattern in PATTERNS
    )


def read_system_usage(directory: Path) -> tuple[str, Shape]:
    """Return the name of the file with usage of machines, and the usage.

    Raises TraceError if the file is missing or unreadable, or has no valid reading.
    """
    path = find_trace(directory, PATTERNS, "machine usage of the Alibaba 2018 trace")
    machines: dict[str, _Columns] = {}
    for machine, time_s, cpu, memory in read_rows(path, COLUMNS, _parse_reading):
        if cpu is not None and memory is not None:
            columns = machines.setdefault(machine, (array("q"), array("d"), array("d")))
            columns[0].append(time_s)
            columns[1].append(cpu)
            columns[2].append(memory)
    if not machines:
        raise TraceError(f"{path} contains no valid reading")
    series = np.array([_resample(machines[name]) for name in sorted(machines)])
    return path.name, _divide_by_mean(series.transpose(1, 0, 2))


def _parse_reading(fields: list[str]) -> tuple[str, int, float | None, float | None]:
    time_s = parse_whole_number("time_seconds", fields[1])
    return fields[0], time_s, _parse_percent(2, fields[2]), _parse_percent(3, fields[3])


def _parse_percent(column: int, text: str) -> float | None:
    """Return a reading in percent, or None for an invalid reading. Raises ValueError."""
    if text in _INVALID_READINGS:
        return None
    try:
        value = float(text)
    except ValueError:
        raise ValueError(
            f"{COLUMNS[column]}: found {text[:40]!r}; expected percent, or empty, -1 or 101 for no "
            "reading"
        ) from None
    return value if 0.0 <= value <= 100.0 else None


def _resample(columns: _Columns) -> npt.NDArray[np.float64]:
    """Return CPU and memory in percent at each step; shape (2, steps)."""
    times_s, first_of = np.unique(np.array(columns[0], dtype=np.int64), return_index=True)
    first, last = int(times_s[0]), int(times_s[-1])
    at_s = first + np.arange(STEPS) * STEP_S % max(STEP_S, last - first)
    newest = first_of[np.searchsorted(times_s, at_s, side="right") - 1]
    return np.stack([np.array(columns[1])[newest], np.array(columns[2])[newest]])


def model_system_usage() -> Shape:
    random = np.random.default_rng(_MODEL_SEED)
    hours = np.arange(STEPS) / _HOUR_STEPS + random.uniform(0, 24, (_MACHINES, 1))
    swing = 1 + _DAY_SWING * np.sin(2 * np.pi * hours / 24)
    series = [
        level
        * np.repeat(_draw_factors(random, hour, STEPS // _HOUR_STEPS), _HOUR_STEPS, axis=1)
        * _draw_factors(random, step, STEPS)
        for level, hour, step in zip(
            (_draw_factors(random, spread, 1) for spread in _LEVEL_SPREAD),
            _HOUR_SPREAD,
            _STEP_SPREAD,
            strict=True,
        )
    ]
    series[0] *= swing
    return _divide_by_mean(np.stack(series))


def _draw_factors(
    random: np.random.Generator, spread: float, count: int
) -> npt.NDArray[np.float64]:
    """Return lognormal factors around 1; shape (machines, count)."""
    drawn: npt.NDArray[np.float64] = np.exp(spread * random.standard_normal((_MACHINES, count)))
    return drawn


def _divide_by_mean(series: npt.NDArray[np.float64]) -> Shape:
    means = series.mean(axis=(1, 2), keepdims=True)
    # The shape is flat if no machine uses the resource.
    relative: Shape = np.divide(series, means, out=np.ones_like(series), where=means > 0).astype(
        np.float32
    )
    return relative
