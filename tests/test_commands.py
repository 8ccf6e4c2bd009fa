"""The command line as a whole."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from connectors.cli import app

_HEAVY = ("faust", "numpy", "kubernetes_asyncio", "aiokafka", "confluent_kafka", "matplotlib")
_PROBE = """
import sys
from connectors.cli import app
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
        ["replay", "--help"],
        ["topics", "--help"],
        ["migrate", "--help"],
        ["migrations", "--help"],
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


def test_help_names_every_command_of_the_readme() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from connectors.cli import main; main()", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for command in (
        "worker",
        "broker",
        "topics",
        "clock",
        "policy",
        "produce",
        "tail",
        "demo",
        "schemas",
        "simulate",
        "migrate",
        "drain",
        "undrain",
        "migration",
        "migrations",
    ):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LOADSTREAM_WORKER_METRIC_PORT", "LOADSTREAM_WORKER_METRICS_PORT"),
        ("LOADSTREAM_LOG_FORMATS", "LOADSTREAM_LOG_FORMAT"),
    ],
)
def test_a_misspelt_setting_of_a_worker_is_no_setting_at_its_default(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    done = CliRunner().invoke(app, ["worker"])
    assert done.exit_code == 2
    assert f"{variable}: there is no such setting; did you mean {meant}?" in done.output
