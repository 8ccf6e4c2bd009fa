"""The newest state of a cluster's migrations and drains, from the end of topic `status`."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.queries.wording import sentence
from connectors.units import ago_text, duration_text, time_text
from schemas.messages.migrations import LIVE, DrainStatus, MigrationStatus

#: Records of the cluster's partition that are read, newest first.
RECORDS_MAX = 50_000
#: The longest life of a migration: seven days, and one day paused (docs/explanation/migrations.md).
LIFE_MAX_MS = 8 * 86_400_000

Status = MigrationStatus | DrainStatus


@dataclass(slots=True)
class MigrationStates:
    """The newest record of each migration and of each drain."""

    back_ms: int
    progress: SearchProgress
    migrations: dict[str, MigrationStatus] = field(default_factory=dict)
    """By id, newest first."""
    drains: dict[str, DrainStatus] = field(default_factory=dict)
    """By node, newest first."""

    def forget_ended(self, before_ms: int) -> None:
        """Remove migrations and drains that ended before a time."""

        def is_shown(status: Status) -> bool:
            return _is_unfinished(status) or status.happened_at_ms >= before_ms

        self.migrations = {key: move for key, move in self.migrations.items() if is_shown(move)}
        self.drains = {node: drain for node, drain in self.drains.items() if is_shown(drain)}

    def list_statuses(self, *, everything: bool) -> list[Status]:
        """Return unfinished migrations and drains and failed requests, or all; oldest change first."""
        statuses: list[Status] = [*self.migrations.values(), *self.drains.values()]
        chosen = [
            status
            for status in statuses
            if everything or _is_unfinished(status) or _is_failed_request(status)
        ]
        return sorted(chosen, key=lambda status: status.happened_at_ms)

    def find_live(self, namespace: str, name: str) -> MigrationStatus | None:
        """Return the unfinished migration of a pod, if any."""
        live = (status for status in self.migrations.values() if status.phase in LIVE)
        return next((m for m in live if (m.pod.namespace, m.pod.name) == (namespace, name)), None)

    @property
    def is_complete(self) -> bool:
        """Whether no limit was reached, so that all unfinished migrations are here."""
        return self.progress.records < RECORDS_MAX

    @property
    def cut_off(self) -> str:
        return f"only the newest {self.progress.records} records were read"

    def is_undrained(self, node: str) -> bool:
        """Tell whether the newest drain of a node has ended."""
        return node in self.drains and not _is_unfinished(self.drains[node])

    def find_obstacle(self, migration: MigrationStatus | None, action: str) -> str | None:
        """Return why a migration cannot be paused, resumed or aborted; None: it may be possible."""
        if migration is None:
            return "none is in progress" if self.is_complete else None
        if migration.phase not in LIVE:
            return f"it has ended, {migration.phase}"
        if action == "pause" and migration.paused:
            return "it is already paused"
        if action == "resume" and not migration.paused:
            return "it is not paused"
        return None

    def format_line(self, status: Status, now_ms: int) -> str:
        ago_ms = now_ms - status.happened_at_ms
        ago = f" ({ago_text(ago_ms)} ago)" if ago_ms >= 0 else ""
        return f"{time_text(status.happened_at_ms)}{ago}  {sentence(status)}"

    def summarize(self) -> str:
        """Return the numbers of migrations by phase, and of drained nodes."""
        migrations = self.migrations.values()
        phases = Counter(migration.phase for migration in migrations)
        live = sum(phases[phase] for phase in LIVE)
        paused = sum(migration.paused and migration.phase in LIVE for migration in migrations)
        ended = ", ".join(f"{phases[name]} {name}" for name in sorted(phases) if name not in LIVE)
        parts = [f"{live} under way{f' ({paused} paused)' if paused else ''}"]
        parts.append(f"ended within {duration_text(self.back_ms)}: {ended or 'none'}")
        draining = sum(_is_unfinished(node) and not node.dry_run for node in self.drains.values())
        if draining:
            parts.append(
                f"{draining} {'node takes' if draining == 1 else 'nodes take'} no new pods"
            )
        if not self.is_complete:
            parts.append(self.cut_off)
        return "; ".join(parts)


def read_states(connection: Connection, cluster: str, back_ms: int) -> MigrationStates:
    """Return unfinished migrations and drains, and those that ended at most `back_ms` ago.

    Time is counted from the newest record. Raises BrokerUnavailable.
    """
    progress = SearchProgress()
    past = PastMessages(connection, "status", cluster, RECORDS_MAX)
    return collect_states(past.newest(progress), progress, back_ms)


def collect_states(
    messages: Iterable[Any], progress: SearchProgress, back_ms: int
) -> MigrationStates:
    """See `read_states`. Messages of `status` are newest first."""
    states = MigrationStates(back_ms, progress)
    newest_ms: int | None = None
    for message in messages:
        if not isinstance(message, Status):
            continue
        if newest_ms is None:
            newest_ms = message.happened_at_ms
        # The newest status of a pod that waits for a window, or of a drained node, may be days old.
        if message.happened_at_ms < newest_ms - max(back_ms, LIFE_MAX_MS):
            break
        if isinstance(message, DrainStatus):
            states.drains.setdefault(message.node, message)
        else:
            states.migrations.setdefault(message.migration_id, message)
    states.forget_ended((newest_ms or 0) - back_ms)
    return states


def _is_failed_request(status: Status) -> bool:
    is_request = isinstance(status, MigrationStatus) and status.trigger == "request"
    return is_request and status.phase == "Failed"


def _is_unfinished(status: Status) -> bool:
    if isinstance(status, DrainStatus):
        # A dry drain ends when it has reported what it would do.
        return status.phase == "Draining" if status.dry_run else status.phase != "Undrained"
    return status.phase in LIVE
