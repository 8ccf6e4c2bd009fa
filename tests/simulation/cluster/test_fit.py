"""Fitting the load model: what the model makes is found again, and the constants are what a fit
gives."""

import os
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from simulation.cluster import fit
from simulation.cluster.alibaba import MachineTrace, read_machine_usage
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.load import DAY_S, LoadModel, Temper
from simulation.cluster.tracefiles import TraceError
from tests.simulation.cluster.traces import write_alibaba


def _traced(seed: int, days: int = 8) -> list[MachineTrace]:
    """A trace of sixteen machines as the model makes it."""
    tempers: list[Temper] = ["busy"] * 14
    tempers += ["idle"] * 2
    times = np.arange(int(days * DAY_S / 60), dtype=np.int64) * 60
    cpu, memory = LoadModel(ALIBABA_2018, seed, 60.0).usage(tempers, len(times))
    return [
        MachineTrace(f"m_{index}", times, cpu[:, index] * 100, memory[:, index] * 100)
        for index in range(len(tempers))
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fit_finds_the_parameters_of_the_load_that_the_model_made(seed: int) -> None:
    found = fit.fit(_traced(seed))
    wanted = ALIBABA_2018
    assert found.idle_share == wanted.idle_share
    # Means over eight days of a common slow noise are off by some percent.
    assert found.cpu_busy_mean == pytest.approx(wanted.cpu_busy_mean, rel=0.12)
    assert found.cpu_idle_mean == pytest.approx(wanted.cpu_idle_mean, rel=0.15)
    assert found.hourly == pytest.approx(wanted.hourly, abs=0.2)
    assert found.hourly.index(max(found.hourly)) == wanted.hourly.index(max(wanted.hourly))
    assert found.noise_deviation == pytest.approx(wanted.noise_deviation, rel=0.15)
    assert found.fast_time_s == pytest.approx(wanted.fast_time_s, rel=0.5)
    assert found.slow_share == pytest.approx(wanted.slow_share, abs=0.15)
    assert found.slow_shared == pytest.approx(wanted.slow_shared, abs=0.25)
    # The noise itself makes some bursts more, and rides on those that there are.
    assert found.bursts_per_day == pytest.approx(wanted.bursts_per_day, rel=0.6)
    assert found.burst_height == pytest.approx(wanted.burst_height, rel=0.25)
    assert found.memory_mean == pytest.approx(wanted.memory_mean, abs=0.03)
    assert found.memory_deviation == pytest.approx(wanted.memory_deviation, rel=0.35)
    assert found.memory_time_s == pytest.approx(wanted.memory_time_s, rel=0.5)


def test_a_burst_is_counted_once_with_its_length_and_height() -> None:
    times = np.arange(0, 3 * 86_400, 60, dtype=np.int64)
    cpu = np.full(len(times), 20.0)
    cpu[1000:1005] = 50.0
    steady = MachineTrace(
        "b", times, np.full(len(times), 20.0), np.full(len(times), 50.0) + times % 7
    )
    found = fit.fit([MachineTrace("a", times, cpu, steady.memory_percent), steady])
    assert found.bursts_per_day == pytest.approx(1 / 6, rel=0.01)
    assert found.burst_time_s == pytest.approx(300.0)
    assert found.burst_height == pytest.approx(1.5, rel=0.05)


def test_a_trace_of_one_busy_machine_is_not_enough() -> None:
    with pytest.raises(TraceError, match="1 machines are busy"):
        fit.fit(_traced(1)[:1])


def test_a_short_trace_is_not_enough() -> None:
    with pytest.raises(TraceError, match="0 machines are busy"):
        fit.fit(_traced(1, days=1))


def test_the_command_prints_what_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        f"m_{machine},{time},{30 + machine + time // 3600 % 24 + time // 60 % 3},{80 + time // 60 % 5}"
        for machine in (1, 2)
        for time in range(0, 3 * 86_400, 60)
    ]
    write_alibaba(tmp_path, rows)
    assert fit.main([str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("LoadParameters(\n")
    assert all(f"    {field.name}=" in printed for field in fields(ALIBABA_2018))


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fit.main([str(tmp_path)]) == 1
    assert "holds no machine usage" in capsys.readouterr().err
    assert fit.main([]) == 2


def test_the_constants_are_what_a_fit_to_the_trace_gives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = os.environ.get("LOADSTREAM_TRACES")
    if not directory:
        pytest.skip("LOADSTREAM_TRACES names no directory with the Alibaba 2018 trace")
    fitted = fit.as_source(fit.fit(read_machine_usage(Path(directory)).machines))
    assert fitted == fit.as_source(ALIBABA_2018)
