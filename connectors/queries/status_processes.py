"""The sections of `loadstream status` about what runs: brokers and topics, workers, duties.

A section has lines for people, plain values for `--json`, and problems: sentences that say what is
wrong and what to do. A state that somebody chose, such as a pause, is no problem.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.kafka.admin import Group
from connectors.kafka.term import LOCK
from connectors.queries.cluster_reading import DUTIES, WORKER_GROUPS, ClusterRecords, KafkaState
from connectors.queries.presence import silence
from connectors.units import ago_text, count_text
from schemas.topics.catalog import CLUSTER_INPUTS

#: More records than this that wait for the worker are a problem; its `/readyz` has the same default.
LAG_MAX = 20_000
#: What two of the duties read and carry out.
_COMMAND_TOPICS = {"bind": "placement-decisions", "evict": "eviction-commands"}


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the screen."""

    name: str
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def kafka_section(kafka: KafkaState) -> Section:
    """Brokers and topics."""
    grades = Counter(kafka.verdicts.values())
    total = count_text(len(kafka.verdicts), "topic")
    text = (
        "as expected"
        if grades["ok"] == len(kafka.verdicts)
        else ", ".join(
            f"{grades[name]} {name}"
            for name in ("ok", "unknown", "differs", "missing")
            if grades[name]
        )
    )
    if kafka.embedded:
        text = f"{len(kafka.verdicts) - grades['missing']} there"
    problems = []
    if grades["missing"]:
        names = ", ".join(name for name, each in kafka.verdicts.items() if each == "missing")
        problems.append(f"Topics are missing: {names}. Run `loadstream topic create`.")
    if grades["differs"]:
        problems.append(
            f"{count_text(grades['differs'], 'topic')} not as expected: run `loadstream topic check`."
        )
    if kafka.leaderless:
        more = ", ..." if len(kafka.leaderless) > 3 else ""
        places = (
            ", ".join(f"{topic} {number}" for topic, number in sorted(kafka.leaderless)[:3]) + more
        )
        problems.append(
            f"Nobody can read or write {count_text(len(kafka.leaderless), 'partition')} ({places}): no broker leads "
            "them, so one is down. What is in them is missing below."
        )
    if kafka.partly_copied:
        copied = count_text(kafka.partly_copied, "partition")
        problems.append(f"Of {copied} a copy is missing or behind: a broker is down or slow.")
    brokers = f"{count_text(kafka.brokers, 'broker')} at {kafka.servers}"
    kind = " (embedded)" if kafka.embedded else ""
    data = {"servers": kafka.servers, "brokers": kafka.brokers, "embedded": kafka.embedded, "topics": kafka.verdicts,
            "leaderless_partitions": len(kafka.leaderless), "partly_copied_partitions": kafka.partly_copied}  # fmt: skip
    return Section("kafka", (f"{brokers}{kind}; {total}: {text}",), data, tuple(problems))


def worker_section(records: ClusterRecords) -> Section:
    groups = [records.groups[name] for name in WORKER_GROUPS if name in records.groups]
    told = [group.members for group in groups if group.members is not None]
    members = [member for each in told for member in each]
    silent = silence(records.tick_ms, records.now_ms)
    parts = []
    if told:
        parts.append(f"{len(members)} running{_hosts([member.host for member in members])}")
    elif groups:
        parts.append(f"number unknown: {groups[0].reason}")
    if records.tick_ms is not None:
        parts.append(f"the cluster's clock ticked {ago(records, records.tick_ms)}")
    inputs = _lag(records, groups, {(topic, records.partition) for topic in CLUSTER_INPUTS})
    usage = {("node-usage", each.partition) for each in records.extents.get("node-usage", ())}
    samples = _lag(records, groups, usage)
    if inputs is not None or samples is not None:
        parts.append(
            f"to apply: {count_text(inputs or 0, 'record')}, {count_text(samples or 0, 'usage sample')}"
        )
    problems = [silent] if silent else []
    if (inputs or 0) + (samples or 0) > LAG_MAX:
        problems.append(
            f"The workers are {inputs or 0} records and {samples or 0} usage samples behind: decisions are "
            "late. Look at their CPU; each partition can have a worker of its own."
        )
    data = {
        "running": len(members) if told else None,
        "hosts": sorted({member.host for member in members}),
        "clock_ms": records.tick_ms,
        "records_to_apply": inputs,
        "samples_to_apply": samples,
    }
    return Section("workers", ("; ".join(parts) or "none",), data, tuple(problems))


def _lag(
    records: ClusterRecords, groups: Sequence[Group], places: set[tuple[str, int]]
) -> int | None:
    """Records that the groups have not committed yet; None: they have committed nothing there."""
    committed: dict[tuple[str, int], int] = {}
    for group in groups:
        for place in places & group.committed.keys():
            committed[place] = max(group.committed[place], committed.get(place, 0))
    ends = {(t, e.partition): e.next_offset for t, each in records.extents.items() for e in each}
    lags = [max(0, ends[place] - offset) for place, offset in committed.items() if place in ends]
    return sum(lags) if lags else None


def duties_section(records: ClusterRecords) -> Section:
    sections = [_duty(records, duty) for duty in DUTIES]
    return Section(
        "duties",
        tuple(line for each in sections for line in each.lines),
        {each.name: each.data for each in sections},
        tuple(problem for each in sections for problem in each.problems),
    )


def _duty(records: ClusterRecords, duty: str) -> Section:
    group = records.groups.get(f"loadstream-{duty}-{records.cluster}", Group((), {}))
    start = f"`loadstream kubernetes {duty} --cluster {records.cluster}`"
    home = (LOCK, records.partition)
    members = group.members or ()
    active = next((member.host for member in members if home in member.partitions), None)
    topic = _COMMAND_TOPICS.get(duty)
    behind = _lag(records, [group], {(topic, records.partition)}) if topic else None
    problems = []
    if group.members is None:
        text = f"unknown: {group.reason}"
    elif active is not None:
        standby = len(members) - 1
        text = f"active at {active}" + (f", {standby} on standby" if standby else ", no standby")
    elif members:
        text = f"{len(members)} running, none active"
        problems.append(
            f"No copy of {duty} is active. If this stays so for a minute, see their logs."
        )
    elif group.has_existed:
        text = "NOT RUNNING"
        problems.append(f"{duty.capitalize()} ran before and does not run now: start {start}.")
    else:
        text = "never ran here"
    parts = [text]
    if behind:
        parts.append(f"{count_text(behind, 'record')} of {topic} to read")
    outcome = records.outcomes.get(duty)
    if outcome is not None:
        parts.append(f"newest outcome: {outcome.result}, {ago(records, outcome.happened_at_ms)}")
    data = {
        "running": None if group.members is None else len(members),
        "active_at": active,
        "records_to_read": behind,
        "newest_outcome_ms": outcome.happened_at_ms if outcome else None,
    }
    return Section(duty, (f"{duty:8}{'; '.join(parts)}",), data, tuple(problems))


def _hosts(hosts: Sequence[str]) -> str:
    return f" at {', '.join(sorted(set(hosts)))}" if hosts else ""


def ago(records: ClusterRecords, at_ms: int) -> str:
    """How long ago something happened."""
    return f"{ago_text(records.now_ms - at_ms)} ago"
