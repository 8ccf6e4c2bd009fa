"""Addresses and ports for servers that we start on this machine."""

import errno
import secrets
import socket
import sys

HOST = "127.0.0.1"
#: Below the range from which the system gives outgoing connections theirs: one of those could
#: otherwise hold a port by the time that a stopped server is started on it again.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 1000
#: A socket of each port that this process was given: while it is open, which it is to the end of
#: the process, no other process is given the port. Their numbers: of objects Python would warn.
_claims: list[int] = []


#: Of the networks that are reserved for examples: no host has it, and nothing is sent.
_ELSEWHERE = ("203.0.113.1", 9)


def own_address() -> str:
    """This machine's address towards others; `HOST` if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return HOST
        return str(probe.getsockname()[0])


def free_port(taken: set[int]) -> int:
    """A port that is free now and that is not in `taken`, to which it is added.

    As long as this process runs, no other one is given the port by this function, so that it may be
    listened on later; on Linux, elsewhere it may.

    Raises OSError if none was found.
    """
    for _ in range(_ATTEMPTS):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if not _claimed(port):
            continue
        taken.add(port)
        return port
    raise OSError(errno.EADDRINUSE, f"no free port was found between {_FIRST} and {_LAST}")


def _claimed(port: int) -> bool:
    """Whether no other process has this port; a name that is bound is free again when its process
    ends, however it does."""
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0loadstream/port/{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim.detach())
    return True
