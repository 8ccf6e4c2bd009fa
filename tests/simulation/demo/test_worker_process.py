"""The worker's process: it never outlives the demo, and its end is reported with its last words."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulation.demo.worker import WorkerDied, WorkerProcess


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while _alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_worker_that_cannot_start_is_noticed_with_its_reason(tmp_path: Path) -> None:
    settings = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "not an address"}
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        assert _gone(worker.pid)
        with pytest.raises(
            WorkerDied, match=r"exit code 2; its log .*ends with:\n(.*\n)*.*not an addr"
        ):
            worker.check()


def test_settings_of_whoever_runs_the_demo_do_not_reach_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTREAM_WORKER_STAGES", "nonsense")
    monkeypatch.setenv("LOADSTREAM_KAFKA_SASL_USERNAME", "somebody")
    log = tmp_path / "worker.log"
    with WorkerProcess({"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "wrong"}, log) as worker:
        assert _gone(worker.pid)
    text = log.read_text()
    assert "wrong" in text
    assert "nonsense" not in text
    assert "SASL" not in text


def test_the_worker_is_ended_with_the_block(tmp_path: Path) -> None:
    settings = {
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        # It must not have given up before it is looked at.
        "LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S": "300",
    }
    with WorkerProcess(settings, tmp_path / "worker.log") as worker:
        pid = worker.pid
        worker.check()
    assert not _alive(pid)


def test_the_worker_is_ended_when_the_demo_is_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, time\n"
        "from simulation.demo.worker import WorkerProcess\n"
        "settings = {'LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS': '127.0.0.1:1',\n"
        "            'LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S': '300'}\n"
        f"with WorkerProcess(settings, pathlib.Path({str(tmp_path / 'worker.log')!r})) as worker:\n"
        "    print(worker.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    demo = subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        text=True,
    )
    assert demo.stdout is not None
    with demo.stdout:
        pid = int(demo.stdout.readline())
    assert _alive(pid)
    os.kill(demo.pid, signal.SIGKILL)
    demo.wait()
    assert _gone(pid)
