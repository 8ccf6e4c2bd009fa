"""Figures, and the timing of calls."""

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median


class CheckFailed(AssertionError):
    """A check of the measurement failed, so there is no figure."""


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    unit: str
    detail: dict[str, object] = field(default_factory=dict)

    def to_json(self, name: str) -> str:
        value = round(self.value, 3)
        return json.dumps({"name": name, "value": value, "unit": self.unit, "detail": self.detail})


Benchmark = Callable[[], Figure]


def measure_median_us(
    step: Callable[[int], object],
    repeats: int,
    *,
    before: Callable[[int], object] | None = None,
    warmup: int = 50,
) -> tuple[float, float]:
    """Return the median and the minimum time of a call of `step`, in microseconds.

    Each call is timed separately, so an interruption affects only one measurement.

    Args:
        step: the measured function, called with the number of the call.
        repeats: number of measured calls.
        before: called before each call of `step`, outside of the measured time.
        warmup: number of calls before the measured calls.
    """
    times_ns = []
    gc.collect()
    gc.disable()
    try:
        for number in range(warmup + repeats):
            if before is not None:
                before(number)
            began = time.perf_counter_ns()
            step(number)
            times_ns.append(time.perf_counter_ns() - began)
    finally:
        gc.enable()
    return median(times_ns[warmup:]) / 1000, min(times_ns[warmup:]) / 1000
