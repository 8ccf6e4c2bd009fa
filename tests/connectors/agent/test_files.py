from pathlib import Path

import pytest

from connectors.agent.files import FILE_BYTES_MAX, Files, parse_pairs, read_text


def test_a_file_that_is_not_there_is_no_failure(tmp_path: Path) -> None:
    files = Files()
    assert files.read("pods", str(tmp_path / "none"), int) is None
    assert files.list_folders("pods", str(tmp_path / "none")) == []
    assert not files.failures


def test_one_that_is_not_understood_is_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "cpuacct.usage"
    path.write_text("many\n")
    files = Files()
    assert files.read("pods", str(path), int) is None
    assert files.failures["pods"] == 1
    assert str(path) in files.last_failure


def test_a_folder_in_the_place_of_a_file_is_counted(tmp_path: Path) -> None:
    files = Files()
    assert files.read("node", str(tmp_path), int) is None
    assert files.failures["node"] == 1


def test_folders_come_in_order_and_without_files(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
    (tmp_path / "c").write_text("")
    assert Files().list_folders("pods", str(tmp_path)) == ["a", "b"]


def test_of_a_long_file_the_beginning_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stat"
    path.write_text("x" * (FILE_BYTES_MAX + 1))
    assert len(read_text(str(path))) == FILE_BYTES_MAX


def test_lines_of_a_name_and_a_number_are_pairs() -> None:
    assert parse_pairs("a 1\nb 2\n") == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="lines of a name and a number"):
        parse_pairs("a 1\nb\n")
