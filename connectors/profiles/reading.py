"""Rows of what pods use of their requests, as a worker has written them last.

A worker writes the rows of its tables every few seconds; what it has found out since is not here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from connectors.kafka.client import Connection
from connectors.kafka.extents import extents_of
from connectors.kafka.presence import last_tick_ms, seek_cluster, silence
from connectors.kafka.reader import Record, read_range
from connectors.kafka.topics import changelog_name
from schemas.base import Message
from schemas.codec import decode_as
from schemas.partitions import partition_for
from schemas.usage_moments import FleetUsageRow, OwnerUsageRow

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Profiles:
    """What is known of one cluster."""

    cluster: str
    fleet: FleetUsageRow | None
    """None: no policy has asked for it, or no five minutes have passed since."""
    owners: tuple[OwnerUsageRow, ...]
    """In the order of their names."""
    warnings: tuple[str, ...] = ()
    """What makes everything else old, or about nothing."""

    def named(self, owner: str) -> tuple[OwnerUsageRow, ...]:
        """The owners of a name: NAME, KIND/NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME."""
        wanted = owner.split("/")
        return tuple(
            row
            for row in self.owners
            if wanted
            in (
                [row.name],
                [row.kind, row.name],
                [row.namespace, row.name],
                [row.namespace, row.kind, row.name],
            )
        )


def read_profiles(connection: Connection, cluster: str, now_ms: int) -> Profiles:
    """Everything that is known; `now_ms`: of this machine. Raises BrokerUnavailable."""
    fleet = rows_of(connection, "fleet_usage", cluster, FleetUsageRow)
    owners = rows_of(connection, "owner_usage", cluster, OwnerUsageRow)
    silent = silence(last_tick_ms(connection, cluster), now_ms)
    unseen = seek_cluster(connection, cluster).warning(f"Cluster {cluster}")
    return Profiles(
        cluster,
        next(iter(fleet), None),
        tuple(sorted(owners, key=lambda row: (row.namespace, row.name, row.kind))),
        tuple(each for each in (silent, unseen) if each),
    )


def rows_of(connection: Connection, table: str, cluster: str, kind: type[R]) -> list[R]:
    """The rows of a cluster in a table. Raises BrokerUnavailable."""
    topic = changelog_name(table)
    extents = extents_of(connection, topic)
    extent = extents[partition_for(cluster.encode(), len(extents))]
    return newest_rows(
        read_range(connection, topic, extent.partition, extent.first_offset, extent.next_offset),
        cluster,
        kind,
    )


def newest_rows(records: Iterable[Record], cluster: str, kind: type[R]) -> list[R]:
    """The rows that a changelog leaves of a cluster: the newest one of each key."""
    found: dict[bytes, R] = {}
    for record in records:
        key, value = record.key or b"", record.value
        _, _, named = key.decode(errors="replace").partition("/")
        if named != cluster and not named.startswith(f"{cluster}/"):
            continue
        row = None if value is None else decode_as(kind, value)
        if isinstance(row, kind):
            found[key] = row
        else:
            found.pop(key, None)
    return list(found.values())
