"""Trace files are found and read row by row."""

import gzip
from pathlib import Path

import pytest

from simulation.closed_loop.trace_files import TraceError, find_trace, read_rows


def test_a_file_is_found_by_the_first_pattern_that_matches(tmp_path: Path) -> None:
    (tmp_path / "usage.csv").touch()
    (tmp_path / "usage.csv.gz").touch()
    assert find_trace(tmp_path, ("*.csv.gz", "*.csv"), "usage").name == "usage.csv.gz"


def test_a_missing_file_is_an_error_with_the_patterns_and_the_files_of_the_directory(
    tmp_path: Path,
) -> None:
    (tmp_path / "other.txt").touch()
    with pytest.raises(TraceError, match=r"no usage: expected .*\*\.csv.*found other\.txt"):
        find_trace(tmp_path, ("*.csv",), "usage")
    with pytest.raises(TraceError, match="is not a directory"):
        find_trace(tmp_path / "missing", ("*.csv",), "usage")


@pytest.mark.parametrize("packed", [False, True])
def test_columns_are_found_by_the_header(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = b"b,x,a\n1,2,3\n4,5,6\n"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert list(read_rows(path, ("a", "b"), tuple)) == [("3", "1"), ("6", "4")]


def test_without_a_header_columns_are_in_the_published_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n3,4\n")
    assert list(read_rows(path, ("a", "b"), tuple)) == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a,b\n1,2\n\n1\n", "t.csv line 4: found 1 fields; expected 2"),
        (b"1,2\n1,2,3\n", "t.csv line 2: found 3 fields; expected 2"),
        (b"a,b\n\xff\xfe,\x00\n", "t.csv cannot be read"),
        (b"a,c\n1,2\n", "t.csv has no column b"),
    ],
)
def test_a_file_with_a_row_that_cannot_be_read_is_an_error(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=problem):
        list(read_rows(path, ("a", "b"), tuple))


@pytest.mark.parametrize("cut", [10, -5])
def test_a_damaged_archive_is_an_error_that_names_the_file(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress(b"a,b\n1,2\n" * 999)
    path.write_bytes(packed[:cut])
    with pytest.raises(TraceError, match=r"t\.csv\.gz cannot be read"):
        list(read_rows(path, ("a", "b"), tuple))
