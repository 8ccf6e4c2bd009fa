"""Surges: pods that run already use more for a while."""

import numpy as np
import pytest

from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import LoadModel
from simulation.cluster.machines import make_machines
from simulation.cluster.readings import model_readings
from simulation.cluster.surges import FACTOR, Surge, draw_surges, with_surges

BEGIN_MS = 1_772_409_600_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize("nodes", [3, 12, 40])
def test_surges_hit_different_busy_machines_within_the_time(nodes: int) -> None:
    machines = make_machines(nodes, 1, ALIBABA_2018, BEGIN_MS)
    surges = draw_surges(machines, 1, BEGIN_MS, BEGIN_MS + 10 * HOUR_MS)
    assert surges
    assert len({surge.machine for surge in surges}) == len(surges)
    assert all(machines[surge.machine].temper == "busy" for surge in surges)
    assert all(BEGIN_MS <= s.begin_ms < s.end_ms <= BEGIN_MS + 10 * HOUR_MS for s in surges)
    assert surges == draw_surges(machines, 1, BEGIN_MS, BEGIN_MS + 10 * HOUR_MS)


def test_a_surge_raises_its_machine_and_no_other_and_not_above_what_that_has() -> None:
    machines = make_machines(4, 1, ALIBABA_2018, BEGIN_MS)
    model = LoadModel(ALIBABA_2018, 1, 120.0)
    before = model_readings(model, machines, BEGIN_MS, BEGIN_MS + 4 * HOUR_MS, 0.6)
    busy = next(index for index, machine in enumerate(machines) if machine.temper == "busy")
    surge = Surge(busy, BEGIN_MS + HOUR_MS, BEGIN_MS + 2 * HOUR_MS)
    after = with_surges(before, machines, [surge])
    changed = np.flatnonzero(after.millicores != before.millicores)
    assert set(after.machine[changed].tolist()) == {busy}
    assert after.at_ms[changed].min() >= surge.begin_ms
    assert after.at_ms[changed].max() < surge.end_ms
    expected = np.minimum(before.millicores[changed] * FACTOR, machines[busy].millicores)
    assert np.abs(after.millicores[changed] - expected).max() <= 1
    assert (after.memory_bytes == before.memory_bytes).all()
