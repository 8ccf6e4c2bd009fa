from pathlib import Path

from connectors.agent.files import FILE_BYTES_MAX, Files, read_text


def test_a_missing_file_is_no_failure(tmp_path: Path) -> None:
    files = Files()
    assert files.read("pods", str(tmp_path / "none"), int) is None
    assert files.list_folders("pods", str(tmp_path / "none")) == []
    assert not files.failures


def test_an_unreadable_file_is_counted_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "cpuacct.usage"
    path.write_text("many\n")
    files = Files()
    assert files.read("pods", str(path), int) is None
    assert files.failures["pods"] == 1
    assert str(path) in files.last_failure


def test_a_long_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("x" * (FILE_BYTES_MAX + 1))
    assert len(read_text(str(path))) == FILE_BYTES_MAX
