"""Errors of requests to an API server."""

from collections.abc import Mapping
from typing import Any

import orjson

#: Longest part of an answer in a message, if it is not a Status object.
_SHOWN_MAX = 300


class AccessError(RuntimeError):
    """There is no address of an API server, or its credentials cannot be read."""


class ApiUnreachable(OSError):
    """No complete answer: whether the request was executed is unknown."""


class ApiError(RuntimeError):
    """The server answered with an error status, or with invalid JSON."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after_s: float | None, body: bytes
    ) -> None:
        """`status` is the HTTP status; `reason` and `message` are those of the Status object, with causes."""
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message or reason or f"status {status}"
        self.retry_after_s = retry_after_s
        """Shortest pause before another attempt, if the server requires one."""
        self.body = body


def build_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error of an answer."""
    content = _status_object(body)
    details = content.get("details")
    details = details if isinstance(details, dict) else {}
    message = str(content.get("message") or body[:_SHOWN_MAX].decode(errors="replace").strip())
    causes = [str(cause.get("message") or "") for cause in details.get("causes") or ()]
    return ApiError(
        status,
        str(content.get("reason") or ""),
        " ".join([message, *(cause for cause in causes if cause not in message)]),
        _seconds(headers.get("Retry-After")) or _seconds(details.get("retryAfterSeconds")),
        body,
    )


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) and content.get("kind") == "Status" else {}


def _seconds(value: object) -> float | None:
    """Return the seconds of a `Retry-After` header; None: it is a date."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None
