"""What nodes use themselves, beside their pods: the system part.

The shape is that of production machines over days (Alibaba 2018, CPU and memory), in steps of five
minutes that are held, each relative to the mean of all machines. A scenario scales it to a stated
share of each node. A machine's readings are irregular: a step has the newest one before it, and
after its last one a machine begins anew. Without a trace there is a model: machines of differing
levels that follow the day.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulation.cluster.alibaba import PATTERNS, ROWS_MAX, MachineTrace, read_machine_usage

#: CPU and memory relative to the mean of all machines; shape (2, machines, steps).
Shape = npt.NDArray[np.float32]

STEP_S = 300
#: A week and a day, as long as the published trace.
STEPS = 8 * 86_400 // STEP_S

#: The model, so that spreads and the correlation of steps are about those of the trace: machines,
#: spread of the logarithm of their levels, of their hours and of their steps, by resource; swing of
#: CPU over the day.
_MACHINES = 64
_LEVEL_SPREAD, _HOUR_SPREAD, _STEP_SPREAD = (0.33, 0.04), (0.17, 0.045), (0.17, 0.02)
_DAY_SWING = 0.28
_HOUR_STEPS = 3600 // STEP_S
_MODEL_SEED = 20_180_101


@dataclass(frozen=True, slots=True)
class SystemTrace:
    """What a file holds."""

    file: str
    shape: Shape
    complaints: tuple[str, ...]


def has_system_usage(directory: Path) -> bool:
    """Whether a directory holds usage of machines."""
    return directory.is_dir() and any(
        path.match(pattern) for path in directory.iterdir() for pattern in PATTERNS
    )


def read_system_usage(directory: Path, rows_max: int = ROWS_MAX) -> SystemTrace:
    """Read the machines of a directory. Raises TraceError where they cannot be read."""
    usage = read_machine_usage(directory, rows_max)
    steps = np.arange(STEPS) * STEP_S
    series = np.array([_steps(each, steps) for each in usage.machines]).transpose(1, 0, 2)
    complaints = usage.malformed.complaints
    if usage.cut:
        complaints = (*complaints, f"{usage.file}: rows after the first {usage.rows:,}")
    return SystemTrace(usage.file, _relative(series), complaints)


def model_system_usage() -> Shape:
    """The built-in model."""
    random = np.random.default_rng(_MODEL_SEED)
    hours = np.arange(STEPS) / _HOUR_STEPS + random.uniform(0, 24, (_MACHINES, 1))
    swing = 1 + _DAY_SWING * np.sin(2 * np.pi * hours / 24)
    series = [
        level
        * np.repeat(_factors(random, hour, STEPS // _HOUR_STEPS), _HOUR_STEPS, axis=1)
        * _factors(random, step, STEPS)
        for level, hour, step in zip(
            (_factors(random, each, 1) for each in _LEVEL_SPREAD),
            _HOUR_SPREAD,
            _STEP_SPREAD,
            strict=True,
        )
    ]
    series[0] *= swing
    return _relative(np.stack(series))


def _factors(random: np.random.Generator, spread: float, count: int) -> npt.NDArray[np.float64]:
    """Lognormal factors around 1; shape (machines, count)."""
    drawn: npt.NDArray[np.float64] = np.exp(spread * random.standard_normal((_MACHINES, count)))
    return drawn


def _steps(machine: MachineTrace, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """CPU and memory in percent at each step; shape (2, steps)."""
    first, last = int(machine.times_s[0]), int(machine.times_s[-1])
    times = first + steps % max(STEP_S, last - first)
    newest = np.searchsorted(machine.times_s, times, side="right") - 1
    return np.stack([machine.cpu_percent[newest], machine.memory_percent[newest]])


def _relative(series: npt.NDArray[np.float64]) -> Shape:
    means = series.mean(axis=(1, 2), keepdims=True)
    # A trace whose machines used nothing of a resource says nothing about its shape.
    relative: Shape = np.divide(series, means, out=np.ones_like(series), where=means > 0).astype(
        np.float32
    )
    return relative
