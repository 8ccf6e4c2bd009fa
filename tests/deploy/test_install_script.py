"""The install script of the image, run into an empty folder without a container engine."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from connectors.process.local_ports import find_free_port
from tests.conftest import RunningBroker

_ROOT = Path(__file__).parents[2]
_READY_S = 120


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_installed_worker_is_healthy_and_ready(embedded: RunningBroker, tmp_path: Path) -> None:
    folder, port = tmp_path / "loadstream", find_free_port()
    subprocess.run(  # noqa: S603 - our own script
        ["sh", _ROOT / "deploy/install.sh", folder],  # noqa: S607
        cwd=_ROOT, env={**os.environ, "PYTHON": sys.executable}, check=True,
    )  # fmt: skip
    assert not (folder / "bin" / "pip").exists()
    environment = {
        "PATH": f"{folder}/bin:/usr/bin:/bin",
        "LOADSTREAM_COMMIT": "0123abc",
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
        "LOADSTREAM_WORKER_METRICS_PORT": str(port),
        "LOADSTREAM_WORKER_DATA_DIR": str(tmp_path / "data"),
    }
    program = folder / "bin" / "loadstream"
    shown = subprocess.run(  # noqa: S603 - what was just installed
        [program, "version"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.endswith(" (commit 0123abc)\n")
    worker = subprocess.Popen([program, "worker"], env=environment, cwd=tmp_path)  # noqa: S603
    try:
        until = time.monotonic() + _READY_S
        while not (_answers(port, "/healthz") and _answers(port, "/readyz")):
            assert worker.poll() is None, "the worker ended"
            assert time.monotonic() < until, "the worker was not ready in time"
            time.sleep(0.5)
    finally:
        worker.terminate()
        assert worker.wait(60) == 0


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False
