"""Partitions are those of Kafka's own producers."""

import pytest
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.dead_letters import build_dead_letter
from schemas.messages.lists import ListBegin
from schemas.messages.usage import NodeUsage
from schemas.topics.partitions import (
    KEY_BYTES_MAX,
    check_key,
    check_partition,
    murmur2,
    partition_for,
)

NOW_MS = 1_760_000_000_000

# From org.apache.kafka.common.utils.UtilsTest.testMurmur2, whose hashes are signed.
KAFKA_HASHES = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), KAFKA_HASHES)
def test_hashes_are_those_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=40), st.integers(1, 1_000))
def test_partitions_are_those_of_the_default_producer(key: bytes, partitions: int) -> None:
    numbers = list(range(partitions))
    assert murmur2(key) == aiokafka_murmur2(key) % 2**32
    assert partition_for(key, partitions) == DefaultPartitioner()(key, numbers, numbers)


def test_the_partition_of_a_record_follows_from_its_key() -> None:
    home = partition_for(b"prod-eu", 4)
    refusal = check_partition(b"prod-eu", home ^ 1, 4)
    assert refusal is not None
    assert refusal.category == "misplaced"
    assert f"belongs to partition {home} of 4" in refusal.reason
    assert "b'prod-eu' is in partition" in refusal.reason


def test_a_record_without_a_valid_key_has_no_partition() -> None:
    missing = check_partition(None, 0, 1)
    assert missing is not None
    assert missing.category == "misplaced"
    assert check_partition(b"k" * KEY_BYTES_MAX, 0, 1) is None
    endless = check_partition(b"k" * (KEY_BYTES_MAX + 1), 0, 1)
    assert endless is not None
    assert endless.category == "limit"
    assert len(endless.reason) < 200


SAMPLE = NodeUsage(cluster="prod-eu", node="node-1", sampled_at_ms=NOW_MS, usage={})


@pytest.mark.parametrize(
    ("topic", "message", "key"),
    [
        ("node-usage", SAMPLE, b"prod-eu/node-1"),
        ("node-state", ListBegin(cluster="prod-eu", list_id="l"), b"prod-eu"),
        ("clock", ClockTick(partition=3, now_ms=NOW_MS), b"3"),
        (
            "dead-letters",
            build_dead_letter("clock", 0, 0, None, None, None, Refusal("late", "old")),
            b"clock",
        ),
    ],
)
def test_a_message_must_match_its_key(topic: str, message: NodeUsage, key: bytes) -> None:
    assert check_key(topic, key, message) is None
    for other in (None, b"", key + b"x", b"\xff"):
        refusal = check_key(topic, other, message)
        assert refusal is not None
        assert refusal.category == "misplaced"
        assert repr(key.decode()) in refusal.reason


def test_node_keys_of_all_lengths_stay_below_the_limit() -> None:
    name = "\U0001f600" * 253
    key = f"{name}/{name}".encode()
    assert len(key) <= KEY_BYTES_MAX
