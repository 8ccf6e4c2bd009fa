"""Koordinator's PodMigrationJob: users ask for migrations with kubectl, and read there what came.

    created                       ──▶ request to migrate its pod
    spec.paused set, unset        ──▶ request to pause, to resume
    deleted while it is under way ──▶ request to abort
    status                        ──▶ status of the job: phase, reason, message, conditions

A job and a migration belong together by the uid of the pod. A job names its pod by name; the uid is
looked up when the job is seen first, and kept in it; a pod that is not there makes it fail. A job
whose status has a phase was taken before a restart, and is followed, not requested again. A
finished job is left alone: it is kept until it is deleted.

Not applied: `reservationOptions` and `deleteOptions`, and what a label or an annotation of the job
says of the eviction; the status names them. Where the resource is not installed nothing is missing:
it is looked for again every `LOOK_AGAIN_S`. Where jobs may not be read they are asked for again as
`ListWatch` does.

Not guaranteed: one request for each job. A process that ends before the first status of a migration
has come requests it again; the worker refuses that, since the migration is under way. And what is
done to a job while no process follows it: one that is paused then is paused later, one that is
deleted or goes on then is not noticed.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.list_watch import Absent, Begun, Deleted, Ended, Event, ListWatch
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.migration_job import (
    Job,
    read_job,
    request_of,
    status_of,
    with_not_applied,
)
from connectors.kubernetes.sinks.pods import look
from connectors.kubernetes.sinks.throttle import Throttle
from schemas.messages.migrations import LIVE, MigrationRequest, MigrationStatus
from schemas.messages.pods import PodRef

logger = logging.getLogger(__name__)

GROUP = "/apis/scheduling.koordinator.sh/v1alpha1"
COLLECTION = f"{GROUP}/podmigrationjobs"
#: Where it is not installed, it is looked for again after this time, in seconds.
LOOK_AGAIN_S = 60.0
#: Where the server does not say whether it is, after this time, in seconds.
UNANSWERED_S = 2.0
#: Jobs under way at most: more are left as they are until they change or are all listed again.
JOBS_MAX = 10_000
#: Time for which a report waits for the first list of jobs, in seconds.
LIST_S = 5.0
#: Attempts to write to a job: with their time limits less than a turn has for its end.
WRITES_MAX = 4
#: Pause between these, in seconds, the first; each is twice as long as the one before.
PAUSE_S = 0.25
#: Time that a write may take, in seconds.
WRITE_S = 10.0


class MigrationJobs:
    """The PodMigrationJobs of one cluster."""

    def __init__(self, server: ApiServer, cluster: str, throttle: Throttle | None = None) -> None:
        """`throttle`: that of a sink of the same process."""
        self.installed = False
        """The resource is there, as far as is known."""
        self.left = 0
        """Jobs for which there was no room."""
        self._server = throttle or Throttle(server)
        self._watch = ListWatch(server, COLLECTION)
        self._cluster = cluster
        self._jobs: dict[str, tuple[Job, PodRef]] = {}
        """Jobs under way with their pods, by their own uid."""
        self._listed: set[str] = set()
        self._known = asyncio.Event()
        """All jobs were listed, or there are none."""

    async def requests(self) -> AsyncGenerator[MigrationRequest, None]:
        """Requests of users, for ever; close it (`contextlib.aclosing`) when it is left."""
        while not (there := await self._there()):
            if there is None:
                await asyncio.sleep(UNANSWERED_S)
                continue
            self._known.set()
            await asyncio.sleep(LOOK_AGAIN_S)
        self._known.clear()
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                for request in await self._requests(event):
                    yield request

    async def listed(self) -> None:
        """Wait until all jobs are known, or that there are none: a report before may find no job."""
        await self._known.wait()

    async def report(self, status: MigrationStatus) -> bool:
        """Write a migration's status to its job; False: there is none, or it was not written."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LIST_S):
                await self._known.wait()
        jobs = self._jobs.values()
        job = next((job for job, pod in jobs if pod.uid == status.pod.uid), None)
        if job is None or status.cluster != self._cluster:
            return False
        if status.phase in LIVE:
            self._jobs[job.uid] = (replace(job, phase=status.phase), self._jobs[job.uid][1])
        else:
            del self._jobs[job.uid]
        return await self._write(job, {"status": status_of(status, job)}, "/status")

    async def refused(self, request_id: str, why: str) -> bool:
        """A request was refused: its job has failed.

        False: it is no job's request, or one that was sent twice and is under way.
        """
        job, _ = self._jobs.get(request_id.removeprefix("pmj-"), (None, None))
        if job is None or job.phase:
            return False
        del self._jobs[job.uid]
        return await self._fail(job, "ForbiddenMigratePod", why)

    async def _there(self) -> bool | None:
        """Whether it is installed, as far as may be read; none: the server does not say."""
        try:
            response = await self._server.send("GET", GROUP)
            names = response.json().get("resources") or () if response.ok else ()
        except (ApiError, ApiUnreachable, AccessError) as error:
            logger.info("%s", error)
            return None
        if response.status in (401, 429) or response.status >= 500:
            logger.info("%s: %s", GROUP, response.error())
            return None
        self.installed = any(each.get("name") == "podmigrationjobs" for each in names)
        return self.installed

    async def _requests(self, event: Event) -> list[MigrationRequest]:
        """What an event means."""
        if isinstance(event, Begun):
            self._listed = set()
            return []
        if isinstance(event, Ended):
            self.installed = True
            self._known.set()
            left = [uid for uid in self._jobs if uid not in self._listed]
            return [self._deleted(uid) for uid in left]
        if isinstance(event, Absent):
            self.installed = False
            self._known.set()  # no report waits for what may not be read
            return []
        job = read_job(event.object)
        self._listed.add(job.uid)
        if isinstance(event, Deleted):
            return [self._deleted(job.uid)] if job.uid in self._jobs else []
        known = self._jobs.get(job.uid)
        if job.over:
            self._jobs.pop(job.uid, None)
            return []
        return await self._new(job) if known is None else self._changed(job, *known)

    async def _new(self, job: Job) -> list[MigrationRequest]:
        if job.paused and not job.phase:
            return []  # it begins when that is taken back
        if len(self._jobs) >= JOBS_MAX:
            self.left += 1
            logger.warning("%s %s: %d jobs are under way already", COLLECTION, job.name, JOBS_MAX)
            return []
        try:
            pod = await self._pod(job)
            request = request_of(job, self._cluster, pod) if pod is not None else None
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
        if not job.pod_uid:  # after a restart the pod may be gone, and another one have its name
            await self._write(job, {"spec": {"podRef": {"uid": pod.uid}}})
        if job.phase:  # it may have been paused while it was not followed
            return [self._later(job, pod, "pause")] if job.paused else []
        return [request]

    async def _pod(self, job: Job) -> PodRef | None:
        """The pod that a job names; of a job that was taken before, also one that is gone."""
        if not (job.namespace and job.pod):
            raise ValueError("spec.podRef needs a namespace and a name")
        if job.phase and job.pod_uid:
            return PodRef(namespace=job.namespace, name=job.pod, uid=job.pod_uid)
        asked = PodRef(namespace=job.namespace, name=job.pod, uid=job.pod_uid or "-")
        pause_s = PAUSE_S
        while True:
            try:
                seen = await look(self._server, asked)
                break
            except (ApiUnreachable, AccessError) as error:
                logger.info("pod of PodMigrationJob %s: %s", job.name, error)
            except ApiError as error:
                if error.status < 500 and error.status != 429:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_AGAIN_S)
        if seen is None or job.pod_uid not in ("", seen.uid):
            return None
        return asked.model_copy(update={"uid": seen.uid})

    def _changed(self, job: Job, before: Job, pod: PodRef) -> list[MigrationRequest]:
        self._jobs[job.uid] = (job, pod)
        if job.paused == before.paused:
            return []
        return [self._later(job, pod, "pause" if job.paused else "resume")]

    def _deleted(self, uid: str) -> MigrationRequest:
        job, pod = self._jobs.pop(uid)
        return self._later(job, pod, "abort")

    def _later(self, job: Job, pod: PodRef, action: str) -> MigrationRequest:
        """A request about a migration that is under way."""
        reason = "was deleted" if action == "abort" else f"spec.paused is {job.paused}"
        return MigrationRequest.model_validate({
            "request_id": f"pmj-{job.uid}-{action}-{job.generation}", "cluster": self._cluster,
            "action": action, "pod": pod, "reason": f"PodMigrationJob {job.name}: {reason}",
            "requested_at_ms": job.created_at_ms,
        })  # fmt: skip

    async def _fail(self, job: Job, reason: str, why: str) -> bool:
        status = {"phase": "Failed", "reason": reason, "message": with_not_applied(why, job)}
        return await self._write(job, {"status": status}, "/status")

    async def _write(self, job: Job, change: dict[str, Any], part: str = "") -> bool:
        """Merge a change into a job, some times if need be; False: it was not written."""
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
                if response.status < 500 and response.status != 429:  # gone, or another one
                    break
            await asyncio.sleep(PAUSE_S * 2**attempt)
        logger.warning("PodMigrationJob %s was not written: %s", job.name, why)
        return False
