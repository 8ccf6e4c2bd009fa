"""The command itself, end to end: broker, worker, Kafka and all."""

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
from typer.testing import CliRunner

from loadstream.commands import app
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.rounds import RebalanceRound
from schemas.policy import Policy, read_policy
from schemas.topics.codec import decode
from tests.simulation.cluster.traces import small_traces

ROOT = Path(__file__).parents[3]
#: The demo promises to end within two minutes; a machine under load may need longer to start it.
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


def _gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}/exe").exists() for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _until(process: "subprocess.Popen[str]", words: str) -> str:
    """What it printed up to the line with these words."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if words in line:
            return printed
    pytest.fail(f"it never said {words!r}:\n{printed}")


@pytest.mark.broker
def test_the_demo_places_and_moves_pods_through_a_real_worker_and_tells_what_happened(
    tmp_path: Path,
) -> None:
    with _demo(tmp_path, "--plain", "--nodes", "6", "--hours", "5", "--seed", "5") as process:
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    assert "fitted to the Alibaba 2018 trace" in printed
    assert "What to try next" in printed
    output = tmp_path / "demo-output"
    assert (output / "usage.png").stat().st_size > 10_000
    assert (output / "usage.svg").stat().st_size > 10_000
    kept = read_policy((output / "policy.yaml").read_text())
    assert kept.overutilization_risk.resources[0].hot_share == 0.70
    assert (kept.rebalance.high_thresholds, kept.plugins) == (None, Policy().plugins)
    figures = json.loads((output / "summary.json").read_text())
    assert figures["placed"] > 0
    assert figures["dead_letters"] == figures["unanswered"] == 0
    assert figures["placed"] + figures["waiting"] + figures["refused"] == figures["requests"]
    lines = (output / "decisions.jsonl").read_bytes().splitlines()
    decisions = [decode("placement-decisions", line) for line in lines]
    assert len(decisions) == figures["decisions"]
    assert all(isinstance(decision, PlacementDecision) for decision in decisions)
    relieved = figures["rebalanced"]
    assert relieved["repeated"] == 0
    assert relieved["evictions"] >= 1
    commands = (output / "evictions.jsonl").read_bytes().splitlines()
    assert len(commands) == relieved["commands"] + relieved["dry_commands"]
    assert all(isinstance(decode("eviction-commands", line), EvictionCommand) for line in commands)
    rounds = (output / "rounds.jsonl").read_bytes().splitlines()
    assert all(isinstance(decode("status", line), RebalanceRound) for line in rounds)
    assert "What rebalancing did" in printed


@pytest.mark.broker
def test_the_demo_replays_traces(tmp_path: Path) -> None:
    traces = small_traces(tmp_path / "traces")
    options = ("--plain", "--trace", str(traces), "--nodes", "4", "--hours", "4")
    with _demo(tmp_path, *options, "--output", "out") as process:
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    assert "1 of 4 want GPUs and were left out" in printed
    assert "filled up to 99 %" in printed
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["placed"] == 3


@pytest.mark.broker
def test_the_same_seed_gives_the_same_decisions_through_a_real_worker(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        options = ("--json", "--nodes", "5", "--hours", "2", "--seed", "3", "--output", name)
        with _demo(tmp_path, *options) as process:
            printed, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, printed
        (line,) = [line for line in printed.splitlines() if line.startswith("{")]
        digests.append(json.loads(line)["decisions_sha256"])
    assert digests[0] == digests[1]


@pytest.mark.broker
def test_an_interrupt_ends_everything_and_still_tells_what_was_seen(tmp_path: Path) -> None:
    with _demo(tmp_path, "--plain", "--nodes", "4", "--hours", "24") as process:
        _until(process, "samples/s")
        children = _children(process.pid)
        assert children
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, printed
    assert "It was interrupted" in printed
    assert _gone(children)


@pytest.mark.broker
def test_a_worker_that_dies_ends_the_demo_with_its_last_words(tmp_path: Path) -> None:
    with _demo(tmp_path, "--plain", "--nodes", "4", "--hours", "24") as process:
        _until(process, "day 1, ")
        children = _children(process.pid)
        worker = next(c for c in children if b"worker" in Path(f"/proc/{c}/cmdline").read_bytes())
        os.kill(worker, signal.SIGKILL)
        printed, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1, printed
    assert "the worker has ended with exit code -9" in printed
    assert "worker.log ends with" in printed
    assert _gone(children)


@pytest.mark.parametrize("made", [False, True])
def test_a_directory_without_traces_is_a_sentence_and_no_traceback(
    tmp_path: Path, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "traces"
    if made:
        directory.mkdir()
    done = CliRunner().invoke(app, ["demo", "--trace", str(directory)], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert done.output.startswith(f"error: {directory} ")
