"""Reads and writes files of commands, and prints their errors."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from schemas.policy import Problem


def read_file(file: Path, bytes_max: int) -> tuple[str, bytes]:
    """Return the name of a file for messages, and at most one byte more than allowed.

    If the file cannot be read, the command ends.
    """
    name = "standard input" if str(file) == "-" else str(file)
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            return name, stream.read(bytes_max + 1)
    except OSError as error:
        echo(f"error: {name} cannot be read: {error.strerror}", err=True)
        raise typer.Exit(1) from None


def write_new(file: Path, text: str) -> None:
    """Write a new file; if it exists or cannot be written, the command ends."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        echo(f"error: {file} cannot be written: {error.strerror}", err=True)
        raise typer.Exit(1) from None


def print_problems(name: str, problems: "Sequence[Problem]") -> NoReturn:
    """Print errors as `file:line: path: what is wrong`, and end the command."""
    for problem in problems:
        position = f"{name}:{problem.line}" if problem.line else name
        parts = (position, problem.path, problem.message)
        echo(to_one_line(": ".join(part for part in parts if part)), err=True)
    count = len(problems)
    echo(f"{name}: {count} error{'s' if count > 1 else ''}", err=True)
    raise typer.Exit(1)
