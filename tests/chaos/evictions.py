"""The verdict on evictions: no pod is evicted twice, and every evicted pod is replaced.

Commands, outcomes and replacements are read from their topics and compared with each other. `judge`
compares them with the journal, and the journal with its inputs. The rules of the stage itself (attempts,
deadlines, one migration per pod) are invariants of the random histories (`tests.histories`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.migrations import MigrationStatus
from schemas.messages.pods import PodLifecycle
from schemas.topics.codec import decode
from tests.chaos.history import History
from tests.chaos.services import REPLACES

_OUTCOMES = "command-outcomes"


@dataclass
class Found:
    """Problems with evictions, and how much was checked."""

    problems: list[list[str]] = field(default_factory=list)
    """One list a rule."""
    figures: Counter[str] = field(default_factory=Counter)


@dataclass
class _Facts:
    """The topics of one partition, without repeated records."""

    commands: list[EvictionCommand] = field(default_factory=list)
    statuses: list[MigrationStatus] = field(default_factory=list)
    outcomes: list[tuple[int, CommandOutcome]] = field(default_factory=list)
    """Offset and what came of an eviction command."""
    deleted: Counter[str] = field(default_factory=Counter)
    """How often the end of a pod was reported, by uid."""
    replacements: dict[str, str] = field(default_factory=dict)
    """uids of pods that asked for a node in place of an evicted one, by its uid."""
    placed: set[str] = field(default_factory=set)
    """uids of pods that got a node."""

    @property
    def done(self) -> list[CommandOutcome]:
        """Return the evictions that were executed."""
        return [outcome for _, outcome in self.outcomes if outcome.result == "done"]

    def last(self) -> dict[str, MigrationStatus]:
        """Return the last state of each migration."""
        return {status.migration_id: status for status in self.statuses}


def look(history: History) -> Found:
    """Check all partitions."""
    findings = Found()
    for partition in range(history.partitions):
        facts = _facts(history, partition)
        findings.problems += [
            list(_ids(facts)),
            list(_check_executed(facts)),
            list(_check_replaced(facts)),
        ]
        real = [command for command in facts.commands if not command.dry_run]
        last = facts.last().values()
        findings.figures.update(
            {
                "evictions commanded": len(real),
                "further attempts": sum(command.attempt > 1 for command in real),
                "dry commands": len(facts.commands) - len(real),
                "evictions executed": len(facts.done),
                "migrations": len(last),
                "migrations with room": sum(status.mode == "ReservationFirst" for status in last),
                "migrations succeeded": sum(status.phase == "Succeeded" for status in last),
            }
        )
    return findings


def _facts(history: History, partition: int) -> _Facts:
    facts = _Facts()
    for value in dict.fromkeys(r.value for r in history.of("eviction-commands", partition)):
        command = decode("eviction-commands", value)
        if isinstance(command, EvictionCommand):
            facts.commands.append(command)
    for value in dict.fromkeys(r.value for r in history.of("status", partition)):
        status = decode("status", value)
        if isinstance(status, MigrationStatus):
            facts.statuses.append(status)
    for record in history.of(_OUTCOMES, partition):
        outcome = decode(_OUTCOMES, record.value)
        if isinstance(outcome, CommandOutcome) and outcome.command == "evict":
            facts.outcomes.append((record.offset, outcome))
    for record in history.of("pod-lifecycle", partition):
        lifecycle = decode("pod-lifecycle", record.value)
        if isinstance(lifecycle, PodLifecycle) and lifecycle.event == "deleted":
            facts.deleted[lifecycle.pod.uid] += 1
    for record in history.of("scheduling-requests", partition):
        request = decode("scheduling-requests", record.value)
        if isinstance(request, SchedulingRequest) and REPLACES in request.pod.annotations:
            facts.replacements[request.pod.annotations[REPLACES]] = request.pod.uid
    for record in history.of("placement-decisions", partition):
        decision = decode("placement-decisions", record.value)
        if isinstance(decision, PlacementDecision) and decision.outcome == "placed":
            facts.placed.add(decision.pod.uid)
    return facts


# --- commands -----------------------------------------------------------------------------------


def _ids(facts: _Facts) -> Iterator[str]:
    """An id belongs to one attempt of one migration, and has one content."""
    by_id: Counter[str] = Counter(command.command_id for command in facts.commands)
    yield from (f"command {id_} has {n} contents" for id_, n in by_id.items() if n > 1)
    by_attempt = Counter((command.migration_id, command.attempt) for command in facts.commands)
    for (migration, attempt), count in by_attempt.items():
        if count > 1:
            yield f"migration {migration}: attempt {attempt} was commanded {count} times"


# --- evictions ----------------------------------------------------------------------------------


def _check_executed(facts: _Facts) -> Iterator[str]:
    """Executed evictions were commanded, once per pod; exactly the evicted pods are gone."""
    commands = {command.command_id: command for command in facts.commands}
    for outcome in facts.done:
        command = commands.get(outcome.command_id)
        if command is None:
            yield f"pod {outcome.pod.uid} was evicted by {outcome.command_id}, never commanded"
        elif command.dry_run:
            yield f"pod {outcome.pod.uid} was evicted by {outcome.command_id}, which is dry"
        elif (command.pod.uid, command.node) != (outcome.pod.uid, outcome.node):
            yield (
                f"{outcome.command_id} is about {command.pod.uid} on {command.node}, evicted was "
                f"{outcome.pod.uid} from {outcome.node}"
            )
    evicted = Counter(outcome.pod.uid for outcome in facts.done)
    yield from (f"pod {uid} was evicted {n} times" for uid, n in evicted.items() if n > 1)
    for uid in sorted(evicted.keys() ^ facts.deleted.keys()):
        how = "evicted and not deleted" if uid in evicted else "deleted and not evicted"
        yield f"pod {uid} was {how}"


def _check_replaced(facts: _Facts) -> Iterator[str]:
    """Every evicted pod has a replacement with a node."""
    for outcome in facts.done:
        uid = facts.replacements.get(outcome.pod.uid)
        if uid is None:
            yield f"pod {outcome.pod.uid} was evicted, and nothing asked for a node in its place"
        elif uid not in facts.placed:
            yield f"pod {outcome.pod.uid} was evicted, and {uid} in its place has no decision"
