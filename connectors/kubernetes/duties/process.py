"""One process with one or several duties of a cluster, until it is ended.

It joins the group of each duty and does the work while it is the active one. A broker or an API server
that does not answer is waited for; a duty that fails in any other way ends the process with its
error, so that it is started again and takes its place in the groups anew. At SIGTERM what is being
written comes to its end, and others take over at once.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from connectors.kafka.leadership import Leadership
from connectors.kafka.outbox import Outbox
from connectors.kafka.reconnect import mend_connections
from connectors.kubernetes.api.access import Access
from connectors.kubernetes.duties.kinds import Duty, Surroundings
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from connectors.process.signals import run_until_stopped
from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: Time between two pictures for the metrics, in seconds.
_LOOK_S = 1.0
#: How long an outcome may wait for others: nobody waits for it as for a request, and each batch
#: costs the broker and the worker what a single record does.
OUTCOMES_LINGER_MS = 50

#: Makes a duty in its surroundings.
Make = Callable[[Surroundings], Awaitable[Duty]]


async def run(
    kafka: KafkaSettings,
    cluster: str,
    access: Access,
    makes: Sequence[Make],
    telemetry: DutyTelemetry,
) -> None:
    """Run until SIGTERM or SIGINT; raises what a duty raises, of several the first one.

    Raises AccessError if the credentials cannot be read at the start.
    """
    mend_connections()
    # A full list makes millions of objects that stay; looking for garbage among them again and again
    # takes half of the time.
    gc.set_threshold(100_000, 10, 100)
    await run_until_stopped(_run(kafka, cluster, access, makes, telemetry))


async def _run(
    kafka: KafkaSettings,
    cluster: str,
    access: Access,
    makes: Sequence[Make],
    telemetry: DutyTelemetry,
) -> None:
    await access.configuration()  # once it runs, credentials that cannot be read are waited for
    async with AsyncExitStack() as stack:
        outbox = await stack.enter_async_context(Outbox(kafka))
        outcomes = await stack.enter_async_context(Outbox(kafka, linger_ms=OUTCOMES_LINGER_MS))
        around = Surroundings(kafka, cluster, access, outbox, outcomes, telemetry, stack)
        duties = [await make(around) for make in makes]
        members = {each.name: _member(around, each) for each in duties}
        async with asyncio.TaskGroup() as tasks:
            for each in duties:
                telemetry.has_duty(each.name)
                tasks.create_task(members[each.name].run(each.work))
            while True:
                for name, member in members.items():
                    telemetry.active(name, active=member.term is not None)
                telemetry.look(outbox.sent + outcomes.sent)
                outbox.check()
                outcomes.check()
                await asyncio.sleep(_LOOK_S)


def _member(around: Surroundings, duty: Duty) -> Leadership:
    return Leadership(
        around.kafka,
        around.cluster,
        duty.name,
        topics=duty.topics,
        newest=duty.newest,
        begin=duty.begin,
    )
