"""`loadstream schema export` writes the documents and checks whether they are up to date."""

from pathlib import Path

from typer.testing import CliRunner

from loadstream.commands import app
from schemas.publish.export import documents


def test_export_writes_all_documents_and_then_nothing_more(tmp_path: Path) -> None:
    options = ["--directory", str(tmp_path)]
    first = CliRunner().invoke(app, ["schema", "export", *options])
    assert first.exit_code == 0
    assert f"{len(documents())} of them changed" in first.output
    assert {path.name for path in tmp_path.iterdir()} == documents().keys()
    again = CliRunner().invoke(app, ["schema", "export", *options])
    assert again.output.endswith(" 0 of them changed\n")


def test_check_names_differences_and_exits_with_1(tmp_path: Path) -> None:
    options = ["--directory", str(tmp_path), "--check"]
    CliRunner().invoke(app, ["schema", "export", *options[:2]])
    assert CliRunner().invoke(app, ["schema", "export", *options]).exit_code == 0
    (tmp_path / "clock.json").write_text("{}")
    answer = CliRunner().invoke(app, ["schema", "export", *options])
    assert answer.exit_code == 1
    assert f"differs: {tmp_path / 'clock.json'}" in answer.output
    assert "loadstream schema export" in answer.output
    assert (tmp_path / "clock.json").read_text() == "{}"
