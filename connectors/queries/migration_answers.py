"""Answers to a migration request.

A worker answers on `status`, and a refused request is in `dead-letters`.
"""

from dataclasses import dataclass

import orjson

from connectors.queries.wording import sentence
from schemas.messages.dead_letters import DeadLetter, restore_record
from schemas.messages.migrations import LIVE, DrainStatus, MigrationRequest, MigrationStatus

REQUESTS = "migration-requests"

_DRAINED = {"drain": "Drained", "undrain": "Undrained"}


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    text: str
    done: bool = False
    """Whether it is the last answer."""
    failed: bool = False
    """Whether the request failed."""


def find_answer(
    request: MigrationRequest, message: object, *, begun: bool = False
) -> RequestAnswer | None:
    """Return the answer in a record; None: the record is not about the request.

    `begun` says that an earlier record was an answer. A repeated request for a drain continues the drain
    under the id of the first request.
    """
    if isinstance(message, DeadLetter):
        return _read_refusal(request, message)
    if isinstance(message, DrainStatus):
        return _read_drain(request, message, begun=begun)
    if isinstance(message, MigrationStatus):
        return _read_migration(request, message)
    return None


def parse_refused_request(letter: DeadLetter) -> tuple[str, str] | None:
    """Return cluster and id of the request in a dead letter; None: it contains no request."""
    if letter.topic != REQUESTS or letter.parts > 1:
        return None
    try:
        record = orjson.loads(restore_record(letter)[1] or b"")
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    return str(record.get("cluster")), str(record.get("request_id"))


def _read_refusal(request: MigrationRequest, letter: DeadLetter) -> RequestAnswer | None:
    if parse_refused_request(letter) != (request.cluster, request.request_id):
        return None
    return RequestAnswer(f"refused: {letter.reason}", done=True, failed=True)


def _read_drain(
    request: MigrationRequest, status: DrainStatus, *, begun: bool
) -> RequestAnswer | None:
    if status.node != request.node or request.action not in _DRAINED:
        return None
    if request.action == "drain" and status.request_id != request.request_id and not begun:
        return None
    # An undrained node ends its drain.
    taken_back = request.action == "drain" and status.phase == "Undrained"
    done = taken_back or status.phase == _DRAINED[request.action]
    return RequestAnswer(sentence(status), done=done, failed=taken_back)


def _read_migration(request: MigrationRequest, status: MigrationStatus) -> RequestAnswer | None:
    if request.action == "migrate":
        if request.pod is None or status.pod.uid != request.pod.uid or status.trigger != "request":
            return None
        over = status.phase not in LIVE
        return RequestAnswer(
            sentence(status), done=over, failed=over and status.phase != "Succeeded"
        )
    if status.migration_id != request.migration_id:
        return None
    over = status.phase not in LIVE
    reached = {
        "pause": status.paused,
        "resume": not status.paused,
        "abort": status.phase == "Aborted",
    }[request.action]
    # An abort also succeeds if the migration failed; a migration that succeeded has moved its pod.
    failed = status.phase == "Succeeded" if request.action == "abort" else over
    return RequestAnswer(sentence(status), done=over or reached, failed=failed)
