"""The verdict on evictions: none is made twice, none is lost, and none is left hanging.

Commands, reports of migrations, what came of the commands and the pods that came in place of the evicted
ones are read from their topics and held against each other. That they are those of the journal, and the
journal those of the inputs, is judged elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.migrations import LIVE, MigrationStatus
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodLifecycle
from schemas.messages.requests import SchedulingRequest
from schemas.topics.codec import decode
from streams.migration.execution import DRY_LASTS_MS
from tests.chaos.history import History
from tests.chaos.services import REPLACES

_OUTCOMES = "command-outcomes"


@dataclass
class Found:
    """What is wrong with evictions, and how much was looked at."""

    problems: list[list[str]] = field(default_factory=list)
    """One list a rule."""
    figures: Counter[str] = field(default_factory=Counter)


@dataclass
class _Facts:
    """What one partition's topics say; of copies only the first."""

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
        """Evictions that were executed."""
        return [outcome for _, outcome in self.outcomes if outcome.result == "done"]

    def last(self) -> dict[str, MigrationStatus]:
        """How each migration stands at the end."""
        return {status.migration_id: status for status in self.statuses}


def look(history: History, now_ms: Mapping[int, int]) -> Found:
    """Look at all partitions; `now_ms` is the last time that was applied in each."""
    found = Found()
    for partition in range(history.partitions):
        facts = _facts(history, partition)
        found.problems += [
            list(_ids(facts)),
            list(_attempts(facts)),
            list(_alive_at_once(facts)),
            list(_executed(facts)),
            list(_replaced(facts)),
            list(_course(facts)),
            list(_ended(facts, now_ms.get(partition, 0))),
        ]
        real = [command for command in facts.commands if not command.dry_run]
        last = facts.last().values()
        found.figures.update(
            {
                "evictions commanded": len(real),
                "further attempts": sum(command.attempt > 1 for command in real),
                "dry commands": len(facts.commands) - len(real),
                "evictions executed": len(facts.done),
                "migrations": len(last),
                "migrations with room": sum(each.mode == "ReservationFirst" for each in last),
                "migrations succeeded": sum(each.phase == "Succeeded" for each in last),
            }
        )
    return found


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
    """An id is of one attempt of one migration, and has one content."""
    by_id: Counter[str] = Counter(command.command_id for command in facts.commands)
    yield from (f"command {id_} has {n} contents" for id_, n in by_id.items() if n > 1)
    by_attempt = Counter((command.migration_id, command.attempt) for command in facts.commands)
    for (migration, attempt), count in by_attempt.items():
        if count > 1:
            yield f"migration {migration}: attempt {attempt} was commanded {count} times"


def _attempts(facts: _Facts) -> Iterator[str]:
    """A migration has the commands that it says it has, about its own pod."""
    commands: dict[str, list[EvictionCommand]] = defaultdict(list)
    for command in facts.commands:
        commands[command.migration_id or ""].append(command)
    last = facts.last()
    for migration in sorted(last.keys() | commands.keys()):
        own, status = commands[migration], last.get(migration)
        if status is None:
            yield f"migration {migration} has {len(own)} commands and was never reported"
            continue
        attempts = [command.attempt for command in own]
        if attempts != list(range(1, status.attempts + 1)):
            yield f"migration {migration} says {status.attempts} attempts, commanded are {attempts}"
        if own and own[-1].command_id != status.command_id:
            yield (
                f"migration {migration} says that command {status.command_id} is its newest, "
                f"commanded is {own[-1].command_id}"
            )
        yield from (
            f"migration {migration} of pod {status.pod.uid}: {command.command_id} is about pod "
            f"{command.pod.uid}"
            for command in own
            if command.pod.uid != status.pod.uid
        )


def _alive_at_once(facts: _Facts) -> Iterator[str]:
    """A pod is not commanded again before its last command came to something or ran out."""
    reported: dict[str, int] = {}
    for offset, outcome in facts.outcomes:
        reported.setdefault(outcome.command_id, offset)
    by_pod: dict[str, list[EvictionCommand]] = defaultdict(list)
    for command in facts.commands:
        by_pod[command.pod.uid].append(command)
    for uid, commands in by_pod.items():
        for one, other in pairwise(commands):
            over_ms = one.expires_at_ms
            if one.dry_run:
                over_ms = min(over_ms, one.decided_at_ms + DRY_LASTS_MS)
            known = other.as_of.offsets.get(_OUTCOMES, -1)
            if other.decided_at_ms < over_ms and reported.get(one.command_id, known + 1) > known:
                yield (
                    f"pod {uid}: {other.command_id} was decided at {other.decided_at_ms}, when "
                    f"{one.command_id} was alive until {over_ms} and nothing was known of it"
                )


# --- evictions ----------------------------------------------------------------------------------


def _executed(facts: _Facts) -> Iterator[str]:
    """What was executed was commanded, once a pod; pods that were evicted are gone, and no others."""
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


def _replaced(facts: _Facts) -> Iterator[str]:
    """In place of every evicted pod there is another one with a node."""
    for outcome in facts.done:
        uid = facts.replacements.get(outcome.pod.uid)
        if uid is None:
            yield f"pod {outcome.pod.uid} was evicted, and nothing asked for a node in its place"
        elif uid not in facts.placed:
            yield f"pod {outcome.pod.uid} was evicted, and {uid} in its place has no decision"


# --- migrations ---------------------------------------------------------------------------------


def _course(facts: _Facts) -> Iterator[str]:
    """A pod has one migration at a time, and what has ended does not go on."""
    live: dict[str, str] = {}
    ended: dict[str, str] = {}
    for status in facts.statuses:
        uid, migration = status.pod.uid, status.migration_id
        if migration in ended:
            yield f"migration {migration} ended as {ended[migration]} and is {status.phase} again"
        if live.get(uid, migration) != migration:
            yield f"pod {uid}: migration {migration} began while {live[uid]} was live"
        if status.phase in LIVE:
            live[uid] = migration
        else:
            ended[migration] = status.phase
            live.pop(uid, None)


def _ended(facts: _Facts, now_ms: int) -> Iterator[str]:
    """Deadlines end migrations, and an executed eviction is not taken for anything else."""
    done = {outcome.command_id for outcome in facts.done}
    for status in facts.last().values():
        if status.phase in LIVE and not status.paused and status.deadline_ms <= now_ms:
            yield (
                f"migration {status.migration_id} is {status.phase} at {now_ms}, its deadline "
                f"was {status.deadline_ms}"
            )
        lost = status.phase == "Failed" and status.reason != "Timeout"
        if status.command_id in done and lost:
            yield (
                f"migration {status.migration_id}: pod {status.pod.uid} was evicted, and it is "
                f"{status.phase} with {status.reason}"
            )
