"""Ends a child process when its parent is gone, for any reason.

A guard reads a pipe whose other end only the parent holds: the pipe's end without a word means that
the parent has died, and the guard kills the child. (A death signal of the kernel would be sent at
the end of the starting *thread*.)
"""

import subprocess


class Guard:
    """Watches over one child process until it is dismissed."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._shell = subprocess.Popen(  # noqa: S603 - a constant script and a process id
            ["/bin/sh", "-c", 'read -r word || kill -9 "$0"', str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A session of its own: Ctrl-C reaches the starter alone.
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """The child has ended: its id may be reused, so the end of the pipe must mean nothing now."""
        self._shell.communicate(b"done\n")
