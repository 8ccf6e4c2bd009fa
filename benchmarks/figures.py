"""Figures and how they are taken."""

import gc
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median


class Unproven(AssertionError):
    """What was measured is not what was meant to be measured; there is no figure then."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure."""

    name: str
    value: float
    unit: str
    detail: dict[str, object] = field(default_factory=dict)

    def line(self) -> str:
        """The figure as a line of JSON."""
        return json.dumps(
            {
                "name": self.name,
                "value": round(self.value, 3),
                "unit": self.unit,
                "detail": self.detail,
            }
        )


Benchmark = Callable[[], Figure]


def median_us(
    step: Callable[[int], object],
    repeats: int,
    *,
    before: Callable[[int], object] | None = None,
    warmup: int = 50,
) -> tuple[float, float]:
    """Median and smallest time of one call of `step` in microseconds.

    Each call is timed by itself, so that an interruption of the machine spoils one sample only.

    Args:
        step: what is measured; it gets the number of the call.
        repeats: how many calls are measured.
        before: happens before each call, outside of the measured time.
        warmup: calls before those.
    """
    taken = []
    gc.collect()
    gc.disable()
    try:
        for number in range(warmup + repeats):
            if before is not None:
                before(number)
            began = time.perf_counter_ns()
            step(number)
            taken.append(time.perf_counter_ns() - began)
    finally:
        gc.enable()
    return median(taken[warmup:]) / 1000, min(taken[warmup:]) / 1000
