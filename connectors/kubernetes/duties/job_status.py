"""Writes the status of migrations to the PodMigrationJobs that asked for them.

A status that could not be written is not tried again here beyond what `MigrationJobs` tries: the
next one of the same migration says more. Records of other clusters and of drains mean nothing here.
"""

from connectors.kafka.turn import Turn, TurnOver
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from schemas.codec import decode
from schemas.migrations import MigrationStatus

STATUS = "migration-status"


class JobStatus:
    """Follows topic `migration-status` during one turn."""

    def __init__(self, cluster: str, jobs: MigrationJobs) -> None:
        self._cluster = cluster
        self._jobs = jobs

    async def __call__(self, turn: Turn) -> None:
        """Write statuses until the turn is over."""
        async for record in turn.records(STATUS):
            status = decode(STATUS, record.value)
            if isinstance(status, MigrationStatus) and status.cluster == self._cluster:
                try:
                    async with turn.writing():
                        await self._jobs.report(status)
                except TurnOver:
                    return
            turn.done(STATUS, record.offset + 1)
