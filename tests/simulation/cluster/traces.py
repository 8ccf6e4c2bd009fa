"""Small traces in the published formats, for tests."""

import gzip
from pathlib import Path

ALIBABA_HEADER = "machine_id,time_seconds,cpu_util_percent,mem_util_percent,mem_gps,mkpi,net_in,net_out,disk_io_percent"


def write_alibaba(directory: Path, rows: list[str], name: str = "machine_usage.csv") -> Path:
    """A machine usage file; rows are machine, seconds, cpu, memory."""
    return _write(directory / name, ALIBABA_HEADER, [f"{row},,,1.0,2.0,3" for row in rows])


def _write(path: Path, header: str, rows: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join([header, *rows]) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path
