"""Keys and partitions of records, as Kafka's Java producer assigns them.

All records of a cluster must be in one partition, because the cluster has one writer. The
partitioner is therefore part of the contract: murmur2 of the key with the sign bit cleared, modulo
the number of partitions. librdkafka needs `partitioner=murmur2_random`. `check_partition` refuses
records in a wrong partition, `check_key` records whose key does not match their content.

`clock` and `journal`, whose key is a partition number, are written to that partition directly.
"""

from functools import lru_cache
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.usage import key_node
from schemas.topics.catalog import key_of, node_key

#: Longest key that is read; "cluster/node" with names of 253 characters is shorter.
KEY_BYTES_MAX = 2_048

_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C
_UINT32 = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit MurmurHash2 of the data, with Kafka's seed."""
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
    """Return the partition of records with this key."""
    if partitions < 1:
        raise ValueError(f"a topic has at least one partition; got {partitions}")
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def check_partition(key: bytes | None, partition: int, partitions: int) -> Refusal | None:
    """Return a refusal if a record with this key does not belong to the partition it was found in."""
    if key is None:
        return Refusal("misplaced", "the record has no key; the key determines its partition")
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


def check_key(topic: str, key: bytes | None, message: Any) -> Refusal | None:
    """Return a refusal if the key differs from the key that the message must have."""
    expected = key_of(topic, message)
    if key == expected.encode():
        return None
    return Refusal(
        "misplaced",
        f"the key is {'missing' if key is None else repr(key[:60])}; expected {expected[:120]!r} for this"
        f" record of {topic}",
    )


@lru_cache(maxsize=1_024)
def find_policy_numbers(cluster: str, partitions: int) -> tuple[int, ...]:
    """Return for each partition the smallest `number` of a collect policy whose key hashes to it."""
    numbers: dict[int, int] = {}
    number = 0
    while len(numbers) < partitions:
        key = node_key(cluster, key_node(number))
        numbers.setdefault(partition_for(key.encode(), partitions), number)
        number += 1
    return tuple(numbers[partition] for partition in range(partitions))
