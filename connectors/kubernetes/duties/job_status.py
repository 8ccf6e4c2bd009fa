"""Carries statuses of migrations to PodMigrationJobs and drains to nodes, and refusals to jobs.

A request that the worker refuses has no migration; the record of it is in `dead-letters`, which are
followed from the beginning of the term: a job without a status is requested again in each term. A
status waits until the jobs are known: one that has no job then has none. A status that could not be
written is not tried again here beyond what `MigrationJobs` tries: the next one of the same
migration says more. A cordon is tried until the API server answers. Records of other clusters mean
nothing here.
"""

import asyncio
import logging
from contextlib import suppress

from connectors.kafka.recent import end_of, follow
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.sinks.cordons import Cordons
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from connectors.queries.migration_answers import REQUESTS, refused_request
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

logger = logging.getLogger(__name__)

STATUS = "status"
LETTERS = "dead-letters"
#: Pause after a cordon that failed, in seconds; doubled up to the longest.
PAUSE_S, PAUSE_MAX_S = 1.0, 20.0


class JobStatus:
    """Follows topic `status` during one term."""

    def __init__(self, cluster: str, jobs: MigrationJobs, cordons: Cordons | None = None) -> None:
        """`cordons`: None leaves Kubernetes' nodes as they are."""
        self._cluster = cluster
        self._jobs = jobs
        self._cordons = cordons

    async def __call__(self, term: LeaderTerm) -> None:
        """Write statuses until the term is over."""
        async for record in term.records(STATUS):
            status = decode(STATUS, record.value)
            if isinstance(status, MigrationStatus) and status.cluster == self._cluster:
                await term.during(self._jobs.listed())  # until then it is not done
                try:
                    async with term.writing():
                        await self._jobs.report(status)
                except TermOver:
                    return
            elif isinstance(status, DrainStatus) and status.cluster == self._cluster:
                await term.during(self._cordon(status, term))
                if term.over.is_set():
                    return
            term.done(STATUS, record.offset + 1)

    async def _cordon(self, status: DrainStatus, term: LeaderTerm) -> None:
        pause_s = PAUSE_S
        while self._cordons is not None:
            try:
                async with term.writing():
                    await self._cordons.apply(status)
            except TermOver:
                return
            except (ApiError, ApiUnreachable, AccessError) as error:
                logger.warning("the cordon of node %s is tried again: %s", status.node, error)
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


class JobRefusals:
    """Follows topic `dead-letters` during one term."""

    def __init__(self, kafka: KafkaSettings, cluster: str, jobs: MigrationJobs) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._jobs = jobs
        self._partition = partition_for(REQUESTS.encode(), kafka.partitions)
        """Dead letters of one topic are in one partition."""
        self._from = 0

    async def begin(self) -> None:
        """What comes from now on counts; raises aiokafka's KafkaError."""
        self._from = await end_of(self._kafka, LETTERS, self._partition)

    async def __call__(self, term: LeaderTerm) -> None:
        """Report refusals until the term is over; raises aiokafka's KafkaError."""
        await term.during(self._follow(term))

    async def _follow(self, term: LeaderTerm) -> None:
        with suppress(TermOver):
            async for record in follow(self._kafka, LETTERS, self._partition, self._from):
                letter = decode(LETTERS, record.value)
                request = refused_request(letter) if isinstance(letter, DeadLetter) else None
                if request is not None and request[0] == self._cluster:
                    async with term.writing():
                        await self._jobs.refused(request[1], letter.reason)
