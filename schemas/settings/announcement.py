"""Where a local broker writes its address, so that a second terminal finds it.

The embedded broker takes a port that the system gives it and cannot be given another one. It
therefore writes its address into a file of the cache directory and holds a lock on that file for as
long as it lives: a worker started beside it reads the address, and a file left behind by a killed
broker is recognised by its missing lock. Nothing is announced over the network, and an address from
`LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS` always goes first.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: How long a reader of the address may have the lock, in seconds; it is looked for again after that.
_READING_S = 0.01


class AlreadyAnnounced(RuntimeError):
    """Another broker announces itself in the same file."""


class NotAnnounced(RuntimeError):
    """The file cannot be written."""


def cache_directory() -> Path:
    """Where downloads and the announcement are kept; it need not exist yet.

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
    """File that holds the address of the local broker."""
    return cache_directory() / "broker"


@contextmanager
def announce(bootstrap_servers: str, path: Path | None = None) -> Iterator[Path]:
    """Tell the address for as long as the block runs.

    Raises AlreadyAnnounced where a living broker announces itself in the same file, NotAnnounced
    where it cannot be written.
    """
    path = path or announcement_file()
    with _locked(path) as descriptor:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{bootstrap_servers}\n".encode())
        try:
            yield path
        finally:
            # Emptied and not unlinked: another broker may already wait for this very file's lock.
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
        while not _taken(descriptor, fcntl.LOCK_EX):
            # Who reads the address has the lock for a moment, and shares it; a broker does not.
            if not _taken(descriptor, fcntl.LOCK_SH):
                address = announced(path) or "an address not yet written"
                raise AlreadyAnnounced(
                    f"a local broker is running already ({address}, announced in {path}); "
                    "use that one, stop it first, or set LOADSTREAM_CACHE to another directory"
                )
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            time.sleep(_READING_S)
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, kind: int) -> bool:
    """Whether the lock could be taken at once."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def announced(path: Path | None = None) -> str | None:
    """Address of the living local broker; None where there is none."""
    try:
        descriptor = os.open(path or announcement_file(), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _taken(descriptor, fcntl.LOCK_SH):
            return None
        return os.read(descriptor, 4096).decode().strip() or None
    finally:
        os.close(descriptor)
