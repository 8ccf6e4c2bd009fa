"""The demo command end to end, with broker, worker and Kafka."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.policy import Policy, read_policy
from schemas.topics.codec import decode
from simulation.closed_loop.traces import CPU_COLUMNS, POD_COLUMNS, STEPS

ROOT = Path(__file__).parents[3]
#: The demo should end within two minutes; a busy machine may need longer to start it.
PATIENCE_S = 180


@contextmanager
def _demo(cwd: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "loadstream", "demo", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LOADSTREAM_CACHE": str(cwd / "cache")}
    with subprocess.Popen(  # noqa: S603 - our own command
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


def _have_ended(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _until(process: "subprocess.Popen[str]", words: str) -> str:
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if words in line:
            return printed
    pytest.fail(f"it never said {words!r}:\n{printed}")


@pytest.mark.broker
def test_the_demo_places_and_moves_pods_through_a_real_worker_and_explains_the_result(
    tmp_path: Path,
) -> None:
    options = ("--scenario", "own-load", "--nodes", "8", "--hours", "4", "--seed", "1")
    with _demo(tmp_path, "--plain", *options) as process:
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    assert "Limits of this comparison:" in printed
    assert "One eviction: at " in printed
    assert "One placement: at " in printed
    output = tmp_path / "demo-output"
    kept = read_policy((output / "policy.yaml").read_text())
    assert (kept.mode, kept.plugins) == ("enforce", Policy().plugins)
    document = json.loads((output / "summary.json").read_text())
    runs = {contender["name"]: contender["runs"][0] for contender in document["contenders"]}
    assert list(runs) == ["loadstream", "least-allocated", "koordinator-lownodeload-75"]
    ours = runs["loadstream"]
    assert ours["figures"]["placed_pods"] > 30
    assert ours["figures"]["evictions"] >= 1
    hot = {name: result["figures"]["hot_cpu_minutes"] for name, result in runs.items()}
    assert hot["loadstream"] < hot["least-allocated"]
    decisions = (output / "decisions.jsonl").read_bytes().splitlines()
    assert len(decisions) >= ours["counts"]["bind_done"]
    assert all(
        isinstance(decode("placement-decisions", line), PlacementDecision) for line in decisions
    )
    commands = (output / "evictions.jsonl").read_bytes().splitlines()
    assert len(commands) >= ours["counts"]["evict_done"]
    assert all(isinstance(decode("eviction-commands", line), EvictionCommand) for line in commands)


def _write_traces(directory: Path) -> None:
    directory.mkdir()
    (directory / "openb-nodes.csv").write_text("sn,cpu_milli,memory_mib\na,32000,131072\n")
    pods = [f"p{index},8000,512,0,0,,LS,Running,{index},,{index}" for index in range(5)]
    (directory / "openb-pods.csv").write_text("\n".join([",".join(POD_COLUMNS), *pods]))
    busy = ",".join(["vm", *["40", "10", "70"] * (STEPS // 3)])
    (directory / "planetlab.csv").write_text(f"{','.join(CPU_COLUMNS)}\n{busy}\n")


@pytest.mark.broker
def test_the_same_seed_and_traces_give_the_same_decisions_through_a_real_worker(
    tmp_path: Path,
) -> None:
    _write_traces(tmp_path / "traces")
    digests = []
    for name in ("one", "two"):
        options = ("--json", "--trace", "traces", "--nodes", "5", "--hours", "1", "--output", name)
        with _demo(tmp_path, *options) as process:
            printed, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, printed
        (line,) = [line for line in printed.splitlines() if line.startswith("{")]
        document = json.loads(line)
        assert document["traces"] == ["openb-nodes.csv", "openb-pods.csv", "planetlab.csv"]
        digests.append(document["decisions_sha256"])
    assert digests[0] == digests[1]


@pytest.mark.broker
def test_sigterm_ends_everything(tmp_path: Path) -> None:
    with _demo(tmp_path, "--plain", "--nodes", "4", "--hours", "24") as process:
        _until(process, "day 1, ")
        children = _children(process.pid)
        assert children
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "Traceback" in printed) == (130, False), printed
    assert _have_ended(children)


@pytest.mark.broker
def test_a_worker_that_dies_ends_the_demo_with_its_last_log_lines(tmp_path: Path) -> None:
    with _demo(tmp_path, "--plain", "--nodes", "4", "--hours", "24") as process:
        _until(process, "day 1, ")
        children = _children(process.pid)
        worker = next(c for c in children if b"worker" in Path(f"/proc/{c}/cmdline").read_bytes())
        os.kill(worker, signal.SIGKILL)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, printed
    assert "worker has ended by itself" in printed
    assert "log ends with" in printed
    assert _have_ended(children)
