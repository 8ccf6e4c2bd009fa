"""Readings of the machines' base load, in the order of time: what the model and the traces both
give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simulation.cluster.load import DAY_S, LoadModel
from simulation.cluster.machines import Machine

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Readings:
    """Base load of machines; all arrays have the shape (readings,), ascending in time."""

    at_ms: IntArray
    """Times, in ms since 1970."""
    machine: IntArray
    """Index of the machine."""
    millicores: IntArray
    memory_bytes: IntArray

    def __len__(self) -> int:
        return len(self.at_ms)

    def until(self, at_ms: int) -> int:
        """How many readings are at this time or before."""
        return int(np.searchsorted(self.at_ms, at_ms, side="right"))

    def base(self, index: int) -> dict[str, int]:
        """The base load of one reading, by resource."""
        return {
            "cpu": int(self.millicores[index]),
            "memory": int(self.memory_bytes[index]),
        }


def in_order(
    at_ms: IntArray, machine: IntArray, millicores: IntArray, memory_bytes: IntArray
) -> Readings:
    """Readings sorted by time, then by machine."""
    order = np.lexsort((machine, at_ms))
    return Readings(at_ms[order], machine[order], millicores[order], memory_bytes[order])


def model_readings(
    model: LoadModel, machines: Sequence[Machine], begin_ms: int, end_ms: int, share: float
) -> Readings:
    """Readings of the model from `begin_ms` to `end_ms`, one a machine and period.

    Machines are read one after the other over the period, as they would be in a cluster. `share` of
    the model's usage is base load; of machines that stay hot all of the CPU is. A machine without a
    temper is not the model's: its readings are 0 and to be filled in when they are taken.
    """
    period_ms = round(model.period_s * 1000)
    count = max(0, (end_ms - begin_ms) // period_ms)
    millicores = np.zeros((count, len(machines)), dtype=np.int64)
    memory_bytes = np.zeros((count, len(machines)), dtype=np.int64)
    drawn = [(index, machine.temper) for index, machine in enumerate(machines) if machine.temper]
    cpu, memory = model.usage([temper for _, temper in drawn], count, begin_ms / 1000 % DAY_S)
    for column, (index, temper) in enumerate(drawn):
        cpu_share = 1.0 if temper == "hot" else share
        machine = machines[index]
        millicores[:, index] = (cpu[:, column] * cpu_share * machine.millicores).round()
        memory_bytes[:, index] = (memory[:, column] * share * machine.memory_bytes).round()
    indexes = np.arange(len(machines), dtype=np.int64)
    offsets = indexes * period_ms // max(1, len(machines))
    at_ms = begin_ms + period_ms * np.arange(count, dtype=np.int64)[:, None] + offsets
    return in_order(
        at_ms.ravel(), np.tile(indexes, count), millicores.ravel(), memory_bytes.ravel()
    )
