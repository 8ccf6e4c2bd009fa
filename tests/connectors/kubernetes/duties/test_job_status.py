"""The status of a PodMigrationJob has refusals of its request and the states of its migration."""

import asyncio
from contextlib import suppress

import pytest

from connectors.kafka.client import connect
from connectors.kafka.leadership import Leadership
from connectors.kafka.produce import produce_messages
from connectors.kafka.term import LeaderTerm
from connectors.kubernetes.api import list_watch
from connectors.kubernetes.api.list_watch import Changed
from connectors.kubernetes.duties import job_status
from connectors.kubernetes.duties.job_status import STATUS, JobRefusals, follow_status
from connectors.kubernetes.sinks.migration_jobs import COLLECTION, MigrationJobs
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter, build_dead_letter
from schemas.messages.migrations import MigrationRequest
from schemas.topics.codec import encode
from tests.conftest import RunningBroker
from tests.connectors.kafka.test_leadership import until
from tests.connectors.kubernetes.sinks.builders import NODE, POD_PATH, pod
from tests.connectors.kubernetes.sinks.fake_server import UNAVAILABLE, Answer, FakeServer
from tests.connectors.kubernetes.sinks.test_cordons import drain
from tests.connectors.kubernetes.sinks.test_migration_job import job_object, status
from tests.connectors.kubernetes.sinks.test_migration_jobs import (
    JOB,
    JOB_STATUS,
    edit,
    pod_ref,
)
from tests.connectors.ports.sink_contract import CLUSTER


def dead_letter(
    request: MigrationRequest, why: str, topic: str = "migration-requests"
) -> DeadLetter:
    return build_dead_letter(
        topic, 0, 0, None, request.cluster.encode(), encode(request), Refusal("limit", why)
    )


async def test_a_refused_request_fails_its_job(broker: RunningBroker) -> None:
    fake_server = FakeServer()
    fake_server.set_answers("GET", POD_PATH, pod(NODE))
    for path in (JOB, JOB_STATUS):
        fake_server.set_answers("PATCH", path, Answer())
    async with fake_server.serve() as client:
        jobs = MigrationJobs(client, CLUSTER)
        jobs._list_done.set()
        (request,) = await jobs._handle_event(Changed(job_object()))
        refusals = JobRefusals(broker.settings, CLUSTER, jobs)
        connection = connect(broker.settings)
        before = dead_letter(request, "of a term before")
        assert not produce_messages(connection, "dead-letters", [before])[1]
        await refusals.begin()

        async def work(term: LeaderTerm) -> None:
            await refusals(term)

        running = asyncio.create_task(Leadership(broker.settings, CLUSTER, "evict").run(work))
        letters = [
            dead_letter(request, "of another topic", "scheduling-requests"),
            dead_letter(request.model_copy(update={"cluster": "another"}), "of another cluster"),
            dead_letter(request, "10 migrations are under way"),
        ]
        # All dead letters of a topic are in one partition, which does not depend on the cluster.
        assert not produce_messages(connection, "dead-letters", letters)[1]
        await until(lambda: fake_server.list_requests("PATCH", JOB_STATUS))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    (patched,) = fake_server.list_requests("PATCH", JOB_STATUS)
    assert patched.body["status"]["phase"] == "Failed"
    assert "10 migrations are under way" in patched.body["status"]["message"]


async def test_a_status_waits_for_an_api_server_that_does_not_answer_at_the_beginning(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the last state of a migration would be lost, and its job would run forever."""
    monkeypatch.setattr(list_watch, "PAUSE_FIRST_S", 0.01)
    fake_server = FakeServer()
    job = edit(job_object(), "Running", podRef={**pod_ref(), "uid": "uid-1"})
    fake_server.set_answers("GET", COLLECTION, UNAVAILABLE)
    fake_server.set_answers("PATCH", JOB_STATUS, Answer())
    listed = {"metadata": {"resourceVersion": "1"}, "items": [job]}
    async with fake_server.serve() as client:
        jobs = MigrationJobs(client, CLUSTER)

        async def work(term: LeaderTerm) -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(follow_status(CLUSTER, jobs, None, term))
                tasks.create_task(term.run_during(follow(jobs)))

        connection = connect(broker.settings)
        last = status(phase="Succeeded", reason="EvictComplete")
        assert not produce_messages(connection, STATUS, [last])[1]
        member = Leadership(broker.settings, CLUSTER, "evict", topics=[STATUS])
        running = asyncio.create_task(member.run(work))
        await until(lambda: len(fake_server.list_requests("GET", COLLECTION)) > 5)
        fake_server.set_answers("GET", COLLECTION, Answer(body=listed))
        await until(lambda: fake_server.list_requests("PATCH", JOB_STATUS))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    (patched,) = fake_server.list_requests("PATCH", JOB_STATUS)
    assert patched.body["status"]["phase"] == "Succeeded"


async def follow(jobs: MigrationJobs) -> None:
    async for _ in jobs.requests():
        pass


async def test_a_drain_cordons_its_node_once_the_api_server_answers(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_status, "PAUSE_S", 0.05)
    path, fake_server = f"/api/v1/nodes/{NODE}", FakeServer()
    fake_server.set_answers(
        "GET", path, UNAVAILABLE, Answer(body={"metadata": {"uid": "n"}, "spec": {}})
    )
    fake_server.set_answers("PATCH", path, Answer())
    async with fake_server.serve() as client:
        jobs = MigrationJobs(client, CLUSTER)

        async def work(term: LeaderTerm) -> None:
            await follow_status(CLUSTER, jobs, client, term)

        of_another = drain(NODE, "Undrained").model_copy(update={"cluster": "another"})
        begun = [of_another, drain(NODE, "Draining")]
        assert not produce_messages(connect(broker.settings), STATUS, begun)[1]
        member = Leadership(broker.settings, CLUSTER, "evict", topics=[STATUS])
        running = asyncio.create_task(member.run(work))
        await until(lambda: fake_server.list_requests("PATCH", path))
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    (patched,) = fake_server.list_requests("PATCH", path)
    assert patched.body["spec"] == {"unschedulable": True}
    assert len(fake_server.list_requests("GET", path)) == 2
