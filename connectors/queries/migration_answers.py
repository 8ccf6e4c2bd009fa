"""Which records answer a request, and how it ended.

A worker answers on `status`; what it refuses is in `dead-letters`, whole. Pure: records
in, answers out.
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
    """What a record says about a request."""

    text: str
    done: bool = False
    """It is the last one."""
    failed: bool = False
    """What was asked for did not happen."""


def answer(
    request: MigrationRequest, message: object, *, begun: bool = False
) -> RequestAnswer | None:
    """What a record says about a request; none: it is about something else.

    `begun`: one has answered it already. A drain that is asked for once more goes on in the name of
    that request.
    """
    if isinstance(message, DeadLetter):
        return _refused(request, message)
    if isinstance(message, DrainStatus):
        return _drain(request, message, begun=begun)
    if isinstance(message, MigrationStatus):
        return _migration(request, message)
    return None


def refused_request(letter: DeadLetter) -> tuple[str, str] | None:
    """Cluster and id of the request that a dead letter is about; none: it is about none."""
    if letter.topic != REQUESTS or letter.parts > 1:
        return None
    try:
        record = orjson.loads(restore_record(letter)[1] or b"")
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    return str(record.get("cluster")), str(record.get("request_id"))


def _refused(request: MigrationRequest, letter: DeadLetter) -> RequestAnswer | None:
    if refused_request(letter) != (request.cluster, request.request_id):
        return None
    return RequestAnswer(f"refused: {letter.reason}", done=True, failed=True)


def _drain(request: MigrationRequest, status: DrainStatus, *, begun: bool) -> RequestAnswer | None:
    if status.node != request.node or request.action not in _DRAINED:
        return None
    if request.action == "drain" and status.request_id != request.request_id and not begun:
        return None
    # A drain that is taken back goes on no more.
    taken_back = request.action == "drain" and status.phase == "Undrained"
    done = taken_back or status.phase == _DRAINED[request.action]
    return RequestAnswer(sentence(status), done=done, failed=taken_back)


def _migration(request: MigrationRequest, status: MigrationStatus) -> RequestAnswer | None:
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
    # What failed has been given up as well; what succeeded has moved its pod all the same.
    failed = status.phase == "Succeeded" if request.action == "abort" else over
    return RequestAnswer(sentence(status), done=over or reached, failed=failed)
