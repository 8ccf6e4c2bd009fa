"""The newest state of a cluster's migrations and drains, from the end of topic `status`."""

from collections import Counter
from dataclasses import dataclass, field

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import Looked, Past
from connectors.queries.wording import sentence
from connectors.units import ago_text, duration_text, time_text
from schemas.messages.migrations import LIVE, DrainStatus, MigrationStatus
from schemas.topics.codec import encode

#: Records of the cluster's partition that are looked at, newest first.
RECORDS_MAX = 50_000
#: The longest life of a migration: seven days under way, a day paused (docs/explanation/migrations.md).
LIFE_MAX_MS = 8 * 86_400_000

Status = MigrationStatus | DrainStatus


@dataclass(slots=True)
class States:
    """The newest record of each migration and of each drain."""

    back_ms: int
    looked: Looked = field(default_factory=Looked)
    migrations: dict[str, MigrationStatus] = field(default_factory=dict)
    """By id, newest first."""
    drains: dict[str, DrainStatus] = field(default_factory=dict)
    """By node, newest first."""

    def forget_ended(self, before_ms: int) -> None:
        """Leave out what ended before a time."""

        def counts(status: Status) -> bool:
            return _goes_on(status) or status.happened_at_ms >= before_ms

        self.migrations = {name: each for name, each in self.migrations.items() if counts(each)}
        self.drains = {name: each for name, each in self.drains.items() if counts(each)}

    def shown(self, *, everything: bool) -> list[Status]:
        """Those under way, or all; the oldest change first."""
        statuses: list[Status] = [*self.migrations.values(), *self.drains.values()]
        chosen = [each for each in statuses if everything or _goes_on(each)]
        return sorted(chosen, key=lambda each: each.happened_at_ms)

    def live_of(self, namespace: str, name: str) -> MigrationStatus | None:
        """The migration of a pod that is under way."""
        for each in self.migrations.values():
            if each.phase in LIVE and (each.pod.namespace, each.pod.name) == (namespace, name):
                return each
        return None

    @property
    def complete(self) -> bool:
        """What is not here is not under way: the search was not cut off."""
        return self.looked.records < RECORDS_MAX

    @property
    def cut_off(self) -> str:
        """How far the search went, where it was cut off."""
        return f"only the newest {self.looked.records} records were looked at"

    def undrained(self, node: str) -> bool:
        """Whether the drain of a node was taken back, as far back as the topic keeps it."""
        return node in self.drains and not _goes_on(self.drains[node])

    def hinders(self, found: MigrationStatus | None, action: str) -> str | None:
        """Why a migration cannot be paused, resumed or aborted; none: it can, or is not known here."""
        if found is None:
            return "none is under way" if self.complete else None
        if found.phase not in LIVE:
            return f"it has ended, {found.phase}"
        if action == "pause" and found.paused:
            return "it is paused already"
        if action == "resume" and not found.paused:
            return "it is not paused"
        return None

    def line(self, status: Status, now_ms: int) -> str:
        """When it changed, how long ago that was, and how it stands."""
        ago_ms = now_ms - status.happened_at_ms
        ago = f" ({ago_text(ago_ms)} ago)" if ago_ms >= 0 else ""
        return f"{time_text(status.happened_at_ms)}{ago}  {sentence(status)}"

    def as_json(self, status: Status) -> str:
        """The record as it was written."""
        return encode(status).decode()

    def summary(self) -> str:
        """How many there are of each kind."""
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


def read_states(connection: Connection, cluster: str, back_ms: int) -> States:
    """The states of a cluster: what goes on, and what has ended at most so long before its newest
    record.

    Raises BrokerUnavailable if the topic does not exist or no broker answers.
    """
    states = States(back_ms)
    newest_ms: int | None = None
    for message in Past(connection, "status", cluster, RECORDS_MAX).newest(states.looked):
        if not isinstance(message, Status):
            continue
        if newest_ms is None:
            newest_ms = message.happened_at_ms
        # What waits for a window, or is drained, may have said so last days ago.
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
        # A dry drain is over when it has said what it would do.
        return status.phase == "Draining" if status.dry_run else status.phase != "Undrained"
    return status.phase in LIVE
