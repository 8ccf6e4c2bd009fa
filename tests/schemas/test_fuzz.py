"""No content of a record stops a worker or is silently ignored.

`decode` returns either a message, which can be written and read again, or a refusal, which has a reason and
can be converted to dead letters that contain all bytes.
"""

import json
from typing import Any, TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.base.refusals import REASON_CHARS_MAX, Refusal
from schemas.messages.dead_letters import (
    build_dead_letter,
    restore_record,
    split_letter,
)
from schemas.storage.tables import ROW_CLASSES
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import decode, decode_as, encode
from tests.schemas.messages.test_dead_letters import join_parts
from tests.strategies import json_values, mutate, payloads

M = TypeVar("M", bound=BaseModel)

TOPIC_NAMES = sorted(TOPIC_BY_NAME)
topics = st.sampled_from(TOPIC_NAMES)


def decode_checked(topic: str, value: bytes) -> Any:
    """Return the result of `decode` after checks that apply to every result."""
    answer = decode(topic, value)
    if isinstance(answer, Refusal):
        assert 0 < len(answer.reason) <= REASON_CHARS_MAX
        assert answer.reason.isprintable()
        letter = build_dead_letter(topic, 3, 17, None, b"key", value, answer)
        parts = [round_trip("dead-letters", part) for part in split_letter(letter)]
        assert restore_record(join_parts(parts)) == (b"key", value)
    else:
        assert round_trip(topic, answer) == answer
        assert encode(round_trip(topic, answer)) == encode(answer)
    return answer


def round_trip(topic: str, message: M) -> M:
    """Write the message and read it again."""
    answer = decode(topic, encode(message))
    assert not isinstance(answer, Refusal), answer
    return answer  # type: ignore[no-any-return]  # it is compared with `message`


@given(topics, st.binary(max_size=200))
@example("node-usage", b"")
@example("node-usage", b"\xef\xbb\xbf{}")
@example("policies", b"\x00" * 100)
def test_random_bytes(topic: str, value: bytes) -> None:
    decode_checked(topic, value)


@given(topics, json_values())
def test_any_json(topic: str, value: Any) -> None:
    decode_checked(topic, json.dumps(value).encode())


@settings(max_examples=150)
@given(st.data())
def test_any_value_in_place_of_any_other(data: st.DataObject) -> None:
    topic = data.draw(topics)
    payload = data.draw(payloads(TOPIC_BY_NAME[topic].message))
    decode_checked(topic, json.dumps(data.draw(mutate(payload))).encode())


@settings(max_examples=50)
@given(st.data())
def test_a_message_cut_off_anywhere_is_unreadable(data: st.DataObject) -> None:
    topic = data.draw(topics)
    value = json.dumps(data.draw(payloads(TOPIC_BY_NAME[topic].message))).encode()
    cut = data.draw(st.integers(0, len(value) - 1))
    answer = decode_checked(topic, value[:cut])
    assert isinstance(answer, Refusal)
    assert answer.category == "unreadable"


@settings(max_examples=100)
@given(st.data())
def test_a_message_with_bytes_changed(data: st.DataObject) -> None:
    topic = data.draw(topics)
    value = bytearray(json.dumps(data.draw(payloads(TOPIC_BY_NAME[topic].message))).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    decode_checked(topic, bytes(value))


HEAD = b'{"cluster":"c","node":"n","sampled_at_ms":1760000000000,'
POD = b'{"namespace":"a","name":"b","uid":"c","usage":{}}'
LARGE = {
    "a million open brackets": b"[" * 1_000_000,
    "deep in an unknown field": HEAD + b'"usage":{},"x":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
    "deep objects": b'{"usage":' * 200_000 + b"1" + b"}" * 200_000,
    "a million wrong pods": HEAD + b'"usage":{},"pods":[' + b"{}," * 1_000_000 + b"{}]}",
    "a million numbers as pods": HEAD + b'"usage":{},"pods":[' + b"0," * 1_000_000 + b"0]}",
    "too many pods": HEAD + b'"usage":{},"pods":[' + (POD + b",") * 60_000 + POD + b"]}",
    "many wrong resources": HEAD
    + b'"usage":{'
    + b",".join(b'"r%d":-1' % i for i in range(200_000))
    + b"}}",
    "many unknown fields": HEAD + b",".join(b'"x%d":[]' % i for i in range(200_000)) + b"}",
    "a huge number": HEAD + b'"usage":{"cpu":' + b"9" * 3_000_000 + b"}}",
    "a number just below what a parser takes": HEAD + b'"usage":{"cpu":' + b"9" * 4_290 + b"}}",
    "a huge exponent": HEAD + b'"usage":{"cpu":1e' + b"9" * 1_000_000 + b"}}",
    "a huge fraction": HEAD + b'"usage":{"cpu":0.' + b"1" * 3_000_000 + b"}}",
    "a long name": HEAD + b'"usage":{"' + b"x" * 3_000_000 + b'":1}}',
    "a long text": b'{"node":"' + b"\\u202e" * 500_000 + b'"}',
    "over the limit": b'"' + b"x" * 5_000_000 + b'"',
}


@pytest.mark.parametrize("name", LARGE)
def test_large_records_are_refused(name: str) -> None:
    assert isinstance(decode_checked("node-usage", LARGE[name]), Refusal)


@pytest.mark.parametrize("row", ROW_CLASSES.values(), ids=lambda row: row.__name__)
def test_rows_are_read_like_records(row: type[BaseModel]) -> None:
    for value in (b"", b"\xff", b"null", b"[" * 100_000, None):
        answer = decode_as(row, value)
        assert isinstance(answer, Refusal)
        assert 0 < len(answer.reason) <= REASON_CHARS_MAX
