"""A cluster's policies as topic `policies` holds them, read as the cluster's worker reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.process.terminal import echo
from schemas.base.printable import to_one_line

if TYPE_CHECKING:
    from connectors.kafka.client import Connection
    from schemas.messages.policies import PolicyRecord

#: Topic of policies.
TOPIC = "policies"


@dataclass(frozen=True, slots=True)
class PolicyEntry:
    """One record of a cluster's policies, and where it stands."""

    partition: int
    offset: int
    record: "PolicyRecord"


def read_entries_of(connection: "Connection", cluster: str) -> Iterator[PolicyEntry]:
    """The policies of a cluster, oldest first.

    What no worker would apply is reported and left out: records that cannot be read, and those that
    a wrong key or partitioner has put where the cluster's worker does not look.
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
            place = f"{entry.partition}:{entry.offset}"
            reason = to_one_line(refusal.reason)
            echo(f"warning: {TOPIC} {place} does not count: {reason}", err=True)


def newest_entry(connection: "Connection", cluster: str) -> PolicyEntry | None:
    """The record that holds for a cluster, or will; none: the default policy, running.

    What a worker has refused is reported and left out: the one before goes on.
    """
    entries = read_valid_entries(connection, cluster)
    return entries[-1] if entries else None


def read_valid_entries(connection: "Connection", cluster: str) -> list[PolicyEntry]:
    """Return the policies of a cluster that no worker has refused, oldest first.

    Refused records that are newer than all of these are reported.
    """
    from connectors.kafka.applied import REFUSED, Applied

    entries = list(read_entries_of(connection, cluster))
    if not entries:
        return []
    applied = Applied(connection, TOPIC)
    states = [applied.state(each.partition, each.offset) for each in entries]
    valid = [not state.startswith(REFUSED) for state in states]
    for entry, state, counts in reversed(list(zip(entries, states, valid, strict=True))):
        if counts:
            break
        place = f"{entry.partition}:{entry.offset}"
        echo(f"warning: {TOPIC} {place} does not count: {to_one_line(state)}", err=True)
    return [entry for entry, counts in zip(entries, valid, strict=True) if counts]


def split_present(
    entries: Sequence[PolicyEntry],
) -> tuple[Sequence[PolicyEntry], Sequence[PolicyEntry]]:
    """Return the records before the present document, and those that hold it.

    Pausing and resuming repeat the document, so the first of the latter says who applied it.
    """
    start = len(entries)
    while start and entries[start - 1].record.document == entries[-1].record.document:
        start -= 1
    return entries[:start], entries[start:]


def is_set_apart(connection: "Connection", cluster: str) -> bool:
    """Whether the cluster's worker, which it made fail, applies nothing of it until a policy record
    comes, also the one that holds already. Raises BrokerUnavailable."""
    from connectors.kafka.cluster_records import read_rows
    from schemas.storage.rows import FailedClusterRow

    return any(
        row.set_apart for row in read_rows(connection, "failed_clusters", cluster, FailedClusterRow)
    )
