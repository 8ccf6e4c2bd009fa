"""The policy records of a cluster, without the records that its worker refuses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.process import wall_clock
from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.policies import PolicyRecord
    from schemas.policy import KnownPlugins

#: Topic of policies.
TOPIC = "policies"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    partition: int
    offset: int
    record: "PolicyRecord"


def read_entries_of(connection: "Connection", cluster: str) -> Iterator[PolicyEntry]:
    """Yield the policy records of a cluster, oldest first.

    Leaves out invalid records, and records with a wrong key or in a wrong partition. A warning on standard
    error names each of these records.
    """
    from connectors.kafka.extents import count_partitions
    from connectors.kafka.reader import Gap
    from connectors.kafka.tail import read_entries
    from schemas.messages.policies import PolicyRecord
    from schemas.topics.catalog import TOPIC_BY_NAME
    from schemas.topics.partitions import check_key, check_partition

    partitions = count_partitions(connection, TOPIC)
    for entry in read_entries(connection, TOPIC_BY_NAME[TOPIC], "beginning", follow=False):
        if isinstance(entry, Gap):
            echo(f"warning: {entry}", err=True)
            continue
        if entry.cluster != cluster:
            continue
        message = entry.message
        refusal = check_partition(entry.key, entry.partition, partitions)
        if not isinstance(message, PolicyRecord):
            refusal = message
        elif refusal is None:
            refusal = check_key(TOPIC, entry.key, message)
        if refusal is None:
            yield PolicyEntry(entry.partition, entry.offset, message)
        else:
            position = f"{entry.partition}:{entry.offset}"
            reason = to_one_line(refusal.reason)
            echo(f"warning: {TOPIC} {position} is ignored: {reason}", err=True)


def find_newest_entry(connection: "Connection", cluster: str) -> PolicyEntry | None:
    """Return the newest record that no worker has refused; None: the default policy applies."""
    entries = read_valid_entries(connection, cluster)
    return entries[-1] if entries else None


def read_valid_entries(connection: "Connection", cluster: str) -> list[PolicyEntry]:
    """Return the policy records of a cluster that no worker has refused, oldest first.

    Warns on standard error of each refused record that is newer than all valid records.
    """
    from connectors.kafka.applied import REFUSED, AppliedRecords

    entries = list(read_entries_of(connection, cluster))
    if not entries:
        return []
    applied = AppliedRecords(connection, TOPIC)
    states = [applied.state(entry.partition, entry.offset) for entry in entries]
    valid = [not state.startswith(REFUSED) for state in states]
    for entry, state, is_valid in reversed(list(zip(entries, states, valid, strict=True))):
        if is_valid:
            break
        position = f"{entry.partition}:{entry.offset}"
        echo(f"warning: {TOPIC} {position} is ignored: {to_one_line(state)}", err=True)
    return [entry for entry, is_valid in zip(entries, valid, strict=True) if is_valid]


def split_current(
    entries: Sequence[PolicyEntry],
) -> tuple[Sequence[PolicyEntry], Sequence[PolicyEntry]]:
    """Return the records before the current document, and the records with the current document.

    Pausing and resuming repeat the document, so the first record with the document names its author.
    """
    start = len(entries)
    while start and entries[start - 1].record.document == entries[-1].record.document:
        start -= 1
    return entries[:start], entries[start:]


def is_set_apart(connection: "Connection", cluster: str) -> bool:
    """Tell whether the worker has set the cluster apart after errors. Raises BrokerUnavailable."""
    from connectors.kafka.cluster_records import read_rows
    from schemas.storage.rows import FailedClusterRow

    return any(
        row.set_apart for row in read_rows(connection, "failed_clusters", cluster, FailedClusterRow)
    )


def format_line(entry: PolicyEntry, state: str, known_plugins: "KnownPlugins") -> str:
    """Return time, offset, digest, mode, state and author of a record."""
    record = entry.record
    parts = [
        format_time_and_age(record.applied_at_ms),
        f"{entry.partition}:{entry.offset}",
        _summarize(record.document, known_plugins),
        "paused" if record.paused else "running",
        state,
        to_one_line(format_author(record)),
    ]
    return "  ".join(part for part in parts if part)


def format_author(record: "PolicyRecord") -> str:
    """Return the author of a record and the reason; empty if the record has neither."""
    by = f"by {record.applied_by}" if record.applied_by else ""
    return ": ".join(part for part in (by, record.reason) if part)


def format_time_and_age(moment_ms: int) -> str:
    from connectors.units import ago_text, time_text

    ago_ms = wall_clock.now_ms() - moment_ms
    return time_text(moment_ms) + (f" ({ago_text(ago_ms)} ago)" if ago_ms >= 0 else "")


def format_json(entry: PolicyEntry, state: str, known_plugins: "KnownPlugins") -> str:
    """Return the record with its offset, and its digest or its problems."""
    import orjson

    from schemas.policy import PolicyError, read_policy

    fields = {"partition": entry.partition, "offset": entry.offset, "state": state}
    try:
        policy = read_policy(entry.record.document, known_plugins)
    except PolicyError as error:
        fields["problems"] = [str(problem) for problem in error.problems]
    else:
        fields |= {"digest": policy.digest, "mode": policy.mode}
    return orjson.dumps({**entry.record.payload(), **fields}).decode()


def _summarize(document: str, known_plugins: "KnownPlugins") -> str:
    from connectors.units import count_text
    from schemas.policy import PolicyError, read_policy

    try:
        policy = read_policy(document, known_plugins)
    except PolicyError as error:
        return f"{'invalid':16}  {count_text(len(error.problems), 'error')}: not applied"
    return f"{policy.digest}  {policy.mode}"
