"""What the machines of a co-located cluster use: a seeded model.

A machine's CPU usage is its level, times the hour's share of the day, times one plus noise; on top
come short bursts. The noise is the sum of a slow and of a fast first-order autoregressive process;
a part of the slow one is common to all machines, since they serve the same users. Memory is a level
with slow noise of its own. Some machines are idle, and a few stay hot: their level is high and has
no daily swing.

    cpu(t) = level · day(t) · (1 + slow(t) + fast(t) + burst(t))      memory(t) = level + noise(t)

The parameters are those of `LoadParameters`; `simulation.cluster.fitted` has values for them, and
`simulation.cluster.fit` computes them from a trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

HOUR_S = 3600.0
DAY_S = 86_400.0

Temper = Literal["busy", "idle", "hot"]
"""How a machine is loaded."""

#: Streams of random numbers that are drawn from one seed.
_SHARED, _MACHINES = 0, 1
#: Share of the ordinary noise that hot machines have: they *stay* hot.
_HOT_NOISE_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class LoadParameters:
    """Parameters of the model; all shares are of a machine's cores or memory, unless said
    otherwise."""

    cpu_busy_mean: float
    """Mean CPU usage of machines that are not idle."""
    cpu_busy_spread: float
    """Standard deviation of those machines' means."""
    cpu_idle_mean: float
    """Mean CPU usage of idle machines."""
    idle_share: float
    """Share of the machines that are idle."""
    cpu_hot_level: float
    """CPU usage that a busy machine exceeds in 1 % of the time: the level of machines that stay
    hot."""
    hourly: tuple[float, ...]
    """CPU usage in each hour of the day, relative to the machine's mean; 24 values of mean 1."""
    noise_deviation: float
    """Standard deviation of the noise without bursts, relative to the expected usage."""
    slow_share: float
    """Share of the noise's variance that is slow."""
    slow_shared: float
    """Share of the slow noise's variance that all machines have in common."""
    slow_time_s: float
    """Time in which the slow noise's autocorrelation falls to 1/e."""
    fast_time_s: float
    """The same of the fast noise."""
    bursts_per_day: float
    """Bursts of one machine in a day."""
    burst_time_s: float
    """Mean length of a burst."""
    burst_least: float
    """Least height of a burst, relative to the expected usage."""
    burst_height: float
    """Mean height of a burst, relative to the expected usage."""
    memory_mean: float
    """Mean memory usage."""
    memory_spread: float
    """Standard deviation of the machines' means."""
    memory_deviation: float
    """Standard deviation of a machine's memory usage around its mean."""
    memory_time_s: float
    """Time in which the autocorrelation of that falls to 1/e."""


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Usage of machines over a run, drawn from a seed.

    A machine's usage depends on the seed, its own number and the common noise alone: more machines
    do not change those that were there.
    """

    parameters: LoadParameters
    seed: int
    period_s: float
    """Time between two readings of a machine."""

    def usage(
        self, tempers: Sequence[Temper], readings: int, begin_s: float = 0.0
    ) -> tuple[FloatArray, FloatArray]:
        """CPU and memory usage as shares of each machine, both of shape (readings, machines).

        Reading k is at `begin_s + k · period_s` seconds of the day; all values are between 0 and 1.
        """
        p = self.parameters
        hours = (begin_s + self.period_s * np.arange(readings, dtype=np.float64)) / HOUR_S
        day = self._day(hours)
        shared = self._noise(self._random(_SHARED, 0), readings, p.slow_time_s)
        cpu = np.empty((readings, len(tempers)))
        memory = np.empty((readings, len(tempers)))
        for index, temper in enumerate(tempers):
            random = self._random(_MACHINES, index)
            # Every machine draws the same numbers whatever its temper.
            place, memory_place = random.standard_normal(2)
            noise = self._machine_noise(random, shared)
            bursts = self._bursts(random, readings)
            drift = self._noise(random, readings, p.memory_time_s)
            if temper == "hot":
                cpu[:, index] = p.cpu_hot_level * (1.0 + _HOT_NOISE_SHARE * noise)
            else:
                mean = (
                    p.cpu_idle_mean
                    if temper == "idle"
                    else p.cpu_busy_mean + p.cpu_busy_spread * place
                )
                cpu[:, index] = mean * day * (1.0 + noise + bursts)
            level = p.memory_mean + p.memory_spread * memory_place
            memory[:, index] = level + p.memory_deviation * drift
        return np.clip(cpu, 0.0, 1.0), np.clip(memory, 0.0, 1.0)

    def _random(self, stream: int, index: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, stream, index])

    def _day(self, hours: FloatArray) -> FloatArray:
        """The hourly values lie in the middle of their hours and are joined by straight lines."""
        hourly = np.array(self.parameters.hourly)
        middles = np.arange(-0.5, 25.0)
        joined = np.concatenate(([hourly[-1]], hourly, [hourly[0]]))
        shares: FloatArray = np.interp(hours % 24.0, middles, joined)
        return shares

    def _noise(self, random: np.random.Generator, readings: int, time_s: float) -> FloatArray:
        """First-order autoregressive noise of deviation 1, shape (readings,)."""
        kept = np.exp(-self.period_s / time_s)
        steps = random.standard_normal(readings) * np.sqrt(1.0 - kept * kept)
        if readings:
            steps[0] /= np.sqrt(1.0 - kept * kept)  # the first value has the full deviation
        noise = np.empty(readings)
        value = 0.0
        for index, step in enumerate(steps.tolist()):
            value = kept * value + step
            noise[index] = value
        return noise

    def _machine_noise(self, random: np.random.Generator, shared: FloatArray) -> FloatArray:
        p = self.parameters
        own = self._noise(random, len(shared), p.slow_time_s)
        fast = self._noise(random, len(shared), p.fast_time_s)
        slow = np.sqrt(p.slow_shared) * shared + np.sqrt(1.0 - p.slow_shared) * own
        noise: FloatArray = p.noise_deviation * (
            np.sqrt(p.slow_share) * slow + np.sqrt(1.0 - p.slow_share) * fast
        )
        return noise

    def _bursts(self, random: np.random.Generator, readings: int) -> FloatArray:
        """Height of the bursts under way, relative to the expected usage, shape (readings,)."""
        p = self.parameters
        span_s = readings * self.period_s
        heights = np.zeros(readings)
        count = random.poisson(p.bursts_per_day * span_s / DAY_S)
        begins = random.uniform(0.0, span_s, count)
        lengths = random.exponential(p.burst_time_s, count)
        tops = p.burst_least + random.exponential(p.burst_height - p.burst_least, count)
        times = np.arange(readings) * self.period_s
        for begin, length, top in zip(begins, lengths, tops, strict=True):
            under_way = (times >= begin) & (times < begin + length)
            heights[under_way] = np.maximum(heights[under_way], top)
        return heights
