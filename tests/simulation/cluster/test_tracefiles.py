"""Files of traces: found, read row by row, and never trusted."""

import gzip
from pathlib import Path

import pytest

from simulation.cluster.tracefiles import (
    REPORTED_MAX,
    Malformed,
    RowError,
    TraceError,
    find_trace,
    read_rows,
    whole_number,
)


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


def test_two_files_that_match_are_an_error_and_not_a_choice(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").touch()
    with pytest.raises(TraceError, match=r"a\.csv, b\.csv"):
        find_trace(tmp_path, ("*.csv",), "usage")


@pytest.mark.parametrize("packed", [False, True])
def test_columns_are_found_by_the_names_in_the_first_line(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    data = b"b,x,a\n1,2,3\n4,5,6\n"
    path.write_bytes(gzip.compress(data) if packed else data)
    malformed = Malformed(path.name)
    assert list(read_rows(path, ("a", "b"), malformed)) == [(2, ["3", "1"]), (3, ["6", "4"])]
    assert malformed.count == 0


def test_a_mark_of_the_byte_order_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa,x,b\n1,2,3\n")
    malformed = Malformed(path.name)
    assert list(read_rows(path, ("a", "b"), malformed)) == [(2, ["1", "3"])]
    assert malformed.count == 0


def test_without_a_first_line_of_names_columns_stand_in_the_published_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n3,4\n")
    rows = list(read_rows(path, ("a", "b"), Malformed("t.csv")))
    assert rows == [(1, ["1", "2"]), (2, ["3", "4"])]


def test_a_missing_column_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,c\n1,2\n")
    with pytest.raises(TraceError, match="no column b"):
        list(read_rows(path, ("a", "b"), Malformed("t.csv")))


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


def test_only_the_first_malformed_rows_are_told_and_all_are_counted() -> None:
    malformed = Malformed("t.csv")
    for line in range(100):
        malformed.add(line, "wrong")
    assert malformed.count == 100
    assert len(malformed.reported) == REPORTED_MAX


@pytest.mark.parametrize("cut", [10, -5])
def test_a_damaged_archive_is_an_error_that_names_the_file(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress(b"a,b\n1,2\n" * 999)
    path.write_bytes(packed[:cut])
    with pytest.raises(TraceError, match=r"t\.csv\.gz cannot be read"):
        list(read_rows(path, ("a", "b"), Malformed("t.csv.gz")))


def test_what_is_no_archive_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(b"plain text")
    with pytest.raises(TraceError, match=r"t\.csv\.gz cannot be read"):
        list(read_rows(path, ("a", "b"), Malformed("t.csv.gz")))


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("12", 12), ("12.0", 12), ("12.", 12)])
def test_whole_numbers_are_read(text: str, number: int) -> None:
    assert whole_number("n", text) == number


@pytest.mark.parametrize("text", ["", "-1", "1.5", "abc", "1e5", "٣", "9" * 16, "nan", " 1"])
def test_what_is_no_whole_number_is_refused_with_its_column(text: str) -> None:
    with pytest.raises(RowError, match=r"^n: found"):
        whole_number("n", text)
