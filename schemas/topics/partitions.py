"""Keys and partitions: where a record belongs, by the partitioner of Kafka's own Java producer.

A cluster has one writer because all its records meet in one partition (`misplaced` finds those that
do not), and because a record is keyed by the cluster that it speaks of (`mislabelled`). So the
partitioner is part of the contract: murmur2 of the key's bytes with the sign bit cleared, modulo
the number of partitions. librdkafka's default is another one: its `partitioner` must be set to
`murmur2_random`.

The topics whose key is a partition (`clock`, `journal`) are written to that partition by number and
are no matter for `misplaced`.
"""

from functools import lru_cache
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.collect import key_node
from schemas.topics.catalog import key_of, node_key

#: Longest key that is read; "cluster/node" with names of 253 characters stays below it.
KEY_BYTES_MAX = 2_048

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_UINT32 = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 with Kafka's seed, unsigned."""
    length = len(data)
    hashed = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _UINT32
        word = (word ^ word >> 24) * _MULTIPLIER & _UINT32
        hashed = hashed * _MULTIPLIER & _UINT32 ^ word
    if length > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _UINT32
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _UINT32
    return hashed ^ hashed >> 15


@lru_cache(maxsize=32_768)
def partition_for(key: bytes, partitions: int) -> int:
    """The partition of `partitions` that records with this key belong to."""
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition; got {partitions}")
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def misplaced(key: bytes | None, partition: int, partitions: int) -> Refusal | None:
    """A refusal if a record with this key does not belong to the partition that it was found in."""
    if key is None:
        return Refusal("misplaced", "the record has no key; its key decides where it belongs")
    if len(key) > KEY_BYTES_MAX:
        return Refusal(
            "limit", f"the key has {len(key)} bytes; allowed are at most {KEY_BYTES_MAX}"
        )
    expected = partition_for(key, partitions)
    if expected == partition:
        return None
    return Refusal(
        "misplaced",
        f"the key {key[:60]!r} is in partition {partition}; it belongs to partition {expected} of"
        f" {partitions}: the producer must use the murmur2 partitioner (librdkafka: murmur2_random)",
    )


def mislabelled(topic: str, key: bytes | None, message: Any) -> Refusal | None:
    """A refusal if a message speaks of another cluster, node or partition than its key says."""
    expected = key_of(topic, message)
    if key == expected.encode():
        return None
    return Refusal(
        "misplaced",
        f"the key is {'missing' if key is None else repr(key[:60])}; a record of {topic} that says this"
        f" must have the key {expected[:120]!r}",
    )


@lru_cache(maxsize=1_024)
def partition_numbers(cluster: str, partitions: int) -> tuple[int, ...]:
    """For each partition, the least `number` of a collect policy whose key hashes to it."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < partitions:
        key = node_key(cluster, key_node(number))
        found.setdefault(partition_for(key.encode(), partitions), number)
        number += 1
    return tuple(found[partition] for partition in range(partitions))
