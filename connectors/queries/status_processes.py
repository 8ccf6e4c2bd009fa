"""The sections of `loadstream status` about brokers, workers and duties.

A section describes a state, with lines for people and plain values for `--json`. Faults are found by the
checks of `loadstream doctor`, which `status` shows first.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.kafka.admin import Group
from connectors.kafka.term import LOCK
from connectors.kafka.topics import find_worst_grade
from connectors.queries.cluster_reading import DUTIES, WORKER_GROUPS, ClusterRecords, KafkaState
from connectors.units import ago_text, count_text
from schemas.settings.connection import name_duty_group
from schemas.topics.catalog import CLUSTER_INPUTS

#: Topics with the commands of two duties.
_COMMAND_TOPICS = {"bind": "placement-decisions", "evict": "eviction-commands"}


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the screen."""

    name: str
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)


def kafka_section(kafka: KafkaState) -> Section:
    verdicts = {name: find_worst_grade(findings) for name, findings in kafka.topics.items()}
    grades = Counter(verdicts.values())
    text = ", ".join(
        f"{grades[name]} {name}" for name in ("ok", "unknown", "differs", "missing") if grades[name]
    )
    kind = ""
    if kafka.embedded:  # it has no settings that could be compared
        kind, text = " (embedded)", f"{len(verdicts) - grades['missing']} exist"
    data = {"servers": kafka.servers, "brokers": kafka.brokers, "embedded": kafka.embedded, "topics": verdicts,
            "leaderless_partitions": len(kafka.leaderless), "partly_copied_partitions": kafka.partly_copied}  # fmt: skip
    brokers = f"{count_text(kafka.brokers, 'broker')} at {kafka.servers}{kind}"
    return Section("kafka", (f"{brokers}; {count_text(len(verdicts), 'topic')}: {text}",), data)


def worker_section(records: ClusterRecords) -> Section:
    groups = list_worker_groups(records)
    reported = [group.members for group in groups if group.members is not None]
    members = [member for members in reported for member in members]
    hosts = sorted({member.host for member in members})
    at = f" at {', '.join(hosts)}" if hosts else ""
    parts = []
    if reported:
        parts.append(f"{len(members)} running{at}")
    elif groups:
        parts.append(f"unknown: {groups[0].reason}")
    if records.tick_ms is not None:
        parts.append(f"the cluster's clock ticked {ago(records, records.tick_ms)}")
    inputs, samples = count_worker_lag(records)
    if inputs is not None or samples is not None:
        parts.append(
            f"to apply: {count_text(inputs or 0, 'record')}, {count_text(samples or 0, 'usage sample')}"
        )
    data = {
        "running": len(members) if reported else None,
        "hosts": hosts,
        "clock_ms": records.tick_ms,
        "records_to_apply": inputs,
        "samples_to_apply": samples,
    }
    return Section("workers", ("; ".join(parts) or "none",), data)


def list_worker_groups(records: ClusterRecords) -> list[Group]:
    return [records.groups[name] for name in WORKER_GROUPS if name in records.groups]


def count_worker_lag(records: ClusterRecords) -> tuple[int | None, int | None]:
    """Return how many records of the cluster and how many usage samples workers have not committed yet.

    None: workers have committed nothing in these topics.
    """
    groups = list_worker_groups(records)
    samples = {("node-usage", extent.partition) for extent in records.extents.get("node-usage", ())}
    return (
        _count_lag(records, groups, {(topic, records.partition) for topic in CLUSTER_INPUTS}),
        _count_lag(records, groups, samples),
    )


def _count_lag(
    records: ClusterRecords, groups: Sequence[Group], partitions: set[tuple[str, int]]
) -> int | None:
    committed: dict[tuple[str, int], int] = {}
    for group in groups:
        for partition in partitions & group.committed.keys():
            committed[partition] = max(group.committed[partition], committed.get(partition, 0))
    ends = {
        (topic, extent.partition): extent.next_offset
        for topic, extents in records.extents.items()
        for extent in extents
    }
    lags = [max(0, ends[key] - committed[key]) for key in committed.keys() & ends.keys()]
    return sum(lags) if lags else None


def duties_section(records: ClusterRecords) -> Section:
    texts, data = zip(*(_describe_duty(records, duty) for duty in DUTIES), strict=True)
    lines = texts[:1]
    if len(set(texts)) > 1:
        lines = tuple(f"{duty:8}{text}" for duty, text in zip(DUTIES, texts, strict=True))
    return Section("duties", lines, dict(zip(DUTIES, data, strict=True)))


def _describe_duty(records: ClusterRecords, duty: str) -> tuple[str, dict[str, Any]]:
    group = records.groups.get(name_duty_group(duty, records.cluster), Group((), {}))
    home = (LOCK, records.partition)
    members = group.members or ()
    active = next((member.host for member in members if home in member.partitions), None)
    topic = _COMMAND_TOPICS.get(duty)
    behind = _count_lag(records, [group], {(topic, records.partition)}) if topic else None
    if group.members is None:
        text = f"unknown: {group.reason}"
    elif active is not None:
        standby = len(members) - 1
        text = f"active at {active}" + (f", {standby} on standby" if standby else ", no standby")
    elif members:
        text = f"{len(members)} running, none active"
    else:
        text = "NOT RUNNING" if group.has_existed else "never ran here"
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
    return "; ".join(parts), data


def ago(records: ClusterRecords, at_ms: int) -> str:
    return f"{ago_text(records.now_ms - at_ms)} ago"
