"""Koordinator's PodMigrationJob: users request migrations with kubectl, and read the results there.

    created                       ──▶ request to migrate its pod
    spec.paused set, unset        ──▶ requests to pause and to resume
    deleted while active          ──▶ request to abort
    status of the migration       ──▶ status of the job: phase, reason, message, conditions

The pod's uid relates jobs to migrations. A job may have only the name of its pod; the uid is looked up
for a new job and written into it. If there is no such pod, the job fails. A job with a phase was started
before a restart; it is followed and not requested again. A finished job is not changed.

`reservationOptions`, `deleteOptions`, and labels and annotations of the job about the eviction have no
effect, and the job's status names them. If jobs cannot be read or are not installed, `ListWatch` tries again.

A job may be requested twice if the process ends before the first status of its migration; the worker
refuses the second request. Changes while no process follows the job may be missed: a pause takes effect
later, but a deletion or a resumption is lost.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.list_watch import (
    PAUSE_MAX_S,
    Absent,
    Begun,
    Deleted,
    Ended,
    Event,
    ListWatch,
)
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.migration_job import (
    Job,
    add_not_applied,
    build_request,
    build_status,
    read_job,
)
from connectors.kubernetes.sinks.pods import read_pod
from schemas.messages.migrations import LIVE, MigrationRequest, MigrationStatus
from schemas.messages.pods import PodRef

logger = logging.getLogger(__name__)

GROUP = "/apis/scheduling.koordinator.sh/v1alpha1"
COLLECTION = f"{GROUP}/podmigrationjobs"
#: Most active jobs; further jobs are ignored until they change or are listed again.
JOBS_MAX = 10_000
#: Most attempts to write to a job; with their timeouts they take less than `END_S` of a term.
WRITES_MAX = 4
#: First pause between two attempts, in seconds; each is twice as long as the previous one.
PAUSE_S = 0.25
#: Timeout of a write, in seconds.
WRITE_S = 10.0


class MigrationJobs:
    """The PodMigrationJobs of one cluster."""

    def __init__(self, server: ApiServer, cluster: str) -> None:
        self._server = server
        self._watch = ListWatch(server, COLLECTION)
        self._cluster = cluster
        self._jobs: dict[str, tuple[Job, PodRef]] = {}
        """Active jobs with their pods, by the job's uid."""
        self._listed: set[str] = set()
        self._list_done = asyncio.Event()
        """Set when all jobs were listed, or cannot be listed."""

    async def requests(self) -> AsyncGenerator[MigrationRequest, None]:
        """Yield users' requests forever; close the generator (`contextlib.aclosing`)."""
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                for request in await self._handle_event(event):
                    yield request

    async def wait_until_listed(self) -> None:
        """Wait until all jobs are listed, so that reports find their jobs."""
        await self._list_done.wait()

    async def report(self, status: MigrationStatus) -> bool:
        """Write a migration's status to its job; False: there is no job, or the write failed."""
        jobs = self._jobs.values()
        job = next((job for job, pod in jobs if pod.uid == status.pod.uid), None)
        if job is None or status.cluster != self._cluster:
            return False
        if status.phase in LIVE:
            self._jobs[job.uid] = (replace(job, phase=status.phase), self._jobs[job.uid][1])
        else:
            del self._jobs[job.uid]
        return await self._write(job, {"status": build_status(status, job)}, "/status")

    async def report_refusal(self, request_id: str, why: str) -> bool:
        """Mark the job of a refused request as failed.

        False: the request has no job, or its job is already active.
        """
        job, _ = self._jobs.get(request_id.removeprefix("pmj-"), (None, None))
        if job is None or job.phase:
            return False
        del self._jobs[job.uid]
        return await self._fail(job, "ForbiddenMigratePod", why)

    async def _handle_event(self, event: Event) -> list[MigrationRequest]:
        if isinstance(event, Begun):
            self._listed = set()
            return []
        if isinstance(event, Ended):
            self._list_done.set()
            deleted = [uid for uid in self._jobs if uid not in self._listed]
            return [self._abort(uid) for uid in deleted]
        if isinstance(event, Absent):
            self._list_done.set()  # reports do not wait for jobs that cannot be read
            return []
        job = read_job(event.object)
        self._listed.add(job.uid)
        if isinstance(event, Deleted):
            return [self._abort(job.uid)] if job.uid in self._jobs else []
        previous = self._jobs.get(job.uid)
        if job.has_finished:
            self._jobs.pop(job.uid, None)
            return []
        return await self._add_job(job) if previous is None else self._update_job(job, *previous)

    async def _add_job(self, job: Job) -> list[MigrationRequest]:
        if job.paused and not job.phase:
            return []  # the job starts when it is resumed
        if len(self._jobs) >= JOBS_MAX:
            logger.warning("PodMigrationJob %s is ignored: %d jobs are active", job.name, JOBS_MAX)
            return []
        try:
            pod = await self._find_pod(job)
            request = build_request(job, self._cluster, pod) if pod is not None else None
        except (ApiError, ValueError) as error:
            await self._fail(job, "ForbiddenMigratePod", str(error))
            return []
        if pod is None or request is None:
            if not job.phase:
                uid = f" of uid {job.pod_uid}" if job.pod_uid else ""
                why = f"there is no pod {job.namespace}/{job.pod}{uid}"
                await self._fail(job, "MissingPod", why)
            return []
        self._jobs[job.uid] = (job, pod)
        if not job.pod_uid:  # after a restart, another pod may have its name
            await self._write(job, {"spec": {"podRef": {"uid": pod.uid}}})
        if job.phase:  # it may have been paused while no process followed it
            return [self._build_control(job, pod, "pause")] if job.paused else []
        return [request]

    async def _find_pod(self, job: Job) -> PodRef | None:
        """Return the pod of a job (None: there is none); the pod of a started job may be gone."""
        if not (job.namespace and job.pod):
            raise ValueError("spec.podRef needs a namespace and a name")
        if job.phase and job.pod_uid:
            return PodRef(namespace=job.namespace, name=job.pod, uid=job.pod_uid)
        pod = PodRef(namespace=job.namespace, name=job.pod, uid=job.pod_uid or "-")
        pause_s = PAUSE_S
        while True:
            try:
                live = await read_pod(self._server, pod)
                break
            except (ApiUnreachable, AccessError) as error:
                logger.info("pod of PodMigrationJob %s: %s", job.name, error)
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
        if live is None or job.pod_uid not in ("", live.uid):
            return None
        return pod.model_copy(update={"uid": live.uid})

    def _update_job(self, job: Job, previous: Job, pod: PodRef) -> list[MigrationRequest]:
        self._jobs[job.uid] = (job, pod)
        if job.paused == previous.paused:
            return []
        return [self._build_control(job, pod, "pause" if job.paused else "resume")]

    def _abort(self, uid: str) -> MigrationRequest:
        job, pod = self._jobs.pop(uid)
        return self._build_control(job, pod, "abort")

    def _build_control(self, job: Job, pod: PodRef, action: str) -> MigrationRequest:
        """Return a request about an active migration."""
        reason = "was deleted" if action == "abort" else f"spec.paused is {job.paused}"
        return MigrationRequest.model_validate({
            "request_id": f"pmj-{job.uid}-{action}-{job.generation}", "cluster": self._cluster,
            "action": action, "pod": pod, "reason": f"PodMigrationJob {job.name}: {reason}",
            "requested_at_ms": job.created_at_ms,
        })  # fmt: skip

    async def _fail(self, job: Job, reason: str, why: str) -> bool:
        status = {"phase": "Failed", "reason": reason, "message": add_not_applied(why, job)}
        return await self._write(job, {"status": status}, "/status")

    async def _write(self, job: Job, change: dict[str, Any], part: str = "") -> bool:
        """Patch a job, with several attempts; False: all failed."""
        body = {"metadata": {"uid": job.uid}, **change}
        why = ""
        for attempt in range(WRITES_MAX):
            try:
                response = await self._server.send(
                    "PATCH", f"{COLLECTION}/{job.name}{part}", body=body,
                    content_type="application/merge-patch+json", timeout_s=WRITE_S,
                )  # fmt: skip
            except (ApiUnreachable, AccessError) as error:
                why = str(error)
            else:
                if response.ok:
                    return True
                why = str(response.error())
                if response.status < 500 and response.status != 429:  # deleted or replaced
                    break
            await asyncio.sleep(PAUSE_S * 2**attempt)
        logger.warning("writing PodMigrationJob %s failed: %s", job.name, why)
        return False
