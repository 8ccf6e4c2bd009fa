"""The image and the composition, checked without a container engine."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from connectors.process.logs import LogSettings
from loadstream.commands import app
from schemas.settings.connection import KafkaSettings
from streams.worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def _instructions() -> list[tuple[str, str]]:
    """Return instructions of the Dockerfile with their arguments, with continued lines joined."""
    text = (ROOT / "deploy/Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [
        (words[0], words[1])
        for line in joined.splitlines()
        if len(words := line.strip().split(maxsplit=1)) == 2
    ]


def _arguments(instruction: str) -> list[str]:
    return [arguments for name, arguments in _instructions() if name == instruction]


def _known_variables() -> set[str]:
    groups = (KafkaSettings, WorkerSettings, LogSettings)
    return {
        f"{group.model_config.get('env_prefix')}{field.upper()}"
        for group in groups
        for field in group.model_fields
    }


def test_all_copied_files_are_in_the_build_context() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    for arguments in _arguments("COPY"):
        *sources, _ = shlex.split(arguments)
        if sources[0].startswith("--from="):
            continue
        for source in sources:
            assert f"!{source}" in ignored
            assert (ROOT / source).exists()


def test_settings_of_the_image_and_the_services_exist() -> None:
    variables = set(re.findall(r"\b(LOADSTREAM_\w+)=", " ".join(_arguments("ENV"))))
    for service in SERVICES.values():
        variables |= {name for name in service.get("environment", {}) if "LOADSTREAM" in name}
    assert variables
    assert variables <= {*_known_variables(), "LOADSTREAM_COMMIT"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_a_pinned_image_and_existing_files(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":(v?\d+\.\d+\.\d+|local)$", service["image"])
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert volume.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:"), "nothing is open to other machines"
    for needed in service.get("depends_on", []):
        assert needed in SERVICES


@pytest.mark.parametrize("name", [n for n, s in SERVICES.items() if "build" in s])
def test_a_loadstream_service_runs_an_existing_command_without_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    command = service["command"]
    assert command[0] in get_command(app).commands  # type: ignore[attr-defined]  # it is a group
    result = CliRunner().invoke(app, [*[w for w in command if w.isalpha()], "--help"], color=False)
    assert result.exit_code == 0
    # A narrow terminal may break an option's name.
    for option in (word for word in command if word.startswith("--")):
        assert option in re.sub(r"\s", "", result.output)


def test_workers_are_scraped_under_their_name_and_on_their_port() -> None:
    scrape = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (job,) = scrape["scrape_configs"]
    (lookup,) = job["dns_sd_configs"]
    assert lookup["names"] == ["worker"]
    assert str(lookup["port"]) in _arguments("EXPOSE")
    assert "ports" not in SERVICES["worker"], "a fixed port would keep it from being scaled"
    for file in scrape["rule_files"]:
        assert (ROOT / "deploy/prometheus" / file).exists()
