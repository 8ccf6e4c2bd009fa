"""Checks whether the worker is a member of its consumer group.

After some errors, such as a missing permission, the coordinator of aiokafka stops until its caller reads
the error. Faust does not read it, so a worker would wait forever without a message. This module reads it
every second: errors are logged and reported by `/readyz`, and the coordinator tries again. If the
coordinator has ended, the worker ends as well.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from streams.worker.partitions import StageProblems

#: Time between two checks, and so between two attempts to join, in seconds.
CHECK_INTERVAL_S = 1.0
_WATCHER, _SUBJECT = "group", "consumer group"
#: Advice by class of error.
_REMEDIES = {
    "GroupAuthorizationFailedError": "grant the worker permission Read on the group",
    "InvalidSessionTimeoutError": (
        "set LOADSTREAM_WORKER_SESSION_TIMEOUT_S between the brokers' group.min.session.timeout.ms "
        "and group.max.session.timeout.ms"
    ),
    "InconsistentGroupProtocolError": "stop the members of the group that are not loadstream workers",
}


class CoordinatorEnded(RuntimeError):
    """The client does not try to join the group any more."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The status of a client in its consumer group."""

    is_member: bool
    error: Exception | None = None
    """Why the client could not join since the last check."""
    has_ended: bool = False
    """Whether the client does not try to join any more."""


def read_group_status(consumer: Any) -> GroupStatus:
    """Return the status of a consumer of aiokafka; after an error, let it join again.

    Call this function in the consumer's thread.
    """
    coordinator = None if consumer is None else consumer._coordinator  # noqa: SLF001 - no other way
    if coordinator is None:  # the consumer is starting
        return GroupStatus(is_member=False)
    from aiokafka.errors import KafkaError

    try:
        coordinator.check_errors()
    except KafkaError as error:
        has_ended = coordinator._coordination_task.done()  # noqa: SLF001
        return GroupStatus(is_member=False, error=error, has_ended=has_ended)
    return GroupStatus(is_member=coordinator.generation > 0)


class Membership:
    def __init__(self, app: Any, problems: Collection[StageProblems]) -> None:
        """`problems` has the problems of each stage of the worker."""
        self._app = app
        self._problems = problems

    async def run(self) -> None:
        """Check every `CHECK_INTERVAL_S` until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            status = await self._app.group_status()
            if status.has_ended:
                error = CoordinatorEnded(f"{self._describe(status.error)}; start the worker again")
                await self._app.crash(error)
                return
            if status.error is not None:
                self._report({_SUBJECT: self._describe(status.error)})
            elif status.is_member:
                self._report({})

    def _report(self, sentences: dict[str, str]) -> None:
        for problems in self._problems:
            problems.report(_WATCHER, sentences)

    def _describe(self, error: Exception | None) -> str:
        remedy = _REMEDIES.get(type(error).__name__)
        retry = f"The worker tries again every {CHECK_INTERVAL_S:.0f} s"
        advice = f"; {remedy}. {retry}" if remedy else ""
        return f"the worker cannot join consumer group {self._app.conf.id}: {error}{advice}"
