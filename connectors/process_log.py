"""The log of a process beside a cluster: one line an event on standard error.

At `info` a process reports on itself: which duty it has, what is listed, what fails and since when.
Messages of libraries are left out. While no broker can be reached, aiokafka says so hundreds of
times a second; here there is one line when that begins and one when it is over.
"""

import asyncio
import logging
import sys

from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from schemas.printable import printable

logger = logging.getLogger(__name__)

#: What has not been said again for so long is over, in seconds: longer than aiokafka's pauses between
#: two attempts.
QUIET_S = 10.0
_LIBRARY = "aiokafka"
#: Complaints of one cause: a broker cannot be reached.
_AWAY = "no broker"
#: How aiokafka begins those that carry no error of which the kind could be known.
_ABOUT_CONNECTIONS = ("Unable connect to", "Unable to update metadata", "Heartbeat session expired")


class _Printable(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line without characters that steer a terminal; tracebacks keep theirs."""
        return "\n".join(printable(line) for line in super().format(record).splitlines())


class FirstOfKind(logging.Filter):
    """Lets of aiokafka's complaints the first of each kind through, until the kind is over.

    Outside of an event loop that time is not known, and all go through.
    """

    def __init__(self, quiet_s: float = QUIET_S) -> None:
        """A kind that has not come again for `quiet_s` is over."""
        super().__init__()
        self._quiet_s = quiet_s
        self._left_out: dict[str, int] = {}
        self._last_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is to be written; the first about brokers says what is left out."""
        if record.name.partition(".")[0] != _LIBRARY:
            return True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return True
        kind = _kind(record)
        self._last_s[kind] = loop.time()
        if kind in self._left_out:
            self._left_out[kind] += 1
            return False
        self._left_out[kind] = 0
        loop.call_later(self._quiet_s, self._look, loop, kind)
        if kind == _AWAY:
            text = record.getMessage()
            record.msg = (
                f"{text}; until it is over, what else fails for want of a broker is left out"
            )
            record.args = ()
        return True

    def _look(self, loop: asyncio.AbstractEventLoop, kind: str) -> None:
        quiet_s = loop.time() - self._last_s[kind]
        if quiet_s < self._quiet_s:
            loop.call_later(self._quiet_s - quiet_s, self._look, loop, kind)
            return
        left_out = self._left_out.pop(kind)
        if kind == _AWAY:
            logger.info(
                "brokers: no connection has failed for %g s; %d lines were left out",
                self._quiet_s, left_out,
            )  # fmt: skip


def _kind(record: logging.LogRecord) -> str:
    """What complaints of one cause have in common: the cause, or else their words."""
    words = str(record.msg)
    given = record.args if isinstance(record.args, tuple) else ()
    return (
        _AWAY if any(map(_is_of_broker, given)) or words.startswith(_ABOUT_CONNECTIONS) else words
    )


def _is_of_broker(error: object) -> bool:
    """A broker is away, starts, or is not the right one now; a topic that is missing is another thing."""
    if isinstance(error, UnknownTopicOrPartitionError):
        return False
    return isinstance(error, OSError) or (isinstance(error, KafkaError) and bool(error.retriable))


def configure() -> None:
    """Log to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Printable("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    )
    handler.addFilter(FirstOfKind())
    logging.root.handlers = [handler]
    logging.root.setLevel(logging.INFO)
    logging.getLogger(_LIBRARY).setLevel(logging.ERROR)
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
