"""Logging of a process: one JSON object per event, or plain text in a terminal.

All messages, also of Faust and aiokafka, go through the standard library's logging. So they have one
format, and one place removes secrets and control characters. Faust's messages about the start of its
components get level `debug`. A message that a library repeats is logged once per `REPEAT_AFTER_S`, with
the number of suppressed repetitions: aiokafka repeats messages a hundred times a second while a broker
is down.
"""

import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Literal, TextIO

import structlog
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.base.printable import replace_unprintable

#: Replaces secrets.
MASK = "******"

#: Minimum levels of verbose loggers. Below info, aiokafka logs raw requests, including the login.
_MIN_LEVELS: Mapping[str, int] = {
    "aiohttp": logging.WARNING,
    "aiokafka": logging.WARNING,
    "asyncio": logging.INFO,
}
_MIN_LEVELS_DEBUGGING: Mapping[str, int] = {"aiokafka": logging.INFO, "asyncio": logging.INFO}

#: Fields without foreign text.
_SAFE_FIELDS = frozenset(("timestamp", "level", "logger"))


class LogSettings(BaseSettings):
    """Log settings; environment variables `LOADSTREAM_LOG_<FIELD>`."""

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


_VERBOSE_LIBRARIES = ("faust", "mode", "aiokafka")
#: A message of these libraries is logged at most once in this many seconds.
REPEAT_AFTER_S = 10.0
#: Most messages whose repetitions are counted.
_REPEATS_MAX = 1_000


def configure(settings: LogSettings, secrets: Iterable[str], stream: TextIO | None = None) -> None:
    """Log to a stream (default: standard error), and remove earlier handlers."""
    stream = stream or sys.stderr
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_formatter(settings, secrets, stream))
    handler.addFilter(_InfoToDebug(level))
    handler.addFilter(_RepetitionFilter())
    logging.root.handlers = [handler]
    logging.root.setLevel(level)
    min_levels = _MIN_LEVELS_DEBUGGING if level <= logging.DEBUG else _MIN_LEVELS
    for name, min_level in min_levels.items():
        logging.getLogger(name).setLevel(max(level, min_level))
    logging.captureWarnings(True)


def _formatter(
    settings: LogSettings, secrets: Iterable[str], stream: TextIO
) -> structlog.stdlib.ProcessorFormatter:
    in_terminal = stream.isatty()
    render: Any
    processors: list[Any] = []
    if settings.format == "console" or (settings.format == "auto" and in_terminal):
        render = structlog.dev.ConsoleRenderer(
            colors=in_terminal, exception_formatter=structlog.dev.plain_traceback
        )
        processors = [_as_text]
    else:
        # The standard library's encoder accepts every text, even invalid UTF-8.
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
            _SecretFilter(secrets),
            *processors,
            render,
        ],
    )


def _as_text(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    return {
        key: replace_unprintable(value) if isinstance(value, str) else value
        for key, value in event.items()
    }


class _SecretFilter:
    def __init__(self, secrets: Iterable[str]) -> None:
        # repr() escapes some characters, so both forms are replaced.
        forms = {form for secret in secrets if secret for form in (secret, repr(secret)[1:-1])}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        if self._secrets is None:
            return event
        return {
            key: value if key in _SAFE_FIELDS else self._mask(value) for key, value in event.items()
        }

    def _mask(self, value: Any) -> Any:
        if self._secrets is None or isinstance(value, bool | int | float | None):
            return value
        text = value if isinstance(value, str) else repr(value)
        masked = self._secrets.sub(MASK, text)
        return value if masked == text else masked  # values without secrets keep their type


class _InfoToDebug(logging.Filter):
    """Lowers info messages of verbose libraries to debug."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level

    def filter(self, record: logging.LogRecord) -> bool:
        library = record.name.partition(".")[0] in _VERBOSE_LIBRARIES
        # Faust logs the start and stop of our services under our logger names.
        if record.levelno == logging.INFO and (library or str(record.msg).startswith("[^")):
            record.levelno, record.levelname = logging.DEBUG, "DEBUG"
        return record.levelno >= self._level


class _RepetitionFilter(logging.Filter):
    """Suppresses repeated library warnings. The next logged warning has their number in `suppressed`."""

    def __init__(self) -> None:
        super().__init__()
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}
        """When a message (without arguments) was last logged, and how often it was suppressed since."""

    def filter(self, record: logging.LogRecord) -> bool:
        if (
            record.levelno < logging.WARNING
            or record.name.partition(".")[0] not in _VERBOSE_LIBRARIES
        ):
            return True
        # Faust sometimes formats its arguments into the message; such messages differ and are logged.
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
