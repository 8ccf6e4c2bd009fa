"""What goes wrong with a request to an API server."""

from collections.abc import Mapping
from typing import Any

import orjson

#: Of an answer that is no Status object, what a message shows.
_SHOWN_MAX = 300


class AccessError(RuntimeError):
    """No API server can be found, or the credentials for it cannot be read; says what to do."""


class ApiUnreachable(OSError):
    """The server was not reached, or broke off before the answer was whole.

    Whether it has done what was asked is not known.
    """


class ApiError(RuntimeError):
    """The server answered, and not with success."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after_s: float | None, body: bytes
    ) -> None:
        """`status` is the HTTP status; `reason` and `message` are those of the Status object."""
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        """When to ask again at the earliest, if the server says so."""
        self.body = body


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer means."""
    said = _status_object(body)
    details = said.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return ApiError(
        status,
        str(said.get("reason") or ""),
        str(said.get("message") or body[:_SHOWN_MAX].decode(errors="replace").strip()),
        _seconds(headers.get("Retry-After")) or _seconds(seconds),
        body,
    )


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) and found.get("kind") == "Status" else {}


def _seconds(value: object) -> float | None:
    """Seconds of a `Retry-After` header, which may also be a date: then none."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
