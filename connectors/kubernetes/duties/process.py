"""One process with one or several duties of a cluster.

The process joins the group of each duty, works while it is active, and waits for brokers and API servers
that do not answer. Any other failure of a duty ends the process with the error, so that Kubernetes
restarts it. At SIGTERM current writes are completed, and other processes take over.
"""

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from connectors.kafka.leadership import Leadership
from connectors.kafka.producer import Producer
from connectors.kafka.reconnect import mend_connections
from connectors.kubernetes.api.access import Access
from connectors.kubernetes.duties.kinds import Duty, DutyContext
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: Time between two snapshots for the metrics, in seconds.
_SNAPSHOT_S = 1.0
#: How long an outcome may wait to be sent with others. Outcomes are not urgent, and a batch costs as much as
#: a single record.
OUTCOMES_LINGER_MS = 50

#: Creates a duty.
DutyFactory = Callable[[DutyContext], Awaitable[Duty]]


async def run(
    kafka: KafkaSettings,
    cluster: str,
    access: Access,
    factories: Sequence[DutyFactory],
    telemetry: DutyTelemetry,
) -> None:
    """Run forever, or until a duty fails; raises an exception group with its exception.

    Raises AccessError if the credentials cannot be read at the start.
    """
    mend_connections()
    # A full list creates millions of long-lived objects. Collecting garbage among them repeatedly would
    # take half of the time.
    gc.set_threshold(100_000, 10, 100)
    await access.configuration()  # unreadable credentials are an error only at the start
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer(kafka))
        outcomes = await stack.enter_async_context(Producer(kafka, linger_ms=OUTCOMES_LINGER_MS))
        context = DutyContext(kafka, cluster, access, producer, outcomes, telemetry, stack)
        duties = [await create(context) for create in factories]
        members = {
            duty.name: Leadership(
                kafka,
                cluster,
                duty.name,
                topics=duty.topics,
                newest=duty.newest,
                begin=duty.begin,
            )
            for duty in duties
        }
        async with asyncio.TaskGroup() as tasks:
            for duty in duties:
                telemetry.add_duty(duty.name)
                tasks.create_task(members[duty.name].run(duty.work))
            while True:
                for name, member in members.items():
                    telemetry.set_active(name, active=member.term is not None)
                telemetry.take_snapshot(producer.sent + outcomes.sent)
                producer.check()
                outcomes.check()
                await asyncio.sleep(_SNAPSHOT_S)
