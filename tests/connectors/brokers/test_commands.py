"""`loadstream broker` where its files cannot be written: a sentence, and nothing runs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.cli import app


@pytest.mark.parametrize("below", ["", "below"])
def test_a_directory_of_records_that_cannot_be_made_is_said(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / below if below else tmp_path / "file"
    result = CliRunner().invoke(app, ["broker", "--kafka", "--directory", str(directory)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: --directory: {directory} cannot be made: ")
    assert "expected a directory that can be written" in result.stderr


@pytest.mark.broker
@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_cache_that_takes_no_address_is_said(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder" / "broker").mkdir(parents=True)
    monkeypatch.setenv("LOADSTREAM_CACHE", str(tmp_path / name))
    result = CliRunner().invoke(app, ["broker"])
    assert (result.exit_code, result.stdout) == (1, "")
    written = f"the address of a local broker cannot be written to {tmp_path / name / 'broker'}: "
    assert result.stderr.startswith(f"error: {written}")
    assert "set LOADSTREAM_CACHE to a directory that can be written" in result.stderr
