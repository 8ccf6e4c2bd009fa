"""The load model: seeded, bounded, and shaped by its parameters."""

from dataclasses import replace

import numpy as np
import pytest

from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import DAY_S, LoadModel, Temper

QUIET = replace(ALIBABA_2018, noise_deviation=0.0, bursts_per_day=0.0, memory_deviation=0.0)


def _day(model: LoadModel, tempers: list[Temper]) -> tuple[np.ndarray, np.ndarray]:
    return model.usage(tempers, int(DAY_S / model.period_s))


def test_the_same_seed_gives_the_same_load_and_another_one_another() -> None:
    one, again, other = (LoadModel(ALIBABA_2018, seed, 300.0) for seed in (1, 1, 2))
    np.testing.assert_array_equal(_day(one, ["busy"])[0], _day(again, ["busy"])[0])
    assert not np.array_equal(_day(one, ["busy"])[0], _day(other, ["busy"])[0])


def test_more_machines_change_nothing_about_those_that_were_there() -> None:
    model = LoadModel(ALIBABA_2018, 1, 300.0)
    few, many = _day(model, ["busy", "hot"]), _day(model, ["busy", "hot", "idle", "busy"])
    np.testing.assert_array_equal(few[0], many[0][:, :2])
    np.testing.assert_array_equal(few[1], many[1][:, :2])


def test_usage_is_a_share_of_the_machine_however_wild_the_noise() -> None:
    wild = replace(ALIBABA_2018, noise_deviation=5.0, burst_height=50.0, memory_deviation=2.0)
    cpu, memory = _day(LoadModel(wild, 1, 300.0), ["busy", "idle", "hot"])
    for usage in (cpu, memory):
        assert usage.min() >= 0.0
        assert usage.max() <= 1.0


def test_without_noise_a_machine_follows_the_hours_of_the_day() -> None:
    cpu, _ = _day(LoadModel(replace(QUIET, cpu_busy_spread=0.0), 1, 1800.0), ["busy"])
    middles = cpu[1::2, 0] / ALIBABA_2018.cpu_busy_mean
    assert middles.tolist() == pytest.approx(list(ALIBABA_2018.hourly))


def test_a_hot_machine_stays_hot_all_day_and_an_idle_one_idle() -> None:
    cpu, _ = _day(LoadModel(ALIBABA_2018, 1, 300.0), ["busy", "idle", "hot"])
    assert cpu[:, 1].max() < 0.25
    assert cpu[:, 2].min() > 0.6
    assert cpu[:, 2].mean() == pytest.approx(ALIBABA_2018.cpu_hot_level, rel=0.1)


def test_bursts_come_as_often_as_they_should() -> None:
    bursting = replace(QUIET, bursts_per_day=20.0, burst_time_s=600.0, cpu_busy_spread=0.0)
    model, days = LoadModel(bursting, 1, 60.0), 20
    cpu, _ = model.usage(["busy"], int(days * DAY_S / 60))
    calm, _ = LoadModel(replace(QUIET, cpu_busy_spread=0.0), 1, 60.0).usage(
        ["busy"], int(days * DAY_S / 60)
    )
    share = (cpu > calm * 1.5).mean()
    assert share == pytest.approx(20 * 600 / DAY_S, rel=0.25)


def test_no_readings_are_no_error() -> None:
    cpu, memory = LoadModel(ALIBABA_2018, 1, 60.0).usage(["busy"], 0)
    assert cpu.shape == memory.shape == (0, 1)
