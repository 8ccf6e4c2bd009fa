"""Finds files of published traces by their names, and reads them row by row.

An error names the file, the line and the expected content.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

Row = TypeVar("Row")

#: Maximum rows of a file. The whole Alibaba trace of machines has 250 million rows, sorted by machine.
ROWS_MAX = 2_000_000


class TraceError(ValueError):
    """A trace cannot be used; the message names the file and the expected content."""


def find_trace(directory: Path, patterns: Sequence[str], description: str) -> Path:
    """Return the file of a directory that matches a pattern; earlier patterns take precedence.

    Raises TraceError if no file matches, or several files match one pattern.
    """
    if not directory.is_dir():
        raise TraceError(f"{directory} is not a directory; expected a directory with {description}")
    names = sorted(entry.name for entry in directory.iterdir() if entry.is_file())
    for pattern in patterns:
        matching = [name for name in names if fnmatch(name, pattern)]
        if len(matching) > 1:
            raise TraceError(
                f"{directory} contains {', '.join(matching)}; expected only one file with {description}"
            )
        if matching:
            return directory / matching[0]
    raise TraceError(
        f"{directory} contains no {description}: expected a file named like {' or '.join(patterns)};"
        f" found {', '.join(names[:10]) or 'no files'}"
    )


def read_rows(
    path: Path, columns: Sequence[str], parse: Callable[[list[str]], Row]
) -> Iterator[Row]:
    """Yield the parsed rows of a file, which may be compressed.

    A first line with names of columns defines their order. Without it, rows have the order of `columns`.

    Args:
        path: the file.
        columns: names of the columns that are read.
        parse: converts the fields of a row, in the order of `columns`; raises ValueError.

    Raises:
        TraceError: the file or a row cannot be read, or the file has more than `ROWS_MAX` rows.
    """
    indexes, width = list(range(len(columns))), len(columns)
    try:
        # Spreadsheets write a byte order mark before the first line.
        with (gzip.open if path.suffix == ".gz" else open)(
            path, "rt", encoding="utf-8-sig"
        ) as file:
            for line, fields in enumerate(csv.reader(file), 1):
                if line == 1 and columns[0] in fields:
                    indexes, width = _find_columns(path, fields, columns), len(fields)
                elif line > ROWS_MAX:
                    raise TraceError(
                        f"{path} has more than {ROWS_MAX:,} rows; keep only the first ones"
                    )
                elif fields:
                    if len(fields) != width:
                        raise TraceError(
                            f"{path} line {line}: found {len(fields)} fields; expected {width}"
                        )
                    yield _parse(path, line, parse, [fields[index] for index in indexes])
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, line: int, parse: Callable[[list[str]], Row], fields: list[str]) -> Row:
    try:
        return parse(fields)
    except ValueError as error:
        raise TraceError(f"{path} line {line}: {error}") from None


def parse_whole_number(column: str, text: str) -> int:
    """Parse a whole number of at least 0. Raises ValueError."""
    # Some writers produce floats such as "12.0". More than 15 digits would be inexact.
    head, _, tail = text.partition(".")
    if not head.isascii() or not head.isdigit() or len(head) > 15 or tail.strip("0"):
        raise ValueError(f"{column}: found {text[:40]!r}; expected a whole number, at least 0")
    return int(head)


def _find_columns(path: Path, header: list[str], columns: Sequence[str]) -> list[int]:
    missing = [column for column in columns if column not in header]
    if missing:
        raise TraceError(
            f"{path} has no column {', '.join(missing)}; its first line names {', '.join(header)[:200]}"
        )
    return [header.index(column) for column in columns]
