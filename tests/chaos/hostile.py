"""Invalid records: unreadable, oversized, foreign, deeply nested, or in the wrong place.

Each record is refused as a whole and changes nothing; the verdict checks this by dead letters. A seed
generates the same records again.
"""

from collections.abc import Iterator

import numpy as np

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.partitions import partition_for

#: Topic, cluster, value (None: a tombstone) and partition (None: that of the cluster's key).
Hostile = tuple[str, str, bytes | None, int | None]

#: Sent to all inputs except the clock, whose partition time must advance.
TOPICS = (*(topic for topic in CLUSTER_INPUTS if topic != "clock"), "node-usage")
_VALUES: tuple[bytes | None, ...] = (
    None,
    b"",
    b"null",
    b"[" * 50_000,
    b'{"a":' * 50_000,
    b'{"schema_version": 2, "cluster": "c0"}',
    b'{"cluster": "\\ud800"}',
    b'{"cluster": "c0\x1b[31m\xc2\x9b\xe2\x80\xae"}',
    b"\x00\x00\x00\x00\x01avro" + bytes(range(256)),
    b"\x1f\x8b\x08" + bytes(64),
)
#: Larger than readers accept, smaller than topics accept.
_OVERSIZED = b'"' + b"x" * VALUE_BYTES_MAX + b'"'
#: One hostile record in this many is oversized.
_OVERSIZED_EVERY = 40


def hostile(
    random: np.random.Generator, cluster: str, state: bytes, partitions: int
) -> Iterator[Hostile]:
    """Yield an unreadable record, and a valid record of a node (`state`) in another partition."""
    topic = TOPICS[int(random.integers(len(TOPICS)))]
    value: bytes | None = b'{"cluster": ' + random.bytes(4).hex().encode()
    if random.random() < 0.6:
        value = _VALUES[int(random.integers(len(_VALUES)))]
    if random.random() < 1 / _OVERSIZED_EVERY:
        value = _OVERSIZED
    yield topic, cluster, value, None
    elsewhere = (partition_for(cluster.encode(), partitions) + 1) % partitions
    yield "node-state", cluster, state, elsewhere


def foreign_ticks(random: np.random.Generator, partitions: int) -> Iterator[Hostile]:
    """Yield a record of `clock` that is no tick, and the tick of another partition."""
    partition = int(random.integers(partitions))
    other = (partition + 1) % partitions
    yield "clock", str(partition), b'{"now_ms": "soon"}', partition
    tick = b'{"schema_version": 1, "partition": %d, "now_ms": 4000000000000}' % other
    yield "clock", str(other), tick, partition
