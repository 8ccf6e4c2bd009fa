"""Errors about wrong options name the option."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadstream.commands import app


@pytest.mark.parametrize("command", [["demo"], ["kubernetes", "demo"]])
@pytest.mark.parametrize("below", [False, True])
def test_a_directory_that_cannot_be_created_is_an_error(
    command: list[str], below: bool, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    output_path = tmp_path / "file" / "below" if below else tmp_path / "file"
    bare = {"KUBECONFIG": str(tmp_path / "none"), "COLUMNS": "1000"}
    result = CliRunner().invoke(app, [*command, "--output", str(output_path)], env=bare)
    assert result.exit_code == 2
    assert f"Invalid value for --output: {output_path}: " in result.output
    assert "; expected a directory that can be written" in result.output


@pytest.mark.parametrize(
    "command",
    [
        ["cluster", "why-not"],
        ["policy", "check", "deploy/policies/observe.yaml", "--cluster"],
        ["topic", "tail", "node-state", "--cluster"],
    ],
)
def test_an_invalid_cluster_name_is_refused_without_a_broker(command: list[str]) -> None:
    bare = {"LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "COLUMNS": "1000"}
    result = CliRunner().invoke(app, [*command, "shop/web-1"], env=bare)
    assert result.exit_code == 2
    assert 'found "shop/web-1"; expected a string of 1 to 253 characters without "/"' in (
        result.output
    )
