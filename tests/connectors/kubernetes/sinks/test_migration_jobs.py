"""PodMigrationJobs that are followed, on a fake server.

`test_sink` has them on a real API server.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from connectors.kubernetes.api import list_watch
from connectors.kubernetes.api.list_watch import Begun, Changed, Deleted, Ended, Event, Present
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks import migration_jobs as module
from connectors.kubernetes.sinks.migration_jobs import COLLECTION, MigrationJobs
from schemas.messages.migrations import MigrationRequest
from tests.connectors.kubernetes.sinks.builders import GONE, NODE, POD_PATH, pod
from tests.connectors.kubernetes.sinks.fake_server import (
    LOST,
    UNAVAILABLE,
    Answer,
    FakeServer,
    failure,
)
from tests.connectors.kubernetes.sinks.test_migration_job import job_object, status
from tests.connectors.ports.sink_contract import CLUSTER

JOB = f"{COLLECTION}/move-web"
JOB_STATUS = f"{JOB}/status"


@pytest.fixture
def jobs(fake_server: FakeServer, client: ApiServer) -> MigrationJobs:
    fake_server.set_answers("GET", POD_PATH, pod(NODE))
    fake_server.set_answers("PATCH", JOB, Answer())
    fake_server.set_answers("PATCH", JOB_STATUS, Answer())
    jobs = MigrationJobs(client, CLUSTER)
    jobs._list_done.set()
    return jobs


async def handle(jobs: MigrationJobs, *events: Event) -> list[tuple[str, str]]:
    """Return actions and ids of the requests for these events."""
    requests = [request for event in events for request in await jobs._handle_event(event)]
    return [(request.action, request.request_id) for request in requests]


def edit(job: dict[str, Any], phase: str = "", generation: int = 1, **spec: Any) -> Any:
    more = {**job, "metadata": {**job["metadata"], "generation": generation}}
    return {**more, "spec": {**job["spec"], **spec}, "status": {"phase": phase}}


@asynccontextmanager
async def _follow(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> AsyncIterator[tuple[MigrationJobs, AsyncGenerator[MigrationRequest, None]]]:
    """Follow the jobs of a server with these answers."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, FakeServer().serve() as client:
        configuration = await client.access.configuration()
        configuration.host = f"http://{server.host}:{server.port}"
        jobs = MigrationJobs(client, CLUSTER)
        async with aclosing(jobs.requests()) as requests:
            yield jobs, requests


MIGRATE = ("migrate", "pmj-job-move-web")


async def test_a_job_is_requested_once(jobs: MigrationJobs) -> None:
    job = job_object()
    assert await handle(jobs, Begun(), Present(job), Ended(), Changed(job)) == [MIGRATE]
    assert await handle(jobs, Begun(), Present(job), Ended()) == []


async def test_the_uid_of_the_pod_is_kept_in_the_job(
    fake_server: FakeServer, jobs: MigrationJobs
) -> None:
    await handle(jobs, Changed(job_object()))
    (patched,) = fake_server.list_requests("PATCH")
    assert (patched.path, patched.body["spec"]) == (JOB, {"podRef": {"uid": "uid-1"}})


async def test_a_job_is_paused_resumed_and_aborted(jobs: MigrationJobs) -> None:
    job = job_object()
    events = (
        Changed(job),
        Changed(edit(job, "Running", 2, paused=True)),
        Changed(edit(job, "Running", 2, paused=True)),
        Changed(edit(job, "Running", 3, paused=False)),
        Deleted(edit(job, "Running", 3)),
    )
    assert await handle(jobs, *events) == [
        MIGRATE,
        ("pause", "pmj-job-move-web-pause-2"),
        ("resume", "pmj-job-move-web-resume-3"),
        ("abort", "pmj-job-move-web-abort-3"),
    ]


async def test_a_job_created_paused_starts_when_resumed(
    jobs: MigrationJobs,
) -> None:
    job = job_object(paused=True)
    assert await handle(jobs, Present(job)) == []
    assert await handle(jobs, Changed(edit(job, "", 2, paused=False))) == [MIGRATE]


async def test_a_job_missing_from_a_later_list_is_aborted(jobs: MigrationJobs) -> None:
    await handle(jobs, Begun(), Present(job_object()), Ended())
    assert await handle(jobs, Begun(), Ended()) == [("abort", "pmj-job-move-web-abort-1")]


async def test_a_requested_job_is_only_followed_after_a_restart(
    fake_server: FakeServer, jobs: MigrationJobs
) -> None:
    fake_server.set_answers("GET", POD_PATH, GONE)
    job = edit(job_object(), "Running", podRef={**pod_ref(), "uid": "uid-1"})
    assert await handle(jobs, Begun(), Present(job), Ended()) == []
    assert await jobs.report(status(phase="Succeeded"))
    assert fake_server.list_requests("PATCH", JOB_STATUS)[0].body["status"]["phase"] == "Succeeded"


def pod_ref() -> dict[str, str]:
    return {"namespace": "shop", "name": "web-1"}


@pytest.mark.parametrize(
    ("spec", "seen", "reason", "message"),
    [
        ({}, GONE, "MissingPod", "there is no pod shop/web-1"),
        (
            {"podRef": {**pod_ref(), "uid": "uid-2"}}, pod(NODE), "MissingPod",
            "there is no pod shop/web-1 of uid uid-2",
        ),
        ({"podRef": {}}, GONE, "ForbiddenMigratePod", "spec.podRef needs a namespace and a name"),
        ({"ttl": "x"}, pod(NODE), "ForbiddenMigratePod", "'x' is not a duration"),
        (
            {"podRef": {"namespace": "..", "name": "web-1"}}, GONE, "ForbiddenMigratePod",
            "'..' is not a name of a namespace or pod",
        ),
        ({}, failure(403, "Forbidden", "no rights"), "ForbiddenMigratePod", "no rights"),
    ],
)  # fmt: skip
async def test_a_job_that_cannot_be_requested_has_failed(
    fake_server: FakeServer,
    jobs: MigrationJobs,
    spec: dict[str, Any],
    seen: Answer,
    reason: str,
    message: str,
) -> None:
    fake_server.set_answers("GET", POD_PATH, seen)
    assert await handle(jobs, Present(job_object(**spec))) == []
    (patched,) = fake_server.list_requests("PATCH", JOB_STATUS)
    assert (patched.body["status"]["phase"], patched.body["status"]["reason"]) == ("Failed", reason)
    assert message in patched.body["status"]["message"]
    assert patched.body["metadata"] == {"uid": "job-move-web"}


async def test_reports_go_to_the_job_of_their_pod(
    fake_server: FakeServer, jobs: MigrationJobs
) -> None:
    assert not await jobs.report(status())
    await handle(jobs, Present(job_object()))
    assert not await jobs.report(status(cluster="another"))
    assert await jobs.report(status())
    assert await jobs.report(status(phase="Succeeded", reason="EvictComplete"))
    assert not await jobs.report(status(phase="Succeeded")), "it is over"
    phases = [
        call.body["status"]["phase"] for call in fake_server.list_requests("PATCH", JOB_STATUS)
    ]
    assert phases == ["Running", "Succeeded"]


async def test_a_refused_request_fails_its_job_unless_it_is_running(
    fake_server: FakeServer, jobs: MigrationJobs
) -> None:
    assert not await jobs.report_refusal("pmj-of-another", "no")
    assert not await jobs.report_refusal("somebody-elses", "no")
    await handle(jobs, Present(job_object()))
    await jobs.report(status())
    assert not await jobs.report_refusal("pmj-job-move-web", "it is under way")
    await handle(jobs, Deleted(job_object()), Present(job_object()))
    assert await jobs.report_refusal("pmj-job-move-web", "the pod is protected")
    failed = fake_server.list_requests("PATCH", JOB_STATUS)[-1].body["status"]
    assert (failed["phase"], failed["message"]) == ("Failed", "the pod is protected")


async def test_a_status_is_retried_after_a_failure_unless_the_job_is_deleted(
    fake_server: FakeServer, jobs: MigrationJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    await handle(jobs, Present(job_object()))
    fake_server.set_answers("PATCH", JOB_STATUS, LOST, UNAVAILABLE, Answer())
    assert await jobs.report(status())
    fake_server.set_answers("PATCH", JOB_STATUS, failure(404, "NotFound", "gone"))
    before = len(fake_server.list_requests("PATCH", JOB_STATUS))
    assert not await jobs.report(status())
    assert len(fake_server.list_requests("PATCH", JOB_STATUS)) == before + 1


async def test_jobs_beyond_the_limit_are_ignored(
    jobs: MigrationJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JOBS_MAX", 1)
    assert await handle(jobs, Present(job_object()), Present(job_object("other"))) == [MIGRATE]


async def test_a_missing_crd_is_no_error_and_is_checked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(list_watch, "PAUSE_FIRST_S", 0.01)
    looks = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal looks
        if request.path == COLLECTION and "watch" not in request.query:
            looks += 1
            if looks < 3:
                return web.Response(status=404, body=b"404 page not found")
            items = {"metadata": {"resourceVersion": "1"}, "items": [job_object()]}
            return web.Response(body=orjson.dumps(items))
        return web.Response(body=orjson.dumps(pod(NODE).body))

    async with _follow(answer) as (_, requests):
        request = await asyncio.wait_for(anext(requests), 60)
    assert (request.action, looks) == ("migrate", 3)
    assert [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")] == []


async def test_jobs_are_found_once_readable_and_do_not_block_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_watch, "PAUSE_FIRST_S", 0.01)
    allowed = False

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == COLLECTION and not allowed:
            return web.Response(status=403, body=b'{"kind": "Status", "message": "no rights"}')
        if request.path == COLLECTION and "watch" not in request.query:
            items = {"metadata": {"resourceVersion": "1"}, "items": [job_object()]}
            return web.Response(body=orjson.dumps(items))
        status_code = 500 if request.path == COLLECTION else 200
        return web.Response(status=status_code, body=orjson.dumps(pod(NODE).body))

    async with _follow(answer) as (jobs, requests):
        first = asyncio.create_task(anext(requests))
        async with asyncio.timeout(60):
            await jobs.wait_until_listed()
            assert not await jobs.report(status())
            allowed = True
            assert (await first).action == "migrate"
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await anext(requests)
