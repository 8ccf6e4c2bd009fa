"""Files of published traces: found by their names, and read as a stream of rows.

Traces are large and come from others. A row that cannot be read is counted and reported with file and
line, and reading continues. A missing or unreadable file is an error that says what was expected.
"""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

#: Maximum number of malformed rows that are reported one by one.
REPORTED_MAX = 5
LINE_CHARACTERS_MAX = 4096


class TraceError(ValueError):
    """A trace cannot be used; the message names the file and what was expected."""


class RowError(ValueError):
    """A row cannot be read; the message has column, value and what is allowed."""


@dataclass(slots=True)
class Malformed:
    """Rows of one file that could not be read."""

    file: str
    count: int = 0
    reported: list[str] = field(default_factory=list)
    """The first rows: file, line and problem."""

    def add(self, line: int, message: str) -> None:
        self.count += 1
        if len(self.reported) < REPORTED_MAX:
            self.reported.append(f"{self.file} line {line}: {message}")

    @property
    def complaints(self) -> tuple[str, ...]:
        """Return the reported rows, and the number of further ones."""
        more = self.count - len(self.reported)
        rows = f"{more} more row{'' if more == 1 else 's'}"
        return (*self.reported, *([f"{self.file}: {rows} that cannot be read"] if more else []))


def find_trace(directory: Path, patterns: Sequence[str], what: str) -> Path:
    """Return the file of a directory that matches a pattern; earlier patterns take precedence.

    Raises TraceError if no file matches, or several files match one pattern.
    """
    if not directory.is_dir():
        raise TraceError(f"{directory} is no directory; expected one that holds {what}")
    names = sorted(entry.name for entry in directory.iterdir() if entry.is_file())
    for pattern in patterns:
        matching = [name for name in names if fnmatch(name, pattern)]
        if len(matching) > 1:
            raise TraceError(
                f"{directory} holds {', '.join(matching)}; expected one file with {what}: leave one there"
            )
        if matching:
            return directory / matching[0]
    raise TraceError(
        f"{directory} holds no {what}: expected a file named like {' or '.join(patterns)};"
        f" found {', '.join(names[:10]) or 'no files'}"
    )


def read_rows(
    path: Path, columns: Sequence[str], malformed: Malformed
) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and fields of every row, in the order of `columns`.

    If the first line names columns, it defines their places. Otherwise rows have the published order,
    which is that of `columns`. Raises TraceError if the file cannot be read.
    """
    places: list[int] = list(range(len(columns)))
    width = len(columns)
    with _opened(path) as lines:
        number = 0
        while line := lines.readline(LINE_CHARACTERS_MAX + 1):
            number += 1
            if len(line) > LINE_CHARACTERS_MAX:
                malformed.add(number, f"the line has more than {LINE_CHARACTERS_MAX} characters")
                while line and not line.endswith("\n"):
                    line = lines.readline(LINE_CHARACTERS_MAX)
                continue
            fields = line.rstrip("\r\n").split(",")
            if number == 1 and columns[0] in fields:
                places, width = _places(path, fields, columns), len(fields)
                continue
            if fields == [""]:
                continue
            if len(fields) != width:
                malformed.add(number, f"found {len(fields)} fields; expected {width}")
                continue
            yield number, [fields[place] for place in places]


def parse_whole_number(column: str, text: str) -> int:
    """Parse a whole number of at least 0. Raises RowError."""
    # Some writers produce floats such as "12.0". More than 15 digits would be inexact.
    head, _, tail = text.partition(".")
    if not head.isascii() or not head.isdigit() or len(head) > 15 or tail.strip("0"):
        raise RowError(f"{column}: found {text[:40]!r}; expected a whole number, at least 0")
    return int(head)


def _places(path: Path, header: list[str], columns: Sequence[str]) -> list[int]:
    missing = [column for column in columns if column not in header]
    if missing:
        raise TraceError(
            f"{path} has no column {', '.join(missing)}; its first line names {', '.join(header)[:200]}"
        )
    return [header.index(column) for column in columns]


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    try:
        with (
            gzip.open(path) if path.suffix == ".gz" else path.open("rb") as plain,
            # Spreadsheets write a byte order mark before the first line.
            TextIOWrapper(plain, "utf-8-sig", errors="replace", newline="\n") as stream,
        ):
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
