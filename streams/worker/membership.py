"""Whether the worker is a member of its consumer group, and what keeps it out.

    brokers refuse (no right to the group, a session that they do not allow) ──▶ log, `/readyz`; tried again

The client's coordinator stops at errors that it cannot repair by itself, and waits until its caller
asks for them. Faust never asks, so a worker would stand still without a message, even after it was
given the right that it lacked. Here the coordinator is asked all the time: its errors are reported,
and it goes on trying. If the coordinator has ended, the worker ends too, since nothing else would
bring it back.

Not guaranteed: that other clients of the same group are workers.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from streams.worker.partitions import Notices

#: Time between two looks, and so between two attempts, in seconds.
LOOK_S = 1.0
#: Watcher of the notices, and what they are about.
_WATCHER, _SUBJECT = "group", "consumer group"
#: What to do about an error of the brokers, by its name.
_REMEDIES = {
    "GroupAuthorizationFailedError": "give the worker the right to Read it",
    "InvalidSessionTimeoutError": (
        "set LOADSTREAM_WORKER_SESSION_TIMEOUT_S between the brokers' group.min.session.timeout.ms "
        "and group.max.session.timeout.ms"
    ),
    "InconsistentGroupProtocolError": "stop whatever else is in it and is no loadstream worker",
}


class CoordinatorEnded(RuntimeError):
    """The client no longer takes part in its group, and never will again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a client stands with its group."""

    member: bool
    """It has joined the group, and was not put out since."""
    error: Exception | None = None
    """What has kept it out since the last look."""
    ended: bool = False
    """Nothing tries to join any more."""


def standing(consumer: Any) -> Standing:
    """Ask a consumer of aiokafka, in its own thread; afterwards it tries again."""
    coordinator = None if consumer is None else consumer._coordinator  # noqa: SLF001 - no other way
    if coordinator is None:  # it is being started
        return Standing(member=False)
    from aiokafka.errors import KafkaError

    try:
        coordinator.check_errors()
    except KafkaError as error:
        ended = coordinator._coordination_task.done()  # noqa: SLF001
        return Standing(member=False, error=error, ended=ended)
    return Standing(member=coordinator.generation > 0)


class Membership:
    """Looks at the group of a worker; `run` it for as long as the worker lives."""

    def __init__(self, app: Any, notices: Collection[Notices]) -> None:
        """`notices` are those of the stages that this worker runs."""
        self._app = app
        self._notices = notices

    async def run(self) -> None:
        """Look on until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            found = await self._app.group_standing()
            if found.ended:
                error = CoordinatorEnded(f"{self._sentence(found.error)}; start the worker again")
                await self._app.crash(error)
                return
            if found.error is not None:
                self._report({_SUBJECT: self._sentence(found.error)})
            elif found.member:
                self._report({})

    def _report(self, wrong: dict[str, str]) -> None:
        for notices in self._notices:
            notices.report(_WATCHER, wrong)

    def _sentence(self, error: Exception | None) -> str:
        name = type(error).__name__
        remedy = _REMEDIES.get(name)
        advice = f"; {remedy}. It tries again every {LOOK_S:.0f} s" if remedy else ""
        return f"the worker cannot take part in consumer group {self._app.conf.id}: {error}{advice}"
