"""Files of traces: found, read row by row, and never trusted."""

import gzip
from pathlib import Path

import pytest

from simulation.closed_loop.trace_files import Malformed, TraceError, find_trace, read_rows


def test_a_file_is_found_by_the_first_pattern_that_matches(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").touch()
    (tmp_path / "usage.csv.gz").touch()
    assert find_trace(tmp_path, ("*.csv.gz", "*.csv"), "usage").name == "usage.csv.gz"


def test_a_directory_without_the_file_says_what_was_looked_for_and_what_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "other.txt").touch()
    with pytest.raises(TraceError, match=r"no usage: expected .*\*\.csv.*found other\.txt"):
        find_trace(tmp_path, ("*.csv",), "usage")
    with pytest.raises(TraceError, match="is no directory"):
        find_trace(tmp_path / "missing", ("*.csv",), "usage")


@pytest.mark.parametrize("packed", [False, True])
def test_columns_are_found_by_the_names_in_the_first_line(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = b"b,x,a\n1,2,3\n4,5,6\n"
    path.write_bytes(gzip.compress(data) if packed else data)
    malformed = Malformed(path.name)
    assert list(read_rows(path, ("a", "b"), malformed)) == [(2, ["3", "1"]), (3, ["6", "4"])]
    assert malformed.count == 0


def test_without_a_first_line_of_names_columns_stand_in_the_published_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n3,4\n")
    rows = list(read_rows(path, ("a", "b"), Malformed("t.csv")))
    assert rows == [(1, ["1", "2"]), (2, ["3", "4"])]


def test_rows_of_another_width_are_told_with_their_line_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,2\n1\n1,2,3\n\n\xff\xfe,\x00\n5,6\r\n" + b"x" * 10_000 + b"\n7,8")
    malformed = Malformed("t.csv")
    rows = list(read_rows(path, ("a", "b"), malformed))
    assert [line for line, _ in rows] == [2, 6, 7, 9]
    assert rows[2][1] == ["5", "6"]
    assert rows[3][1] == ["7", "8"]
    assert malformed.count == 3
    assert malformed.reported == [
        "t.csv line 3: found 1 fields; expected 2",
        "t.csv line 4: found 3 fields; expected 2",
        "t.csv line 8: the line has more than 4096 characters",
    ]


@pytest.mark.parametrize("cut", [10, -5])
def test_a_damaged_archive_is_an_error_that_names_the_file(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress(b"a,b\n1,2\n" * 999)
    path.write_bytes(packed[:cut])
    with pytest.raises(TraceError, match=r"t\.csv\.gz cannot be read"):
        list(read_rows(path, ("a", "b"), Malformed("t.csv.gz")))
