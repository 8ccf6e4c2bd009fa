"""Machine usage of the Alibaba trace: what is no valid reading is left out and counted."""

from pathlib import Path

import pytest

from simulation.cluster.alibaba import read_machine_usage
from simulation.cluster.tracefiles import TraceError
from tests.simulation.cluster.traces import write_alibaba


def test_readings_are_sorted_by_machine_and_time_whatever_the_order_of_the_rows(
    tmp_path: Path,
) -> None:
    write_alibaba(tmp_path, ["m_2,30,40,90", "m_1,20,10,80", "m_2,10,20,70", "m_1,90,30,60"])
    usage = read_machine_usage(tmp_path)
    assert [machine.name for machine in usage.machines] == ["m_1", "m_2"]
    assert usage.machines[1].times_s.tolist() == [10, 30]
    assert usage.machines[1].cpu_percent.tolist() == [20, 40]
    assert usage.machines[1].memory_percent.tolist() == [70, 90]
    assert (usage.rows, usage.invalid, usage.repeated, usage.malformed.count) == (4, 0, 0, 0)


@pytest.mark.parametrize("reading", ["", "-1", "101", "250", "-3", "nan", "inf"])
def test_an_invalid_reading_of_either_resource_is_left_out_and_counted(
    tmp_path: Path, reading: str
) -> None:
    write_alibaba(tmp_path, ["m_1,10,20,30", f"m_1,20,{reading},30", f"m_1,30,20,{reading}"])
    usage = read_machine_usage(tmp_path)
    assert usage.machines[0].times_s.tolist() == [10]
    assert usage.invalid == 2
    assert usage.malformed.count == 0


def test_malformed_rows_are_told_with_file_and_line(tmp_path: Path) -> None:
    write_alibaba(tmp_path, ["m_1,10,20,30", "m_1,soon,20,30", "m_1,20,much,30"])
    malformed = read_machine_usage(tmp_path).malformed
    assert malformed.count == 2
    assert malformed.reported[0] == (
        "machine_usage.csv line 3: time_seconds: found 'soon'; expected a whole number, at least 0"
    )
    assert "line 4: cpu_util_percent: found 'much'" in malformed.reported[1]


def test_a_file_without_a_valid_reading_is_an_error(tmp_path: Path) -> None:
    write_alibaba(tmp_path, ["m_1,10,-1,30"])
    with pytest.raises(TraceError, match="no valid reading in 1 rows"):
        read_machine_usage(tmp_path)
