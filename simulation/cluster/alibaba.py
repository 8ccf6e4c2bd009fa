"""Machine usage of the Alibaba 2018 cluster trace (cluster-trace-v2018, `machine_usage`).

A row is one reading: machine, seconds since the start of the trace, CPU and memory in percent of
the machine, and columns that are not read here. Readings are irregular, and rows of several
machines may be mixed in any order. A reading that is empty, -1 or 101 was no valid one, by the
trace's own description; rows with such a CPU or memory reading, or with one outside of 0 to 100,
are left out and counted.
"""

from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.cluster.tracefiles import (
    Malformed,
    RowError,
    TraceError,
    find_trace,
    read_rows,
    whole_number,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PATTERNS = ("*machine*usage*.csv.gz", "*machine*usage*.csv")
COLUMNS = (
    "machine_id", "time_seconds", "cpu_util_percent", "mem_util_percent", "mem_gps", "mkpi",
    "net_in", "net_out", "disk_io_percent",
)  # fmt: skip

#: Most rows that are read: the whole trace has 250 million of them, sorted by machine.
ROWS_MAX = 2_000_000
#: Texts by which the trace says that there is no valid reading.
_NO_READING = frozenset({"", "-1", "101"})


@dataclass(frozen=True, slots=True)
class MachineTrace:
    """Valid readings of one machine, ascending in time; all arrays have the shape (readings,)."""

    name: str
    times_s: IntArray
    """Seconds since the start of the trace; distinct."""
    cpu_percent: FloatArray
    """Percent of the machine's cores."""
    memory_percent: FloatArray
    """Percent of the machine's memory."""


@dataclass(frozen=True, slots=True)
class MachineUsage:
    """What a file holds."""

    file: str
    machines: tuple[MachineTrace, ...]
    """In the order of their names."""
    rows: int
    """Rows read."""
    invalid: int
    """Rows left out because CPU or memory had no valid reading."""
    repeated: int
    """Rows left out because the machine had a reading of the same second before."""
    malformed: Malformed
    cut: bool
    """The file goes on behind the rows read."""


def read_machine_usage(directory: Path, rows_max: int = ROWS_MAX) -> MachineUsage:
    """Read the machine usage file of a directory.

    Raises TraceError where there is none, it cannot be read, or it holds no valid reading.
    """
    path = find_trace(directory, PATTERNS, "machine usage of the Alibaba 2018 trace")
    malformed = Malformed(path.name)
    columns: dict[str, tuple[array[int], array[float], array[float]]] = {}
    rows = invalid = 0
    cut = False
    for line, (machine, time, cpu, memory) in (
        (line, fields[:4]) for line, fields in read_rows(path, COLUMNS, malformed)
    ):
        if rows == rows_max:
            cut = True
            break
        rows += 1
        try:
            time_s = whole_number("time_seconds", time)
            percents = _percent("cpu_util_percent", cpu), _percent("mem_util_percent", memory)
        except RowError as error:
            malformed.add(line, str(error))
            continue
        if percents[0] is None or percents[1] is None:
            invalid += 1
            continue
        times, cpus, memories = columns.setdefault(machine, (array("q"), array("d"), array("d")))
        times.append(time_s)
        cpus.append(percents[0])
        memories.append(percents[1])
    machines = tuple(_machine(name, *columns[name]) for name in sorted(columns))
    kept = sum(len(machine.times_s) for machine in machines)
    if not kept:
        raise TraceError(f"{path} holds no valid reading in {rows} rows")
    valid = sum(len(times) for times, _, _ in columns.values())
    return MachineUsage(path.name, machines, rows, invalid, valid - kept, malformed, cut)


def _percent(column: str, text: str) -> float | None:
    """A reading in percent; None where it is no valid one. Raises RowError."""
    if text in _NO_READING:
        return None
    try:
        value = float(text)
    except ValueError:
        raise RowError(
            f"{column}: found {text[:40]!r}; expected percent, or empty, -1 or 101 for no reading"
        ) from None
    return value if 0.0 <= value <= 100.0 else None


def _machine(
    name: str, times: "array[int]", cpu: "array[float]", memory: "array[float]"
) -> MachineTrace:
    seconds, first = np.unique(np.array(times, dtype=np.int64), return_index=True)
    return MachineTrace(name, seconds, np.array(cpu)[first], np.array(memory)[first])
