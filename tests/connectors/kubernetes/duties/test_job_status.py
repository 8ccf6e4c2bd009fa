"""A request that the worker refuses fails the PodMigrationJob that it came from."""

import asyncio
from contextlib import suppress

from connectors.kafka.client import connect
from connectors.kafka.membership import Membership
from connectors.kafka.produce import produce_messages
from connectors.kafka.turn import Turn
from connectors.kubernetes.api.list_watch import Changed
from connectors.kubernetes.duties.job_status import JobRefusals
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from schemas.codec import encode
from schemas.deadletters import DeadLetter, dead_letter
from schemas.migrations import MigrationRequest
from schemas.refusals import Refusal
from tests.conftest import RunningBroker
from tests.connectors.kafka.test_membership import until
from tests.connectors.kubernetes.sinks.builders import NODE, POD_PATH, pod
from tests.connectors.kubernetes.sinks.played import Played, Said
from tests.connectors.kubernetes.sinks.test_migration_job import job_object
from tests.connectors.kubernetes.sinks.test_migration_jobs import JOB, JOB_STATUS
from tests.connectors.ports.sink_contract import CLUSTER


def refused(request: MigrationRequest, why: str, topic: str = "migration-requests") -> DeadLetter:
    return dead_letter(
        topic, 0, 0, None, request.cluster.encode(), encode(request), Refusal("limit", why)
    )


async def test_a_refused_request_fails_its_job(broker: RunningBroker) -> None:
    played = Played()
    played.says("GET", POD_PATH, pod(NODE))
    for path in (JOB, JOB_STATUS):
        played.says("PATCH", path, Said())
    async with played.served() as client:
        jobs = MigrationJobs(client, CLUSTER)
        jobs._known.set()
        (request,) = await jobs._requests(Changed(job_object()))
        refusals = JobRefusals(broker.settings, CLUSTER, jobs)
        connection = connect(broker.settings)
        before = refused(request, "of a turn before")
        assert not produce_messages(connection, "dead-letters", [before])[1]
        await refusals.begin()

        async def work(turn: Turn) -> None:
            await refusals(turn)

        running = asyncio.create_task(Membership(broker.settings, CLUSTER, "evict").run(work))
        letters = [
            refused(request, "of another topic", "scheduling-requests"),
            refused(request.model_copy(update={"cluster": "another"}), "of another cluster"),
            refused(request, "10 migrations are under way"),
        ]
        # All letters of one topic are in its partition, whatever the cluster's is.
        assert not produce_messages(connection, "dead-letters", letters)[1]
        await until(lambda: played.of("PATCH", JOB_STATUS))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    (patched,) = played.of("PATCH", JOB_STATUS)
    assert patched.body["status"]["phase"] == "Failed"
    assert "10 migrations are under way" in patched.body["status"]["message"]
