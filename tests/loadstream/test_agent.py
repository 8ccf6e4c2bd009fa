"""`loadstream agent` as a command."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from connectors.kafka.client import connect
from connectors.kafka.cluster_records import PastMessages
from connectors.process.local_ports import find_free_port
from tests.conftest import RunningBroker, eventually
from tests.connectors.agent.trees import MIB, UID_A, NodeFiles

_COMMAND = [sys.executable, "-m", "loadstream", "agent"]


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    files = NodeFiles(tmp_path, "v2", "systemd")
    files.name(UID_A, "shop", "web-1")
    files.write(files.pod_path(UID_A, "burstable"), 5_000_000_000, 8 * MIB, 4 * MIB)
    return [
        "--cluster", "c", "--node", "n1", "--interval", "1", "--proc", str(files.proc),
        "--cgroup", str(files.cgroup), "--pod-logs", str(files.pod_logs),
    ]  # fmt: skip


def _run(*options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own command
        [*_COMMAND, *options], capture_output=True, text=True, check=False
    )


def test_one_sample_needs_no_broker(options: list[str], cache: Path) -> None:
    done = _run(*options, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    sample = json.loads(done.stdout)
    assert (sample["cluster"], sample["node"]) == ("c", "n1")
    assert sample["usage"] == {"cpu": 0, "memory": 400_000 * 1024}
    (pod,) = sample["pods"]
    assert (pod["namespace"], pod["name"], pod["uid"]) == ("shop", "web-1", UID_A)


def test_an_error_names_the_missing_files(options: list[str], cache: Path) -> None:
    done = _run(*options[:-1], "/nowhere", "--once")
    assert (done.returncode, json.loads(done.stdout)["pods"]) == (0, [])
    assert done.stderr.startswith("files: /nowhere: found no folder of any of 1 pods; expected ")


def test_samples_go_to_the_broker_until_sigterm(
    options: list[str], embedded: RunningBroker
) -> None:
    port = find_free_port()
    environment = {
        **os.environ,
        "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": embedded.bootstrap_servers,
        # The broker runs in the process of the test, which may pause for a while.
        "LOADSTREAM_KAFKA_CONNECT_TIMEOUT_S": "60",
    }
    agent = subprocess.Popen(  # noqa: S603 - our own command
        [*_COMMAND, *options, "--metrics-host", "127.0.0.1", "--metrics-port", str(port)],
        env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        samples = PastMessages(connect(embedded.settings), "node-usage", None, 10)
        assert eventually(lambda: any(samples.newest()))
        (sample, *_) = samples.newest()
        assert [pod.name for pod in sample.pods] == ["web-1"]

        def fetch_metrics() -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                return answer.read().decode()  # type: ignore[no-any-return]

        assert eventually(lambda: "loadstream_agent_pods 1.0" in fetch_metrics())
        # The broker holds the sample before the agent receives the acknowledgement.
        succeeded = "loadstream_agent_last_success_timestamp_seconds 1."
        assert eventually(lambda: succeeded in fetch_metrics())
        agent.send_signal(signal.SIGTERM)
        _, stderr = agent.communicate(timeout=60)
    finally:
        agent.kill()
    assert (agent.returncode, stderr) == (0, "stopped by SIGTERM\n")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            ("--once", "--metrics-host", "127.0.0.1"),
            "Invalid value for --metrics-host: found '127.0.0.1' and no port; give --metrics-port",
        ),
        (
            ("--once", "--metrics-port", "9101"),
            "Invalid value for --metrics-port: it has no effect with --once",
        ),
        (("--interval", "0.5"), "Invalid value for '--interval'"),
        (("--cluster", "a/b"), 'found "a/b"; expected'),
    ],
)
def test_an_error_names_the_wrong_option(
    options: list[str], wrong: tuple[str, ...], expected: str
) -> None:
    done = _run(*options, *wrong)
    assert done.returncode == 2
    assert expected in " ".join(done.stderr.replace("│", " ").split())
