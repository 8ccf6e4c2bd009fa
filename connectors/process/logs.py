"""Logs of a process: one line of JSON per event for machines, plain text in a terminal.

Our messages and those of Faust and aiokafka go through the standard library's logging, so that all of
them have one form and pass one place, which removes secrets and, for a terminal, control characters.
What Faust logs at the start of each of its parts has the level `debug` here. Messages that libraries
repeat, as aiokafka does a hundred times a second while a broker is away, are logged once in
`REPEAT_AFTER_S`, with the number of times that they were left out.
"""

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.base.printable import printable

#: What stands in the place of a secret.
BLOT = "******"

#: Least levels of loggers that say too much. Below info, aiokafka writes requests as they go over
#: the wire, the one that logs in among them.
_LEAST: Mapping[str, int] = {
    "aiohttp": logging.WARNING,
    "aiokafka": logging.WARNING,
    "asyncio": logging.INFO,
}
_LEAST_DEBUGGING: Mapping[str, int] = {"aiokafka": logging.INFO, "asyncio": logging.INFO}

#: Fields that are ours alone and hold no text of others.
_OWN = frozenset(("timestamp", "level", "logger"))


class LogSettings(BaseSettings):
    """What a process writes to its log; environment variables `LOADSTREAM_LOG_<FIELD>`."""

    model_config = SettingsConfigDict(
        env_prefix="LOADSTREAM_LOG_",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    format: Literal["auto", "console", "json"] = "auto"
    """`json`: one object per line. `console`: text for people. `auto`: text in a terminal,
    otherwise JSON."""
    level: Literal["debug", "info", "warn", "error"] = "info"
    """Least level to log; `--log-level` overrides it. `debug` slows a worker down."""


_CHATTY = ("faust", "mode", "aiokafka")
#: A message of these is logged at most once in this many seconds.
REPEAT_AFTER_S = 10.0
#: Most messages that this is kept of.
_REPEATS_MAX = 1_000


def configure(settings: LogSettings, secrets: Iterable[str], stream: TextIO | None = None) -> None:
    """Log to a stream from now on, standard error if it is not given; earlier handlers are dropped."""
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(settings, secrets, stream))
    handler.addFilter(_Chatter(level))
    handler.addFilter(_Repeats())
    logging.root.handlers = [handler]
    logging.root.setLevel(level)
    least = _LEAST_DEBUGGING if level <= logging.DEBUG else _LEAST
    for name, least_level in least.items():
        logging.getLogger(name).setLevel(max(level, least_level))
    logging.captureWarnings(True)


def _formatter(
    settings: LogSettings, secrets: Iterable[str], stream: TextIO
) -> structlog.stdlib.ProcessorFormatter:
    in_terminal = stream.isatty()
    render: Any
    shown: list[Any] = []
    if settings.format == "console" or (settings.format == "auto" and in_terminal):
        render = structlog.dev.ConsoleRenderer(
            colors=in_terminal, exception_formatter=structlog.dev.plain_traceback
        )
        shown = [_as_text]
    else:
        # The standard library's writer: it has an answer to every text, also to one that is no
        # UTF-8.
        render = structlog.processors.JSONRenderer(default=repr, skipkeys=True)
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.ExtraAdder(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _Blotter(secrets),
            *shown,
            render,
        ],
    )


def _as_text(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Names and values in an event move no cursor and set no colour; what is no text is shown by
    its repr."""
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in event.items()
    }


class _Blotter:
    """Blots out secrets, wherever in an event they are."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # In a repr, as of a settings object, some characters look otherwise.
        forms = {form for secret in secrets if secret for form in (secret, repr(secret)[1:-1])}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if self._secrets is None:
            return event
        return {key: value if key in _OWN else self._blotted(value) for key, value in event.items()}

    def _blotted(self, value: Any) -> Any:
        if self._secrets is None or isinstance(value, bool | int | float | None):
            return value
        text = value if isinstance(value, str) else repr(value)
        blotted = self._secrets.sub(BLOT, text)
        # What holds no secret keeps its form.
        return value if blotted == text else blotted


class _Chatter(logging.Filter):
    """Takes what libraries tell at level info for debugging."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is for this log."""
        library = record.name.partition(".")[0] in _CHATTY
        # Parts of ours that Faust starts and stops speak with its words in our name.
        if record.levelno == logging.INFO and (library or str(record.msg).startswith("[^")):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return record.levelno >= self._level


class _Repeats(logging.Filter):
    """Leaves out what a library has just said; the next one has how many were left out:
    `suppressed`."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        """When each message, without its arguments, was logged last, and how many were not since."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if record.levelno < logging.WARNING or record.name.partition(".")[0] not in _CHATTY:
            return True
        # Faust puts its arguments into the message itself now and then; what differs is logged.
        key = (record.name, str(record.msg))
        logged_s, suppressed = self._logged.get(key, (-REPEAT_AFTER_S, 0))
        if 0 <= record.created - logged_s < REPEAT_AFTER_S:
            self._logged[key] = (logged_s, suppressed + 1)
            return False
        if len(self._logged) >= _REPEATS_MAX:
            self._logged.clear()
        self._logged[key] = (record.created, 0)
        if suppressed:
            record.suppressed = suppressed
        return True
