"""Small files of the kernel, read whole; which of them could not be read is counted, not raised.

A file that is not there is no failure: pods go between two looks, and kernels differ in what they
have. One that is there and cannot be read or understood is: access that is missing would otherwise
look like a node without pods.
"""

import os
from collections import Counter
from collections.abc import Callable
from errno import ENODEV, ENOENT, ENOTDIR, EOPNOTSUPP
from typing import TypeVar

#: Most bytes that are looked at of a file. The longest is /proc/stat with a line a CPU and the
#: interrupts after them, of which only the first line is needed.
FILE_BYTES_MAX = 64 * 1024

#: It is not there, or went while it was read, or the kernel does not keep it (pressure that was
#: turned off).
_ABSENT = (ENOENT, ENODEV, ENOTDIR, EOPNOTSUPP)

_T = TypeVar("_T")


class Files:
    """Reads files, and counts failures by what they were read for."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """How many reads have failed so far: node, pods, pressure, names."""
        self.last_failure = ""
        """The newest one: the path and why."""

    def read(self, purpose: str, path: str, parse: Callable[[str], _T]) -> _T | None:
        """What a file says; None where it is not there, or cannot be read or understood."""
        try:
            return parse(content(path))
        except OSError as error:
            if error.errno not in _ABSENT:
                self.fail(purpose, f"{path}: {error.strerror}")
        except ValueError as error:
            self.fail(purpose, f"{path}: {error}")
        return None

    def folders(self, purpose: str, path: str) -> list[str]:
        """Names of the folders in a folder, in ascending order; none where it is not there."""
        try:
            with os.scandir(path) as entries:
                return sorted(each.name for each in entries if each.is_dir())
        except OSError as error:
            if error.errno not in _ABSENT:
                self.fail(purpose, f"{path}: {error.strerror}")
            return []

    def fail(self, purpose: str, why: str) -> None:
        """Count one failure."""
        self.failures[purpose] += 1
        self.last_failure = why


def content(path: str) -> str:
    """The beginning of a file as text; raises OSError."""
    # Half the cost of a file object, a few hundred times a sample.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, FILE_BYTES_MAX).decode(errors="replace")
    finally:
        os.close(file)


def pairs(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in `cpu.stat` and `memory.stat`; raises ValueError."""
    words = text.split()
    if len(words) % 2:
        raise ValueError(f"found {text[:60]!r}; expected lines of a name and a number")
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))
