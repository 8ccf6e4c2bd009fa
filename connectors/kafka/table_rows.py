"""Rows of a cluster from the changelog of a worker's table.

A worker writes its rows every few seconds, so the newest changes may be missing.
"""

from typing import TypeVar

from connectors.kafka.client import Connection
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.reader import read_range
from connectors.kafka.topics import changelog_name
from schemas.base.message import Message
from schemas.storage.tables import TABLE_OF_KIND, row_key
from schemas.topics.codec import decode_as
from schemas.topics.partitions import partition_for

R = TypeVar("R", bound=Message)


def read_rows(connection: Connection, kind: str, cluster: str, row_class: type[R]) -> list[R]:
    """Return the newest rows of one kind in a cluster. Raises BrokerUnavailable."""
    topic = changelog_name(TABLE_OF_KIND[kind])
    extents = read_topic_extents(connection, topic)
    extent = extents[partition_for(cluster.encode(), len(extents))]
    prefix = row_key(extent.partition, cluster, kind).encode()
    rows: dict[bytes, R] = {}
    for record in read_range(
        connection, topic, extent.partition, extent.first_offset, extent.next_offset
    ):
        key = record.key or b""
        if not key.startswith(prefix):
            continue
        row = None if record.value is None else decode_as(row_class, record.value)
        if isinstance(row, row_class):
            rows[key] = row
        else:
            rows.pop(key, None)
    return list(rows.values())
