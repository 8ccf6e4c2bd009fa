"""A file or standard input with a progress bar, if there is a terminal to show it on."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import typer

#: Called with how many lines and bytes have been read so far.
Report = Callable[[int, int], None]


@contextmanager
def opened_with_progress(file: Path | None) -> Iterator[tuple[BinaryIO, Report]]:
    """The stream to read and the function to report how far it has been read."""
    if file is None or str(file) == "-":
        with _bar(total=None) as report:
            yield sys.stdin.buffer, report
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(
            f"cannot read {file}: {error.strerror}", param_hint="FILE"
        ) from None
    with stream, _bar(total=file.stat().st_size) as report:
        yield stream, report


@contextmanager
def _bar(total: int | None) -> Iterator[Report]:
    if not sys.stderr.isatty():
        yield lambda lines, bytes_read: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.fields[lines]:,} lines"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, lines=0)
        yield lambda lines, bytes_read: progress.update(task, completed=bytes_read, lines=lines)
