"""Addresses and free ports for servers on this machine."""

import errno
import secrets
import socket
import sys

HOST = "127.0.0.1"
#: Below the range of outgoing connections, which could otherwise take a port while a stopped server
#: restarts on it.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 1000
#: Ports that this process has reserved.
_reserved: set[int] = set()
#: An address reserved for documentation. Nothing is sent to it.
_UNUSED_ADDRESS = ("203.0.113.1", 9)


def find_own_address() -> str:
    """Return this machine's address as other machines see it; `HOST` if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_UNUSED_ADDRESS)
        except OSError:
            return HOST
        return str(probe.getsockname()[0])


def find_free_port() -> int:
    """Return a free port that this function has not returned before in this process.

    On Linux the port stays reserved while this process runs: in other processes this function returns
    other ports. Raises OSError if no port is free.
    """
    for _ in range(_ATTEMPTS):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if port in _reserved:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if _reserve(port):
            _reserved.add(port)
            return port
    raise OSError(errno.EADDRINUSE, f"found no free port between {_FIRST} and {_LAST}")


def _reserve(port: int) -> bool:
    """Reserve the port; False if another process has reserved it.

    The system releases the reservation when the process ends.
    """
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0loadstream/port/{port}")
    except OSError:
        claim.close()
        return False
    # Keep the descriptor open. Python would warn about a socket object that is not closed.
    claim.detach()
    return True
