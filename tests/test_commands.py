"""The command line as a whole."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from loadstream.commands import app
from schemas.settings.connection import KafkaSettings
from schemas.settings.environment import SettingsError
from streams.app import build
from streams.worker.settings import WorkerSettings

_HEAVY = ("faust", "numpy", "kubernetes_asyncio", "aiokafka", "confluent_kafka")
_PROBE = """
import sys
from loadstream.commands import app
from typer.main import get_command
from typer.testing import CliRunner
result = CliRunner().invoke(app, {arguments})
assert result.exit_code == 0, result.output
print(",".join(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["worker", "--help"],
        ["replay", "verify", "--help"],
        ["topic", "--help"],
        ["migration", "start", "--help"],
        ["migration", "list", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    probe = _PROBE.format(arguments=arguments)
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split("\n")[-2].split(","))
    assert not loaded & set(_HEAVY)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_program_that_is_stopped_during_its_start_ends_without_a_traceback(
    number: signal.Signals, code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "loadstream", "worker"], stderr=subprocess.PIPE
    )
    status = Path(f"/proc/{process.pid}/status")
    while not int(re.findall(r"SigCgt:\s*(\w+)", status.read_text())[0], 16) >> 14 & 1:
        time.sleep(0.001)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, b"Traceback" in stderr) == (code, False), stderr


def test_shells_can_complete_commands_and_topics() -> None:
    script = [sys.executable, "-m", "loadstream"]
    typed = {"COMP_WORDS": "loadstream topic tail node-u", "COMP_CWORD": "3"}
    done = subprocess.run(  # noqa: S603 - our own code
        script, capture_output=True, text=True, check=False,
        env={**os.environ, "_LOADSTREAM_COMPLETE": "complete_bash", **typed},
    )  # fmt: skip
    assert done.stdout.split() == ["node-usage"]
    assert "--show-completion" in run("--help").output


@pytest.mark.parametrize(
    ("words", "candidates"),
    [(["topic", "tail", "node-u"], ["node-usage"]), (["policy", "ro"], ["rollback"])],
)
def test_kubectl_can_run_and_complete_the_commands(words: list[str], candidates: list[str]) -> None:
    scripts = Path(sys.executable).parent
    done = subprocess.run(  # noqa: S603 - our own script
        [scripts / "kubectl_complete-loadstream", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [*candidates, ":0"]
    done = subprocess.run(  # noqa: S603 - our own script
        [scripts / "kubectl-loadstream", "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"loadstream {version('loadstream')}\n"


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["demo", "--hours", "500"], "72"),
        (["demo", "--nodes", "x"], "integer"),
        (["worker", "--log-level", "loud"], "'info'"),
        (["migration", "start", "b", "a/b", "--mode", "x"], "'ReservationFirst'"),
    ],
)
def test_a_usage_error_names_the_option_and_the_allowed_values(
    arguments: list[str], allowed: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    text = " ".join(done.output.replace("│", " ").split())
    assert f"Invalid value for '{arguments[-2]}': " in text
    assert allowed in text


def test_all_invalid_settings_of_a_worker_are_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOADSTREAM_WORKER_TICK_INTERVAL_S", "0")
    monkeypatch.setenv("LOADSTREAM_WORKER_STAGES", "both")
    monkeypatch.setenv("LOADSTREAM_LOG_LEVEL", "loud")
    done = run("worker")
    assert done.exit_code == 2
    stages, interval, level = done.output.splitlines()
    assert '"aggregate"' in stages.partition('LOADSTREAM_WORKER_STAGES: found "both"')[2]
    assert "seconds" in interval.partition('LOADSTREAM_WORKER_TICK_INTERVAL_S: found "0"')[2]
    assert '"debug"' in level.partition('LOADSTREAM_LOG_LEVEL: found "loud"')[2]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"HEARTBEAT_INTERVAL_S": "3"},
            "LOADSTREAM_WORKER_HEARTBEAT_INTERVAL_S is 3 s; expected at most a third of "
            "LOADSTREAM_WORKER_SESSION_TIMEOUT_S, which is 6 s",
        ),
        (
            {"SESSION_TIMEOUT_S": "91"},
            'LOADSTREAM_WORKER_SESSION_TIMEOUT_S: found "91"; allowed is a number from 6 to 90',
        ),
        (
            {"SESSION_TIMEOUT_S": "3", "HEARTBEAT_INTERVAL_S": "1"},
            'LOADSTREAM_WORKER_SESSION_TIMEOUT_S: found "3"; allowed is a number from 6 to 90',
        ),
        (
            {"CHECKPOINT_INTERVAL_S": "0.5"},
            "LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S is 0.5 s; expected 0 for no checkpoints",
        ),
        (
            {"METRICS_HOST": "127.0.0.1"},
            "LOADSTREAM_WORKER_METRICS_HOST is set, but LOADSTREAM_WORKER_METRICS_PORT is 0",
        ),
    ],
)
def test_contradicting_settings_of_a_worker_are_refused(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"LOADSTREAM_WORKER_{name}", value)
    done = run("worker")
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LOADSTREAM_WORKER_METRIC_PORT", "LOADSTREAM_WORKER_METRICS_PORT"),
        ("LOADSTREAM_LOG_FORMATS", "LOADSTREAM_LOG_FORMAT"),
        ("LOADSTREAM_WORKERS_STAGES", "LOADSTREAM_WORKER_STAGES"),
    ],
)
def test_a_misspelt_setting_of_a_worker_is_an_error(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    done = CliRunner().invoke(app, ["worker"])
    assert done.exit_code == 2
    assert f"{variable}: unknown setting; did you mean {meant}?" in done.output


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("DATA_DIR", "{}/file", "File exists; expected a writable directory"),
        ("COLLECT_FILE", "{}/none", "cannot be read: No such file or directory; expected a policy"),
        ("COLLECT_FILE", "{}/file", 'line 1: colect: unknown field; did you mean "collect"?'),
    ],
)
def test_an_error_names_the_setting_of_an_unusable_file_or_directory(
    setting: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("colect: {}")
    variable, path = f"LOADSTREAM_WORKER_{setting}", value.format(tmp_path)
    monkeypatch.setenv("LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("LOADSTREAM_WORKER_DATA_DIR", str(tmp_path))
    monkeypatch.setenv(variable, path)
    kafka = KafkaSettings.from_environment()
    with pytest.raises(SettingsError) as refused:
        build(WorkerSettings(), kafka)
    assert str(refused.value).startswith(f"{variable}={path}")
    assert message in str(refused.value)
