"""Files and directories that are made once, whichever processes want them at the same time."""

import fcntl
from collections.abc import Callable
from pathlib import Path


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The path, made first if it is not there yet.

    Args:
        path: a file or directory; a lock beside it keeps others waiting.
        make: makes it, the path itself as the last step: what is there is complete.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(path)
    return path
