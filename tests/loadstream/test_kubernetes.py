"""Errors of `loadstream kubernetes ...` as commands."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.process.local_ports import find_free_port
from loadstream.commands import app
from tests.conftest import RunningBroker

_COMMAND = [sys.executable, "-m", "loadstream", "kubernetes"]
_NOBODY = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: u, user: {}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig of an API server that cannot be reached."""
    path = tmp_path / "kubeconfig"
    path.write_text(_NOBODY.replace("PORT", str(find_free_port())), encoding="utf-8")
    return path


def start(broker: str, *options: str) -> "subprocess.Popen[str]":
    # A wide terminal, so that a sentence in a box is not wrapped.
    wide = {"COLUMNS": "1000"}
    environment = {**os.environ, **wide, "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": broker}
    return subprocess.Popen(  # noqa: S603 - our own command
        [*_COMMAND, *options], env=environment, stderr=subprocess.PIPE, text=True
    )


def run_to_end(broker: str, *options: str) -> tuple[int, str]:
    process = start(broker, *options)
    try:
        _, stderr = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, stderr


def test_an_unavailable_broker_at_the_start_is_an_error(kubeconfig: Path) -> None:
    away = f"127.0.0.1:{find_free_port()}"
    code, stderr = run_to_end(away, "watch", "--cluster", "c1", "--kubeconfig", str(kubeconfig))
    assert code == 1
    assert stderr.startswith("error: ")
    assert away in stderr


def test_a_wrong_sources_file_is_an_error_with_lines(tmp_path: Path, kubeconfig: Path) -> None:
    file = tmp_path / "sources.yaml"
    file.write_text("sources:\n- kind: kubelet\n  evry: 10\n", encoding="utf-8")
    code, stderr = run_to_end(
        "127.0.0.1:1", "collect", "--cluster", "c1", "--kubeconfig", str(kubeconfig),
        "--sources", str(file),
    )  # fmt: skip
    assert code == 2
    assert "sources.yaml" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize("duty", ["all", "bind"])
def test_an_unavailable_api_server_is_awaited_until_sigterm(
    embedded: RunningBroker, kubeconfig: Path, duty: str
) -> None:
    process = start(
        embedded.bootstrap_servers, duty, "--cluster", "c1", "--kubeconfig", str(kubeconfig)
    )
    assert process.stderr is not None
    log = ""
    while "this process is active" not in log:
        line = process.stderr.readline()
        assert line, log
        log += line
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "this process is no longer active" in rest
    assert "Traceback" not in log + rest


@pytest.mark.broker
def test_a_number_of_partitions_that_differs_from_the_topics_ends_the_process(
    embedded: RunningBroker,
) -> None:
    """Otherwise it would wait for, or work on, a partition of another cluster."""
    address = {
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
        "LOADSTREAM_KAFKA_PARTITIONS": "7",
    }
    options = ["watch", "--cluster", "blue", "--kubeconfig", "/nonexistent/kubeconfig"]
    result = CliRunner().invoke(app, ["kubernetes", *options], env=address)
    assert result.exit_code == 1
    message = "has 4 partitions; LOADSTREAM_KAFKA_PARTITIONS is 7: set it to 4"
    assert message in result.output
