"""Surges: pods that run already begin to use several times as much, for hours.

Placement cannot foresee them. No machine of the trace shows one that can be distinguished from its
bursts, so which machines' pods surge, when, for how long and how much is chosen, and drawn from the
seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulation.cluster.machines import Machine
from simulation.cluster.readings import Readings

#: One busy machine in this number has a surge, at least one.
_ONE_IN = 5
#: What its pods use, as a multiple of what they would.
FACTOR = 3.0
#: A surge lasts for this share of the time in which surges may begin.
_LASTS = 0.3

_STREAM = 40


@dataclass(frozen=True, slots=True)
class Surge:
    """The base load of a machine rises, and falls again."""

    machine: int
    """Index of the machine whose pods surge."""
    begin_ms: int
    end_ms: int


def draw_surges(
    machines: Sequence[Machine], seed: int, begin_ms: int, end_ms: int
) -> tuple[Surge, ...]:
    """Surges of machines drawn from the seed, evenly begun; all are over at `end_ms`."""
    busy = [index for index, machine in enumerate(machines) if machine.temper == "busy"]
    count = min(len(busy), max(1, round(len(busy) / _ONE_IN)))
    chosen = np.random.default_rng([seed, _STREAM]).permutation(busy)[:count].tolist()
    lasts_ms = int((end_ms - begin_ms) * _LASTS)
    step_ms = (end_ms - begin_ms - lasts_ms) // max(1, count)
    return tuple(
        Surge(machine, begin_ms + step_ms * number, begin_ms + step_ms * number + lasts_ms)
        for number, machine in enumerate(chosen)
    )


def with_surges(
    readings: Readings, machines: Sequence[Machine], surges: Sequence[Surge]
) -> Readings:
    """The readings with the cores of surging machines raised, to what they have at most."""
    millicores = readings.millicores.copy()
    for surge in surges:
        under_way = (
            (readings.machine == surge.machine)
            & (readings.at_ms >= surge.begin_ms)
            & (readings.at_ms < surge.end_ms)
        )
        raised = (millicores[under_way] * FACTOR).round().astype(np.int64)
        millicores[under_way] = np.minimum(raised, machines[surge.machine].millicores)
    return Readings(readings.at_ms, readings.machine, millicores, readings.memory_bytes)
