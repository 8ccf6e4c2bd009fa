"""Readings of the model, in the order of time."""

import numpy as np
import pytest

from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import LoadModel
from simulation.cluster.machines import Machine, make_machines
from simulation.cluster.readings import model_readings

BEGIN_MS = 1_772_409_600_000
HOUR_MS = 3_600_000


def test_every_machine_is_read_once_a_period_and_not_all_at_once() -> None:
    machines = make_machines(10, 1, ALIBABA_2018, BEGIN_MS)
    model = LoadModel(ALIBABA_2018, 1, 120.0)
    readings = model_readings(model, machines, BEGIN_MS, BEGIN_MS + HOUR_MS, 0.6)
    assert len(readings) == 300
    assert (np.diff(readings.at_ms) >= 0).all()
    for machine in range(10):
        own = readings.at_ms[readings.machine == machine]
        assert (np.diff(own) == 120_000).all()
    assert len(set(readings.at_ms[:10].tolist())) == 10


def test_the_base_is_a_share_of_the_model_and_all_of_it_on_hot_machines() -> None:
    machines = make_machines(10, 1, ALIBABA_2018, BEGIN_MS)
    model = LoadModel(ALIBABA_2018, 1, 120.0)
    whole, part = (
        model_readings(model, machines, BEGIN_MS, BEGIN_MS + HOUR_MS, share) for share in (1.0, 0.5)
    )
    for index, machine in enumerate(machines):
        own = whole.machine == index
        ratio = part.millicores[own].sum() / whole.millicores[own].sum()
        assert ratio == pytest.approx(1.0 if machine.temper == "hot" else 0.5, rel=0.01)
        memory = part.memory_bytes[own].sum() / whole.memory_bytes[own].sum()
        assert memory == pytest.approx(0.5, rel=0.01)


def test_a_machine_without_a_temper_has_readings_to_be_filled_in() -> None:
    machines = (Machine("live", 2000, 1 << 30), *make_machines(2, 1, ALIBABA_2018, BEGIN_MS))
    model = LoadModel(ALIBABA_2018, 1, 120.0)
    readings = model_readings(model, machines, BEGIN_MS, BEGIN_MS + HOUR_MS, 0.6)
    own = readings.machine == 0
    assert own.sum() == 30
    assert readings.millicores[own].max() == 0
    assert readings.millicores[~own].min() > 0


def test_until_counts_readings_up_to_and_with_a_time() -> None:
    machines = make_machines(2, 1, ALIBABA_2018, BEGIN_MS)
    model = LoadModel(ALIBABA_2018, 1, 120.0)
    readings = model_readings(model, machines, BEGIN_MS, BEGIN_MS + HOUR_MS, 0.6)
    assert readings.until(BEGIN_MS - 1) == 0
    assert readings.until(BEGIN_MS) == 1
    assert readings.until(BEGIN_MS + 60_000) == 2
    assert readings.until(BEGIN_MS + HOUR_MS) == len(readings)
