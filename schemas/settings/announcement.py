"""The file in which a local broker announces its address to other terminals.

The embedded broker gets its port from the system. It writes its address into a file of the cache
directory and locks the file while it runs. A worker reads the address from there. A file that a
killed broker left behind has no lock and is ignored. `LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS` takes
precedence.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Pause between two attempts to get the lock while a reader holds it, in seconds.
_READING_S = 0.01


class AlreadyAnnounced(RuntimeError):
    """Another running broker has announced its address in the same file."""


class NotAnnounced(RuntimeError):
    """The file cannot be written."""


def cache_directory() -> Path:
    """Return the directory of downloads and of the announcement; it may not exist yet.

    `$LOADSTREAM_CACHE`, else `.cache` of a source checkout, else `$XDG_CACHE_HOME/loadstream`
    (`~/.cache/loadstream`).
    """
    if chosen := os.environ.get("LOADSTREAM_CACHE"):
        return Path(chosen).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "loadstream"


def announcement_file() -> Path:
    return cache_directory() / "broker"


@contextmanager
def announce(bootstrap_servers: str) -> Iterator[Path]:
    """Announce the address while the block runs.

    Raises:
        AlreadyAnnounced: another running broker has announced its address in the same file.
        NotAnnounced: the file cannot be written.
    """
    path = announcement_file()
    with _locked(path) as descriptor:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{bootstrap_servers}\n".encode())
        try:
            yield path
        finally:
            # Not deleted: another broker may already wait for the lock of this file.
            os.ftruncate(descriptor, 0)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise NotAnnounced(
            f"the address of a local broker cannot be written to {path}: {error.strerror}; set "
            "LOADSTREAM_CACHE to a directory that can be written"
        ) from error
    try:
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            # A reader holds a shared lock for a moment. Only a broker holds an exclusive one.
            if not _try_lock(descriptor, fcntl.LOCK_SH):
                address = find_announced() or "an address not yet written"
                raise AlreadyAnnounced(
                    f"a local broker is already running ({address}, announced in {path}); "
                    "use that broker, stop it first, or set LOADSTREAM_CACHE to another directory"
                )
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_READING_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def find_announced() -> str | None:
    """Return the address of the running local broker, if there is one."""
    try:
        descriptor = os.open(announcement_file(), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(descriptor, fcntl.LOCK_SH):
            return None
        return os.read(descriptor, 4096).decode().strip() or None
    finally:
        os.close(descriptor)
