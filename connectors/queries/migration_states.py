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
from schemas.topics.codec import encode

#: Records of the cluster's partition that are read, newest first.
RECORDS_MAX = 50_000
#: The longest life of a migration: seven days, and one day paused (docs/explanation/migrations.md).
LIFE_MAX_MS = 8 * 86_400_000

Status = MigrationStatus | DrainStatus


@dataclass(slots=True)
class MigrationStates:
    """The newest record of each migration and of each drain."""

    back_ms: int
    looked: SearchProgress
    migrations: dict[str, MigrationStatus] = field(default_factory=dict)
    """By id, newest first."""
    drains: dict[str, DrainStatus] = field(default_factory=dict)
    """By node, newest first."""

    def forget_ended(self, before_ms: int) -> None:
        """Remove migrations and drains that ended before a time."""

        def counts(status: Status) -> bool:
            return _goes_on(status) or status.happened_at_ms >= before_ms

        self.migrations = {name: each for name, each in self.migrations.items() if counts(each)}
        self.drains = {name: each for name, each in self.drains.items() if counts(each)}

    def shown(self, *, everything: bool) -> list[Status]:
        """Return the unfinished ones, or all; the oldest change first."""
        statuses: list[Status] = [*self.migrations.values(), *self.drains.values()]
        chosen = [each for each in statuses if everything or _goes_on(each)]
        return sorted(chosen, key=lambda each: each.happened_at_ms)

    def live_of(self, namespace: str, name: str) -> MigrationStatus | None:
        """Return the unfinished migration of a pod, if any."""
        for each in self.migrations.values():
            if each.phase in LIVE and (each.pod.namespace, each.pod.name) == (namespace, name):
                return each
        return None

    @property
    def complete(self) -> bool:
        """Whether all unfinished migrations are here, because no limit was reached."""
        return self.looked.records < RECORDS_MAX

    @property
    def cut_off(self) -> str:
        return f"only the newest {self.looked.records} records were read"

    def undrained(self, node: str) -> bool:
        """Tell whether the newest drain of a node has ended."""
        return node in self.drains and not _goes_on(self.drains[node])

    def hinders(self, found: MigrationStatus | None, action: str) -> str | None:
        """Return why a migration cannot be paused, resumed or aborted; None: it may be possible."""
        if found is None:
            return "none is in progress" if self.complete else None
        if found.phase not in LIVE:
            return f"it has ended, {found.phase}"
        if action == "pause" and found.paused:
            return "it is already paused"
        if action == "resume" and not found.paused:
            return "it is not paused"
        return None

    def line(self, status: Status, now_ms: int) -> str:
        """Return time, age and description of a status."""
        ago_ms = now_ms - status.happened_at_ms
        ago = f" ({ago_text(ago_ms)} ago)" if ago_ms >= 0 else ""
        return f"{time_text(status.happened_at_ms)}{ago}  {sentence(status)}"

    def as_json(self, status: Status) -> str:
        return encode(status).decode()

    def summary(self) -> str:
        """Return the numbers of migrations by phase, and of drained nodes."""
        phases = Counter(each.phase for each in self.migrations.values())
        live = sum(phases[phase] for phase in LIVE)
        paused = sum(each.paused and each.phase in LIVE for each in self.migrations.values())
        ended = ", ".join(f"{phases[name]} {name}" for name in sorted(phases) if name not in LIVE)
        parts = [f"{live} under way{f' ({paused} paused)' if paused else ''}"]
        parts.append(f"ended within {duration_text(self.back_ms)}: {ended or 'none'}")
        draining = sum(_goes_on(each) and not each.dry_run for each in self.drains.values())
        if draining:
            parts.append(
                f"{draining} {'node takes' if draining == 1 else 'nodes take'} no new pods"
            )
        if not self.complete:
            parts.append(self.cut_off)
        return "; ".join(parts)


def read_states(connection: Connection, cluster: str, back_ms: int) -> MigrationStates:
    """Return unfinished migrations and drains, and those that ended in the time before the newest record.

    Raises BrokerUnavailable if the topic does not exist or no broker answers.
    """
    looked = SearchProgress()
    past = PastMessages(connection, "status", cluster, RECORDS_MAX)
    return collect_states(past.newest(looked), looked, back_ms)


def collect_states(
    messages: Iterable[Any], looked: SearchProgress, back_ms: int
) -> MigrationStates:
    """See `read_states`. Messages of `status` are newest first."""
    states = MigrationStates(back_ms, looked)
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


def _goes_on(status: Status) -> bool:
    if isinstance(status, DrainStatus):
        # A dry drain ends when it has reported what it would do.
        return status.phase == "Draining" if status.dry_run else status.phase != "Undrained"
    return status.phase in LIVE
