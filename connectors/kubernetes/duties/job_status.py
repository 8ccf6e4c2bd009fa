"""Write statuses of migrations and refusals to PodMigrationJobs, and drains to nodes.

A request that the worker refuses has no migration, only a dead letter. Dead letters are followed from
the beginning of the term, because each term repeats requests of jobs without a status. A status waits until
all jobs are listed. A failed write of a status is not repeated here, because the next status of the
migration replaces it. A cordon is repeated until the API server answers. Records of other clusters are
ignored.
"""

import asyncio
import logging
from contextlib import suppress

from connectors.kafka.partition_records import find_end, follow_partition
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks.cordons import apply_drain
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from connectors.queries.migration_answers import REQUESTS, parse_refused_request
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

logger = logging.getLogger(__name__)

STATUS = "status"
LETTERS = "dead-letters"
#: Pauses after a failed cordon, in seconds; each is twice as long as the previous one.
PAUSE_S, PAUSE_MAX_S = 1.0, 20.0


async def follow_status(
    cluster: str, jobs: MigrationJobs, cordon_with: ApiServer | None, term: LeaderTerm
) -> None:
    """Follow topic `status` until the term is over.

    `cordon_with` is the API server of drained nodes; None: nodes are not changed.
    """
    async for record in term.records(STATUS):
        status = decode(STATUS, record.value)
        is_ours = getattr(status, "cluster", None) == cluster
        if is_ours and isinstance(status, MigrationStatus):
            await term.run_during(jobs.wait_until_listed())
            try:
                async with term.writing():
                    await jobs.report(status)
            except TermOver:
                return
        elif is_ours and isinstance(status, DrainStatus) and cordon_with is not None:
            await term.run_during(_cordon(cordon_with, status, term))
            if term.over.is_set():
                return
        term.mark_done(STATUS, record.offset + 1)


async def _cordon(server: ApiServer, status: DrainStatus, term: LeaderTerm) -> None:
    pause_s = PAUSE_S
    while True:
        try:
            async with term.writing():
                return await apply_drain(server, status)
        except TermOver:
            return None
        except (ApiError, ApiUnreachable, AccessError) as error:
            logger.warning("cordoning node %s failed, trying again: %s", status.node, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


class JobRefusals:
    """Follows topic `dead-letters` during one term."""

    def __init__(self, kafka: KafkaSettings, cluster: str, jobs: MigrationJobs) -> None:
        self._kafka = kafka
        self._cluster = cluster
        self._jobs = jobs
        self._partition = partition_for(REQUESTS.encode(), kafka.partitions)
        """All dead letters of one source topic are in one partition."""
        self._from = 0

    async def begin(self) -> None:
        """Start at the current end; raises aiokafka's KafkaError."""
        self._from = await find_end(self._kafka, LETTERS, self._partition)

    async def __call__(self, term: LeaderTerm) -> None:
        """Report refusals until the term is over; raises aiokafka's KafkaError."""
        await term.run_during(self._follow(term))

    async def _follow(self, term: LeaderTerm) -> None:
        with suppress(TermOver):
            async for record in follow_partition(self._kafka, LETTERS, self._partition, self._from):
                letter = decode(LETTERS, record.value)
                request = parse_refused_request(letter) if isinstance(letter, DeadLetter) else None
                if request is not None and request[0] == self._cluster:
                    async with term.writing():
                        await self._jobs.report_refusal(request[1], letter.reason)
