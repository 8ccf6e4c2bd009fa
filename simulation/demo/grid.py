"""Usage of nodes over time, in bins: the picture shows it, the summary is computed from it."""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from simulation.cluster.machines import Machine
from simulation.demo.scenario import Scenario

FloatArray = npt.NDArray[np.float64]

#: Bins of a run, whatever its length.
BINS = 144


class UsageGrid:
    """Mean usage as a share of each machine, per bin of time and machine."""

    def __init__(self, machines: int, begin_ms: int, end_ms: int) -> None:
        self.begin_ms, self.end_ms = begin_ms, end_ms
        self.bin_ms = max(1.0, (end_ms - begin_ms) / BINS)
        self.counts = np.zeros((BINS, machines))
        """Samples, shape (bins, machines)."""
        self.sums = np.zeros((2, BINS, machines))
        """Sums of CPU and memory shares, shape (2, bins, machines)."""

    def add(self, at_ms: int, index: int, machine: Machine, usage: Mapping[str, int]) -> None:
        """Take in what the machine of this index used."""
        shares = usage["cpu"] / machine.millicores, usage["memory"] / machine.memory_bytes
        at = self.bin_of(at_ms)
        self.counts[at, index] += 1
        self.sums[:, at, index] += shares

    def bin_of(self, at_ms: int) -> int:
        """Bin that a time lies in."""
        return min(BINS - 1, max(0, int((at_ms - self.begin_ms) / self.bin_ms)))

    @property
    def cpu(self) -> FloatArray:
        """Shape (bins, machines); NaN where there is no sample."""
        return self._mean(0)

    @property
    def memory(self) -> FloatArray:
        """Shape (bins, machines); NaN where there is no sample."""
        return self._mean(1)

    def cpu_in(self, number: int) -> FloatArray:
        """CPU in one bin, shape (machines,); NaN where there is no sample."""
        return self._mean(0, number)

    def _mean(self, resource: int, bins: int | slice = slice(None)) -> FloatArray:
        counts = self.counts[bins]
        with np.errstate(invalid="ignore"):
            mean: FloatArray = self.sums[resource, bins] / np.where(counts > 0, counts, np.nan)
        return mean


def grid_of(scenario: Scenario, used: Iterable[tuple[int, int, Mapping[str, int]]]) -> UsageGrid:
    """Usage of a scenario's machines, given as time, index of the machine and what it used."""
    grid = UsageGrid(len(scenario.machines), scenario.begin_ms, scenario.end_ms)
    for at_ms, index, usage in used:
        grid.add(at_ms, index, scenario.machines[index], usage)
    return grid
