"""Records that should not be there: unreadable, oversized, foreign, nested without end, in the
wrong place.

Every one of them is refused, whole, and changes nothing; the verdict holds the dead letters to
that. Drawn from the run's generator, so that a seed sends the same ones again.
"""

from collections.abc import Iterator

import numpy as np

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.topics.catalog import CLUSTER_INPUTS
from schemas.topics.partitions import partition_for

#: Topic, cluster, value (none: a tombstone) and partition (none: where the cluster's key belongs).
Hostile = tuple[str, str, bytes | None, int | None]

#: All inputs but the clock, whose partition time must go on, take any of these.
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
#: More than is read, less than topics take.
_OVERSIZED = b'"' + b"x" * VALUE_BYTES_MAX + b'"'
#: One hostile record in this many is oversized.
_OVERSIZED_EVERY = 40


def hostile(
    random: np.random.Generator, cluster: str, state: bytes, partitions: int
) -> Iterator[Hostile]:
    """One that cannot be read, and a good one of a node (`state`) in another partition."""
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
    """What is no tick, and the tick of another partition, in `clock`."""
    partition = int(random.integers(partitions))
    other = (partition + 1) % partitions
    yield "clock", str(partition), b'{"now_ms": "soon"}', partition
    tick = b'{"schema_version": 1, "partition": %d, "now_ms": 4000000000000}' % other
    yield "clock", str(other), tick, partition
