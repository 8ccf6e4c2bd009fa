"""Lists of nodes, pods and machines are read under any date, and errors name the problem."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from simulation.closed_loop.trace_files import TraceError
from simulation.closed_loop.traces import CPU_COLUMNS, POD_COLUMNS, STEPS, model_traces, read_traces

_NODES = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1024,0,\n"
_PODS = (
    f"{','.join(POD_COLUMNS)}\np,8000,512,0,0,,LS,Running,0,10,0\nq,1,1,2,0,,LS,Running,0,10,0\n"
)


def write_lists(directory: Path, cpu: str) -> Path:
    (directory / "openb-nodes-of-june.csv").write_text(_NODES)
    (directory / "openb_pod_list_cpu250.csv").write_text(_PODS)
    text = f"{','.join(CPU_COLUMNS)}\n{cpu}"
    (directory / "planetlab-20110409.csv.gz").write_bytes(gzip.compress(text.encode()))
    return directory


def test_lists_are_read_under_any_date(tmp_path: Path) -> None:
    (traces,) = read_traces(write_lists(tmp_path, ",".join(["vm", *["7"] * STEPS])))
    assert traces.nodes.tolist() == [[32_000, 1024 * 2**20]]
    assert traces.pods.tolist() == [[8_000, 512 * 2**20]]
    assert traces.cpu_percent.shape == (1, STEPS)
    assert (traces.cpu_percent == 7).all()


def test_a_machine_that_uses_more_than_its_capacity_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 2: found 101; expected 0 to 100 percent"):
        read_traces(write_lists(tmp_path, ",".join(["vm", *["101"] * STEPS])))


def test_pods_that_request_no_cpu_are_left_out(tmp_path: Path) -> None:
    directory = write_lists(tmp_path, ",".join(["vm", *["7"] * STEPS]))
    pods = directory / "openb_pod_list_cpu250.csv"
    pods.write_text(_PODS + "r,0,512,0,0,,LS,Running,0,10,0\ns,0,1,0,0,,BE,Running,0,10,0\n")
    (traces,) = read_traces(directory)
    assert traces.pods.tolist() == [[8_000, 512 * 2**20]]


def test_each_file_of_machines_is_a_day_also_in_a_subdirectory(tmp_path: Path) -> None:
    directory = write_lists(tmp_path, ",".join(["vm", *["7"] * STEPS]))
    (directory / "more").mkdir()
    later = directory / "more" / "planetlab-20110325-cpu-percent.csv"
    later.write_text(",".join(["machine", *["9"] * STEPS]))
    first, second = read_traces(directory)
    assert (first.day, second.day) == ("20110325", "20110409")
    assert (first.cpu_percent.max(), second.cpu_percent.max()) == (9, 7)
    assert first.nodes is second.nodes
    later.rename(later.with_name("planetlab-20110409.csv"))
    with pytest.raises(TraceError, match="both of day 20110409; expected one file per day"):
        read_traces(directory)


def test_an_error_names_the_missing_list(tmp_path: Path) -> None:
    (tmp_path / "openb-pods.csv").write_text(_PODS)
    with pytest.raises(TraceError, match="nodes of the OpenB trace"):
        read_traces(tmp_path)


def test_the_model_is_one_list_with_a_few_machines_that_are_busy_all_day() -> None:
    first, second = model_traces(), model_traces()
    assert (first.cpu_percent == second.cpu_percent).all()
    means = first.cpu_percent.mean(axis=1)
    assert 8 < means.mean() < 18
    assert 10 < means.std() < 20
    assert np.median(means) < means.mean()
