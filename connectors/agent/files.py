"""Read small files of the kernel, and count failures instead of raising them.

A missing file is not a failure: pods end between two readings, and kernels differ. An existing file
that cannot be read or parsed is a failure, because a node without access to its files would look like
a node without pods.
"""

import os
from collections import Counter
from collections.abc import Callable
from errno import ENODEV, ENOENT, ENOTDIR, EOPNOTSUPP
from pathlib import Path
from typing import TypeVar

#: Most bytes read of a file. The longest is /proc/stat, of which the agent needs the lines of the CPUs at
#: the beginning.
FILE_BYTES_MAX = 64 * 1024

#: The file is missing, or disappeared during reading, or the kernel does not support it.
_ABSENT = (ENOENT, ENODEV, ENOTDIR, EOPNOTSUPP)

_T = TypeVar("_T")


class Files:
    """Reads files, and counts failures by purpose."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """Number of failed reads by purpose: node, pods, names; the agent clears it after a sample."""
        self.last_failure = ""
        """Path and reason of the last failure."""

    def read(self, purpose: str, path: str, parse: Callable[[str], _T]) -> _T | None:
        """Return the parsed content; None if the file is missing, or cannot be read or parsed."""
        try:
            return parse(read_text(path))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.fail(purpose, f"{path}: {error.strerror}")
        except ValueError as error:
            self.fail(purpose, f"{path}: {error}")
        return None

    def list_folders(self, purpose: str, path: str) -> list[str]:
        """Return the names of subfolders, sorted; empty if the folder is missing."""
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            if error.errno not in _ABSENT:
                self.fail(purpose, f"{path}: {error.strerror}")
            return []

    def fail(self, purpose: str, why: str) -> None:
        self.failures[purpose] += 1
        self.last_failure = why


def read_text(path: str) -> str:
    """Return the beginning of a file as text; raises OSError."""
    with Path(path).open("rb", buffering=0) as file:
        return file.read(FILE_BYTES_MAX).decode(errors="replace")


def parse_pairs(text: str) -> dict[str, int]:
    """Parse lines with a name and a number, as in `cpu.stat` and `memory.stat`; raises ValueError."""
    words = text.split()
    if len(words) % 2:
        raise ValueError(f"found {text[:60]!r}; expected lines of a name and a number")
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))
