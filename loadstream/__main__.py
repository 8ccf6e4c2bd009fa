"""Starts the `loadstream` command. Ctrl-C ends it without a traceback, even during imports."""

import os
import shlex
import signal
import sys
from typing import Any

#: Commands that run until they are stopped.
_PROGRAMS = ("worker", "agent", "broker", "simulate", "kubernetes")
#: Exit code of a command that Ctrl-C has ended.
_INTERRUPTED = 130


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] and sys.argv[1] in _PROGRAMS and sys.argv[2:3] != ["demo"]:
        # Until the program handles signals itself. An exception is not enough: Python ignores exceptions
        # while it cleans up an import.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _stop_during_start)
        signal.signal(signal.SIGTERM, _stop_during_start)
    try:
        from loadstream.commands import app

        app(prog_name="loadstream")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def complete_for_kubectl() -> None:
    """Print completions of `kubectl loadstream ...` for kubectl.

    The arguments are all words; the last word is incomplete or empty. kubectl expects one candidate per
    line, then a directive: with 0, the shell completes file names if there are no candidates.
    """
    words = sys.argv[1:]
    os.environ |= {
        "_LOADSTREAM_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["loadstream", *words]),
        "COMP_CWORD": str(len(words)),
    }
    try:
        main()
    finally:
        print(":0")


def _stop_during_start(number: int, _: Any) -> None:
    name = signal.Signals(number).name
    os.write(2, f"loadstream {sys.argv[1]}: stopped by {name} during its start\n".encode())
    os._exit(_INTERRUPTED if number == signal.SIGINT else 0)


if __name__ == "__main__":
    main()
