"""`loadstream schema export` writes the documents, and says whether they are up to date."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadstream.commands import app
from schemas.publish.export import documents


def test_export_writes_all_documents_and_then_nothing_more(tmp_path: Path) -> None:
    place = ["--directory", str(tmp_path)]
    first = CliRunner().invoke(app, ["schema", "export", *place])
    assert first.exit_code == 0
    assert f"{len(documents())} of them changed" in first.output
    assert {path.name for path in tmp_path.iterdir()} == documents().keys()
    again = CliRunner().invoke(app, ["schema", "export", *place])
    assert again.output.endswith(" 0 of them changed\n")


def test_check_names_what_differs_changes_nothing_and_exits_with_1(tmp_path: Path) -> None:
    place = ["--directory", str(tmp_path), "--check"]
    CliRunner().invoke(app, ["schema", "export", *place[:2]])
    assert CliRunner().invoke(app, ["schema", "export", *place]).exit_code == 0
    (tmp_path / "clock.json").write_text("{}")
    answer = CliRunner().invoke(app, ["schema", "export", *place])
    assert answer.exit_code == 1
    assert f"differs: {tmp_path / 'clock.json'}" in answer.output
    assert "loadstream schema export" in answer.output
    assert (tmp_path / "clock.json").read_text() == "{}"


def test_export_as_json_is_one_object_and_keeps_its_exit_code(tmp_path: Path) -> None:
    place = ["--directory", str(tmp_path), "--json"]
    first = json.loads(CliRunner().invoke(app, ["schema", "export", *place]).stdout)
    count = len(documents())
    assert (first["documents"], len(first["written"])) == (count, count)
    (tmp_path / "clock.json").write_text("{}")
    answer = CliRunner().invoke(app, ["schema", "export", *place, "--check"])
    assert answer.exit_code == 1
    whole = {"directory": str(tmp_path), "documents": count, "differing": ["clock.json"]}
    assert json.loads(answer.stdout) == whole


def test_a_document_of_what_there_is_no_more_is_named_as_removed(tmp_path: Path) -> None:
    place = ["--directory", str(tmp_path)]
    CliRunner().invoke(app, ["schema", "export", *place])
    (tmp_path / "gone.json").write_text(documents()["clock.json"])
    answer = CliRunner().invoke(app, ["schema", "export", *place])
    assert answer.stdout == (
        f"removed: {tmp_path / 'gone.json'}\n"
        f"{len(documents())} documents in {tmp_path}, 0 of them changed\n"
    )
    (tmp_path / "gone.json").write_text(documents()["clock.json"])
    (tmp_path / "clock.json").unlink()
    said = json.loads(CliRunner().invoke(app, ["schema", "export", *place, "--json"]).stdout)
    assert (said["written"], said["removed"]) == (["clock.json"], ["gone.json"])


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_directory_that_cannot_be_written_is_said(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        answer = CliRunner().invoke(app, ["schema", "export", "--directory", str(place), *options])
        assert (answer.exit_code, answer.stdout) == (1, "")
        assert answer.stderr.startswith(f"error: {place} cannot be written: ")
