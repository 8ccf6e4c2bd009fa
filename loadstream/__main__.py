"""Starts the `loadstream` command; Ctrl-C ends it without a traceback from the first moment on."""

import os
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
        # Until the program handles the signal itself.
        signal.signal(signal.SIGTERM, _stop_during_start)
    try:
        from loadstream.commands import app

        app(prog_name="loadstream")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _stop_during_start(*_: Any) -> None:
    os.write(2, f"loadstream {sys.argv[1]}: stopped by SIGTERM during its start\n".encode())
    os._exit(0)


if __name__ == "__main__":
    main()
