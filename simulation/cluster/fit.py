"""Fits the load model to a machine usage trace: `python -m simulation.cluster.fit DIR`.

DIR holds the machine usage of the Alibaba 2018 trace; printed are the parameters as they stand in
`simulation.cluster.fitted`. Each parameter is a plain statistic of the readings:

- A machine with a mean CPU usage below `IDLE_CPU_PERCENT` is idle; means and their deviation are
  over machines, and so are those of memory. The day's shape is the mean over busy machines of the
  mean usage in each hour, divided by the machine's mean.
- What is left is the residual: usage divided by machine's mean and hour's share, minus one. A burst
  is a run of readings whose residual is above `BURST_LEAST`; bursts are counted per day of
  readings.
- The residual without bursts (cut off at `BURST_LEAST`) gives the noise: its deviation, and its
  autocorrelation at `LAGS_S`, to which the sum of two decaying exponentials is fitted by least
  squares on a grid. Its covariance between machines, in bins of ten minutes, is the common part.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.cluster.alibaba import MachineTrace, read_machine_usage
from simulation.cluster.load import DAY_S, HOUR_S, LoadParameters
from simulation.cluster.tracefiles import TraceError

FloatArray = npt.NDArray[np.float64]

#: A machine below this mean CPU usage is idle; the trace has nothing between 6 % and 32 %.
IDLE_CPU_PERCENT = 15.0
#: Residual above which a reading belongs to a burst: 70 % over what is expected at that hour.
BURST_LEAST = 0.7
#: A machine counts with the readings of this time at least; less would give a day an odd shape.
READINGS_SPAN_MIN_S = 2 * DAY_S
#: Times between two readings at which their correlation is looked at.
LAGS_S = (60, 120, 300, 600, 1800, 3600, 7200, 14_400)
#: Two readings count for a lag if the time between them differs from it by at most this.
_LAG_TOLERANCE_S = 10
#: A longer gap between readings says nothing about bursts.
_GAP_S = 900.0
_BIN_S = 600.0


def fit(machines: Sequence[MachineTrace]) -> LoadParameters:
    """Parameters of the model from the readings of machines.

    Raises TraceError where fewer than two busy machines have readings over two days.
    """
    machines = [m for m in machines if m.times_s[-1] - m.times_s[0] >= READINGS_SPAN_MIN_S]
    busy = [m for m in machines if m.cpu_percent.mean() >= IDLE_CPU_PERCENT]
    idle = [m for m in machines if m.cpu_percent.mean() < IDLE_CPU_PERCENT]
    if len(busy) < 2:
        raise TraceError(
            f"{len(busy)} machines are busy and have readings over two days; expected at least 2"
        )
    means = np.array([m.cpu_percent.mean() for m in busy]) / 100
    hourly = _hourly(busy)
    residuals = [_residual(machine, hourly) for machine in busy]
    calm = [np.minimum(residual, BURST_LEAST) for residual in residuals]
    slow_share, slow_time_s, fast_time_s = _two_decays(_autocorrelation(busy, calm))
    variance = float(np.concatenate(calm).var())
    bursts_per_day, burst_time_s, burst_height = _bursts(busy, residuals)
    memory = [m.memory_percent / 100 - m.memory_percent.mean() / 100 for m in machines]
    memory_means = np.array([m.memory_percent.mean() for m in machines]) / 100
    return LoadParameters(
        cpu_busy_mean=float(means.mean()),
        cpu_busy_spread=float(means.std()),
        cpu_idle_mean=float(np.mean([m.cpu_percent.mean() for m in idle]) / 100) if idle else 0.0,
        idle_share=len(idle) / len(machines),
        cpu_hot_level=float(np.mean([np.percentile(m.cpu_percent, 99) for m in busy]) / 100),
        hourly=tuple(hourly.tolist()),
        noise_deviation=variance**0.5,
        slow_share=slow_share,
        slow_shared=min(1.0, max(0.0, _covariance(busy, calm) / (variance * slow_share))),
        slow_time_s=slow_time_s,
        fast_time_s=fast_time_s,
        bursts_per_day=bursts_per_day,
        burst_time_s=burst_time_s,
        burst_least=BURST_LEAST,
        burst_height=burst_height,
        memory_mean=float(memory_means.mean()),
        memory_spread=float(memory_means.std()),
        memory_deviation=float(np.concatenate(memory).std()),
        memory_time_s=_one_decay(_autocorrelation(machines, memory)),
    )


def _hourly(busy: Sequence[MachineTrace]) -> FloatArray:
    """Usage in each hour of the day relative to the machine's mean, shape (24,), of mean 1."""
    shares = np.full((len(busy), 24), np.nan)
    for index, machine in enumerate(busy):
        hours = (machine.times_s // int(HOUR_S)) % 24
        for hour in range(24):
            if (hours == hour).any():
                shares[index, hour] = machine.cpu_percent[hours == hour].mean()
        shares[index] /= machine.cpu_percent.mean()
    if np.isnan(shares).all(axis=0).any():
        raise TraceError("the readings leave out an hour of the day; expected all 24")
    means = np.nanmean(shares, axis=0)
    hourly: FloatArray = means / means.mean()
    return hourly


def _residual(machine: MachineTrace, hourly: FloatArray) -> FloatArray:
    """What the machine used beyond what is expected at that hour, relative to it."""
    middles = np.arange(-0.5, 25.0)
    joined = np.concatenate(([hourly[-1]], hourly, [hourly[0]]))
    expected = machine.cpu_percent.mean() * np.interp(
        machine.times_s / HOUR_S % 24.0, middles, joined
    )
    residual: FloatArray = machine.cpu_percent / expected - 1.0
    return residual


def _autocorrelation(machines: Sequence[MachineTrace], values: Sequence[FloatArray]) -> FloatArray:
    """Correlation of values with `LAGS_S` between them, over all machines, shape (lags,)."""
    correlations = []
    for lag in LAGS_S:
        earlier, later = [], []
        for machine, value in zip(machines, values, strict=True):
            times = machine.times_s
            partner = np.searchsorted(times, times + lag - _LAG_TOLERANCE_S)
            first = np.flatnonzero(partner < len(times))
            second = partner[first]
            near = times[second] - times[first] - lag <= _LAG_TOLERANCE_S
            earlier.append(value[first[near]])
            later.append(value[second[near]])
        pair = np.corrcoef(np.concatenate(earlier), np.concatenate(later))
        correlations.append(float(pair[0, 1]))
    return np.array(correlations)


def _two_decays(correlation: FloatArray) -> tuple[float, float, float]:
    """Share of the slow part, its time and the fast one's: least squares over a grid."""
    lags = np.array(LAGS_S, dtype=np.float64)
    best = (np.inf, 0.0, 0.0, 0.0)
    for fast_s in np.geomspace(20.0, 1200.0, 40):
        fast = np.exp(-lags / fast_s)
        for slow_s in np.geomspace(3600.0, DAY_S, 30):
            slow = np.exp(-lags / slow_s)
            # correlation = share · slow + (1 − share) · fast is linear in the share.
            share = float(((correlation - fast) @ (slow - fast)) / ((slow - fast) @ (slow - fast)))
            share = min(1.0, max(0.01, share))
            error = float(((share * slow + (1 - share) * fast - correlation) ** 2).sum())
            best = min(best, (error, share, float(slow_s), float(fast_s)))
    return best[1:]


def _one_decay(correlation: FloatArray) -> float:
    """Time in which one decaying exponential falls to 1/e: least squares over a grid."""
    lags = np.array(LAGS_S, dtype=np.float64)
    times = np.geomspace(300.0, 2 * DAY_S, 200)
    errors = ((np.exp(-lags / times[:, None]) - correlation) ** 2).sum(axis=1)
    return float(times[int(errors.argmin())])


def _covariance(machines: Sequence[MachineTrace], values: Sequence[FloatArray]) -> float:
    """Mean covariance of two machines' values in bins of ten minutes that both have readings in."""
    last = max(int(machine.times_s[-1]) for machine in machines)
    bins = np.arange(0.0, last + 2 * _BIN_S, _BIN_S)
    means = []
    for machine, value in zip(machines, values, strict=True):
        counts, _ = np.histogram(machine.times_s, bins)
        sums, _ = np.histogram(machine.times_s, bins, weights=value)
        means.append(np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))
    covariances = []
    for index, one in enumerate(means):
        for other in means[index + 1 :]:
            both = ~np.isnan(one) & ~np.isnan(other)
            if both.sum() > 1:
                covariances.append(float(np.cov(one[both], other[both])[0, 1]))
    return float(np.mean(covariances)) if covariances else 0.0


def _bursts(
    machines: Sequence[MachineTrace], residuals: Sequence[FloatArray]
) -> tuple[float, float, float]:
    """Bursts per day of a machine, their mean length in seconds and their mean height."""
    lengths: list[float] = []
    heights: list[float] = []
    seen_s = 0.0
    for machine, residual in zip(machines, residuals, strict=True):
        gaps = np.diff(machine.times_s)
        seen_s += float(gaps[gaps <= _GAP_S].sum())
        edges = np.diff((residual > BURST_LEAST).astype(np.int8), prepend=0, append=0)
        for begin, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
            heights.append(float(residual[begin:end].max()))
            if end < len(residual):
                lengths.append(min(float(machine.times_s[end] - machine.times_s[begin]), _GAP_S))
    if not lengths:
        return 0.0, 1.0, BURST_LEAST
    return len(heights) / (seen_s / DAY_S), float(np.mean(lengths)), float(np.mean(heights))


def as_source(parameters: LoadParameters) -> str:
    """The parameters as the arguments of a call, rounded to what the data support."""
    lines = []
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        if isinstance(value, tuple):
            text = f"({', '.join(f'{share:.2f}' for share in value)})"
        elif field.name.endswith("_s"):
            text = f"{value:.0f}.0"
        else:
            text = f"{value:.3g}"
        lines.append(f"    {field.name}={text},")
    return "LoadParameters(\n" + "\n".join(lines) + "\n)"


def main(arguments: Sequence[str]) -> int:
    """Fit to the trace in a directory and print the parameters."""
    if len(arguments) != 1:
        print("usage: python -m simulation.cluster.fit DIR", file=sys.stderr)
        return 2
    try:
        usage = read_machine_usage(Path(arguments[0]))
        print(as_source(fit(usage.machines)))
    except TraceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(
        f"# {usage.file}: {len(usage.machines)} machines, {usage.rows} rows,"
        f" {usage.invalid} without a valid reading, {usage.malformed.count} malformed",
        file=sys.stderr,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
