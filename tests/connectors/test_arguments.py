"""What commands take, where it is wrong: a sentence that names the option."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.cli import app


@pytest.mark.parametrize("command", [["demo"], ["kubernetes", "demo", "--observe"]])
@pytest.mark.parametrize("below", [False, True])
def test_a_directory_for_results_that_cannot_be_made_is_said(
    command: list[str], below: bool, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "below" if below else tmp_path / "file"
    bare = {"KUBECONFIG": str(tmp_path / "none"), "COLUMNS": "1000"}
    result = CliRunner().invoke(app, [*command, "--output", str(place)], env=bare)
    assert result.exit_code == 2
    assert f"Invalid value for --output: {place}: " in result.output
    assert "; expected a directory that can be written" in result.output
