"""Small traces in the published formats, for tests."""

import gzip
from pathlib import Path

ALIBABA_HEADER = "machine_id,time_seconds,cpu_util_percent,mem_util_percent,mem_gps,mkpi,net_in,net_out,disk_io_percent"
OPENB_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time"
)


def write_alibaba(directory: Path, rows: list[str], name: str = "machine_usage.csv") -> Path:
    """A machine usage file; rows are machine, seconds, cpu, memory."""
    return _write(directory / name, ALIBABA_HEADER, [f"{row},,,1.0,2.0,3" for row in rows])


def write_openb(directory: Path, rows: list[str], name: str = "openb_pod_list.csv") -> Path:
    """A pod list; rows are complete."""
    return _write(directory / name, OPENB_HEADER, rows)


def _write(path: Path, header: str, rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join([header, *rows]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def small_traces(directory: Path) -> Path:
    """Three machines over two days, a reading every two minutes; four tasks, two with GPUs."""
    rows = [
        f"m_{machine},{time},{20 + 5 * machine + time // 3600 % 24},{85 + machine}"
        for machine in (1, 2, 3)
        for time in range(0, 2 * 86_400, 120)
    ]
    write_alibaba(directory, rows)
    write_openb(
        directory,
        [
            "task-a,4000,8192,0,0,,LS,Running,100,4000,100",
            "task-b,8000,16384,0,0,,BE,Running,200,9000,200",
            "task-c,8000,16384,1,1000,V100,LS,Running,300,9000,300",
            "task-d,2000,4096,0,0,,Guaranteed,Running,400,,400",
        ],
    )
    return directory
