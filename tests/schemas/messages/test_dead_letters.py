"""A dead letter keeps the whole record, of any size."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.refusals import REASON_CHARS_MAX, Refusal
from schemas.messages.dead_letters import (
    DeadLetter,
    build_dead_letter,
    parse_cluster,
    parse_node,
    restore_record,
    split_letter,
)
from schemas.topics.codec import encode


def join_parts(parts: Sequence[DeadLetter]) -> DeadLetter:
    """Return the letter of its parts in order: keys and values are concatenated."""
    key = None
    if parts[0].key_base64 is not None:
        key = "".join(part.key_base64 or "" for part in parts)
    value = None
    if parts[0].value_base64 is not None:
        value = "".join(part.value_base64 or "" for part in parts)
    return parts[0].model_copy(update={"parts": 1, "key_base64": key, "value_base64": value})


#: Smallest of Kafka's default limits: librdkafka's message.max.bytes.
MESSAGE_BYTES_MAX = 1_000_000
REFUSAL = Refusal("invalid", "node is missing")


def letter(key: bytes | None, value: bytes | None, refusal: Refusal = REFUSAL) -> DeadLetter:
    return build_dead_letter("node-usage", 2, 41, 1_760_000_000_000, key, value, refusal)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_a_dead_letter_names_offset_and_reason() -> None:
    assert letter(b"c/n", b"{}") == DeadLetter(
        topic="node-usage",
        partition=2,
        offset=41,
        reason="node is missing",
        category="invalid",
        timestamp_ms=1_760_000_000_000,
        key_base64="Yy9u",
        value_base64="e30=",
    )


@pytest.mark.parametrize("key", [None, b"", b"c/n", b"\xff\x00"])
@pytest.mark.parametrize("value", [None, b"", b"{}", b"\xff" * 100])
def test_key_and_value_are_restored_and_null_is_not_empty(
    key: bytes | None, value: bytes | None
) -> None:
    assert restore_record(letter(key, value)) == (key, value)


@pytest.mark.parametrize(
    ("topic", "key", "cluster", "node"),
    [
        ("node-usage", b"c/n", "c", "n"),
        ("node-usage", b"c", "c", None),
        ("node-usage", None, None, None),
        ("node-metrics", b"c", "c", None),
        ("clock", b"3", None, None),
    ],
)
def test_a_dead_letter_belongs_to_the_cluster_and_node_of_its_record(
    topic: str, key: bytes | None, cluster: str | None, node: str | None
) -> None:
    buried = letter(key, b"{}").model_copy(update={"topic": topic})
    assert (parse_cluster(buried), parse_node(buried)) == (cluster, node)


def test_an_invalid_key_names_no_cluster() -> None:
    buried = letter(b"c/n", b"{}").model_copy(update={"key_base64": "?"})
    assert (parse_cluster(buried), parse_node(buried)) == (None, None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"c/n", noise(4_194_305)),
        (noise(1_048_000), b""),
        (noise(1_048_000), None),
        (noise(600_000), noise(600_000)),
        (None, noise(1_000_000)),
        (b"", noise(1_000_000)),
    ],
    ids=["over the limit", "key", "key alone", "both", "no key", "empty key"],
)
def test_a_large_record_is_split_into_parts_without_loss(
    key: bytes | None, value: bytes | None
) -> None:
    whole = letter(key, value, Refusal("limit", "x" * 5_000))
    assert len(whole.reason) == REASON_CHARS_MAX
    parts = list(split_letter(whole))
    assert all(len(encode(part)) < MESSAGE_BYTES_MAX for part in parts)
    assert [part.part for part in parts] == list(range(len(parts)))
    assert {part.parts for part in parts} == {len(parts)}
    assert join_parts(parts) == whole
    assert restore_record(join_parts(parts)) == (key, value)


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60), st.integers(1, 50))
def test_parts_of_any_size_are_joined(
    key: bytes | None, value: bytes | None, chars_max: int
) -> None:
    whole = letter(key, value)
    parts = list(split_letter(whole, chars_max))
    assert join_parts(parts) == whole
    for part in parts:
        assert len(part.value_base64 or "") + len(part.key_base64 or "") <= chars_max
        assert (part.key_base64 is None) == (key is None)


def test_a_changed_dead_letter_is_an_error() -> None:
    changed = letter(b"k", b"v").model_copy(update={"value_base64": "not base64!"})
    with pytest.raises(ValueError, match="base64"):
        restore_record(changed)
