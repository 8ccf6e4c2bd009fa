"""Writes the state of PodMigrationJobs to them: status of migrations, refusals of requests.

A request that the worker refuses has no migration; the record of it is in `dead-letters`, which are
followed from the beginning of the term: a job without a status is requested again in each term. A
status waits until the jobs are known: one that has no job then has none. A status that could not be
written is not tried again here beyond what `MigrationJobs` tries: the next one of the same
migration says more. Records of other clusters and of drains mean nothing here.
"""

from contextlib import suppress

from connectors.kafka.recent import end_of, follow
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from connectors.queries.migration_answers import REQUESTS, refused_request
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.migrations import MigrationStatus
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

STATUS = "status"
LETTERS = "dead-letters"


class JobStatus:
    """Follows topic `status` during one term."""

    def __init__(self, cluster: str, jobs: MigrationJobs) -> None:
        self._cluster = cluster
        self._jobs = jobs

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
            term.done(STATUS, record.offset + 1)


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
