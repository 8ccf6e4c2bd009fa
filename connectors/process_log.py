"""The log of a process beside a cluster: one line an event on standard error.

What it says at `info` is its own story: which duty it has, what is listed, what fails and since
when. Chatter of libraries stays out.
"""

import logging
import sys

from schemas.printable import printable


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line without characters that steer a terminal; tracebacks keep theirs."""
        return "\n".join(printable(line) for line in super().format(record).splitlines())


def configure() -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Printable("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    )
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.INFO)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
