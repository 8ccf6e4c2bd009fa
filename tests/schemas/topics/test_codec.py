"""Encoded messages are decoded again, and refusals have a reason."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal, check_not_future
from schemas.base.validation_errors import ERRORS_MAX
from schemas.messages.clock import ClockTick
from schemas.messages.lists import ListBegin
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import decode, decode_as, encode
from tests.strategies import MESSAGE_CLASSES, messages

NOW_MS = 1_760_000_000_000
SAMPLE: dict[str, Any] = {
    "schema_version": 1,
    "cluster": "prod-eu",
    "node": "node-1",
    "sampled_at_ms": NOW_MS,
    "usage": {"cpu": 1500, "memory": 4_000_000_000},
    "pods": [
        {"namespace": "shop", "name": "web-1", "uid": "u-1", "usage": {"cpu": 100}},
        {"namespace": "shop", "name": "web-2", "uid": "u-2", "usage": {"cpu": 200}},
    ],
}


def sample_with(path: str, value: Any) -> bytes:
    """Return the sample as JSON with one field changed, or removed if the value is `...`."""
    changed = json.loads(json.dumps(SAMPLE))
    target = changed
    *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in above:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return json.dumps(changed).encode()


def decode_refused(topic: str, value: bytes | None) -> Refusal:
    answer = decode(topic, value)
    assert isinstance(answer, Refusal), answer
    return answer


@pytest.mark.parametrize("message_class", MESSAGE_CLASSES, ids=lambda cls: cls.__name__)
def test_encoded_messages_are_decoded_again(message_class: type[BaseModel]) -> None:
    @settings(max_examples=30)
    @given(messages(message_class))
    def round_trip(message: BaseModel) -> None:
        value = encode(message)
        assert decode_as(message_class, value) == message
        assert encode(message) == value

    round_trip()


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), min_size=2), st.randoms())
def test_equal_messages_are_equal_bytes(usage: dict[str, int], random: Any) -> None:
    shuffled = list(usage.items())
    random.shuffle(shuffled)
    one, other = (
        NodeUsage(cluster="c", node="n", sampled_at_ms=NOW_MS, usage=amounts)
        for amounts in (usage, dict(shuffled))
    )
    assert one == other
    assert encode(one) == encode(other)


def test_a_union_of_records_is_decoded_by_kind() -> None:
    begin = ListBegin(cluster="c", list_id="l-1")
    assert decode("node-state", encode(begin)) == begin
    assert decode("pod-lifecycle", encode(begin)) == begin


def test_readers_ignore_unknown_fields() -> None:
    assert decode("node-usage", sample_with("colour", ["NaN", {}])) == decode(
        "node-usage", json.dumps(SAMPLE).encode()
    )


def test_the_last_of_repeated_names_counts() -> None:
    value = b'{"partition":0,"now_ms":946684800000,"now_ms":1760000000000}'
    assert decode("clock", value) == ClockTick(partition=0, now_ms=NOW_MS)


NAME = 'a string of 1 to 253 characters without "/", blanks and control characters'
AMOUNT = "an integer from 0 to 1125899906842624"
AS_INTEGER = "written without fraction and exponent"


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("usage.cpu", -5, f"usage.cpu is -5; allowed is {AMOUNT}"),
        ("usage.cpu", float("nan"), f"usage.cpu is NaN; allowed is {AMOUNT}"),
        ("usage.cpu", float("inf"), f"usage.cpu is Infinity; allowed is {AMOUNT}"),
        ("usage.cpu", 1.5, f"usage.cpu is 1.5; allowed is {AMOUNT}"),
        ("usage.cpu", 1e3, f"usage.cpu is 1000.0; allowed is {AMOUNT}, {AS_INTEGER}"),
        ("node", 1.0, f"node is 1.0; allowed is {NAME}"),
        ("usage.cpu", "12", f'usage.cpu is "12"; allowed is {AMOUNT}'),
        ("usage.cpu", True, f"usage.cpu is true; allowed is {AMOUNT}"),
        ("usage.cpu", None, f"usage.cpu is null; allowed is {AMOUNT}"),
        ("usage.cpu", 2**63, f"usage.cpu is 9223372036854775808; allowed is {AMOUNT}"),
        ("usage.cpu", 2**50 + 1, f"usage.cpu is 1125899906842625; allowed is {AMOUNT}"),
        ("usage.cpu", 10**400, f"usage.cpu is an integer of 1329 bits; allowed is {AMOUNT}"),
        ("usage", ..., "usage is missing; allowed is an object of at most 64 entries"),
        ("usage", [1], "usage is an array of 1 items; allowed is an object of at most 64 entries"),
        (
            "usage",
            {f"r{i}": 1 for i in range(65)},
            "usage is an object of 65 fields; allowed is an object of at most 64 entries",
        ),
        (
            "usage.a b",
            1,
            'a name in usage is "a b"; allowed is a string of 1 to 317 characters without blanks'
            " and control characters",
        ),
        (
            "usage.nvidia/gpu",
            -1,
            f'usage["nvidia/gpu"] is -1; allowed is {AMOUNT}',
        ),
        ("pods.1.uid", ..., "pods[1].uid is missing; allowed is a string of 1 to 128 characters"),
        ("pods.1.uid", "", 'pods[1].uid is ""; allowed is a string of 1 to 128 characters'),
        ("pods.0", 7, "pods[0] is 7; allowed is an object"),
        ("pods", {}, "pods is an object of 0 fields; allowed is an array of at most 2000 items"),
        ("node", "a/b", f'node is "a/b"; allowed is {NAME}'),
        ("node", "\u202e\n", f'node is "\\u202e\\n"; allowed is {NAME}'),
        ("node", "x" * 300, f'node is "{"x" * 60}..." (300 characters); allowed is {NAME}'),
        (
            "sampled_at_ms",
            1_760_000_000,
            "sampled_at_ms is 1760000000; allowed is an integer from 946684800000 to 4102444800000"
            " (ms since 1970-01-01 UTC)",
        ),
        ("schema_version", 2, "schema_version is 2; known versions: 1"),
        ("schema_version", "1", 'schema_version is "1"; known versions: 1'),
        ("schema_version", True, "schema_version is true; known versions: 1"),
        ("schema_version", 1.0, "schema_version is 1.0; known versions: 1"),
    ],
)
def test_a_refusal_names_the_field_its_value_and_the_allowed_values(
    path: str, value: Any, reason: str
) -> None:
    assert decode_refused("node-usage", sample_with(path, value)) == Refusal("invalid", reason)


def test_invalid_or_negative_quantities_are_refused() -> None:
    request = {"cluster": "c", "requested_at_ms": NOW_MS}
    pod = {"namespace": "a", "name": "b", "uid": "c"}
    for text in ("-250m", "1 Gi", "Gi", ""):
        container = {"requests": {"cpu": text}}
        value = json.dumps(request | {"pod": pod | {"containers": [container]}}).encode()
        assert decode_refused("scheduling-requests", value).reason == (
            f'pod.containers[0].requests.cpu is "{text}"; allowed is a Kubernetes quantity such as'
            " 250m, 1.5Gi or 1e3, not below 0"
        )


@pytest.mark.parametrize(
    ("value", "kind_text"),
    [({}, "missing"), ({"kind": "pod"}, '"pod"'), ({"kind": 3}, "3"), ({"kind": None}, "null")],
)
def test_an_unknown_kind_is_refused_with_the_known_kinds(value: Any, kind_text: str) -> None:
    assert decode_refused("node-state", json.dumps(value).encode()).reason == (
        f'kind is {kind_text}; allowed is one of "list-begin", "list-end", "node"'
    )
    assert (
        decode_refused("node-state", b"[]").reason
        == "the record is an array of 0 items; allowed is an object"
    )


def test_an_unknown_version_is_the_only_reported_problem() -> None:
    assert decode_refused("node-usage", b'{"schema_version":7,"node":0}').reason == (
        "schema_version is 7; known versions: 1"
    )
    assert decode_refused("node-state", b'{"kind":"node","schema_version":7}').reason == (
        "schema_version is 7; known versions: 1"
    )


def test_five_problems_are_reported_and_the_others_counted() -> None:
    reason = decode_refused("placement-decisions", b"{}").reason
    assert reason.count(" is missing; ") == ERRORS_MAX
    assert reason.endswith("; and 1 more")


def test_only_the_first_bad_item_of_a_list_is_reported() -> None:
    value = sample_with("pods", [{"uid": "u"}, 1, 2, 3])
    assert "pods[0]" in decode_refused("node-usage", value).reason
    assert "pods[1]" not in decode_refused("node-usage", value).reason


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"  ", b"{", b"\xff\xfe", b'{"node":"\xff"}', b"\xef\xbb\xbf{}", b"\x00" * 9, b"{} {}",
        b'{"node":"\\ud800"}', b'{"x":' + b"9" * 10_000 + b"}", b"[" * 100_000,
        b'{"x":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b"{'node':1}", b'{"a":1,}', b"NaNa",
    ],
)  # fmt: skip
def test_text_that_is_not_json_is_unreadable(value: bytes | None) -> None:
    refusal = decode_refused("node-usage", value)
    assert refusal.category == "unreadable"
    assert len(refusal.reason) < 400
    assert "expected a JSON object" in refusal.reason


@pytest.mark.parametrize("value", [b"null", b"[]", b'"text"', b"12", b"NaN", b"-Infinity", b"true"])
def test_json_that_is_no_object_is_invalid(value: bytes) -> None:
    refusal = decode_refused("node-usage", value)
    assert refusal.category == "invalid"
    assert refusal.reason.endswith("; allowed is an object")


def test_a_value_above_the_limit_is_not_parsed() -> None:
    refusal = decode_refused("node-usage", b" " * (VALUE_BYTES_MAX + 1))
    assert refusal.category == "limit"
    assert str(VALUE_BYTES_MAX) in refusal.reason


def test_a_time_far_in_the_future_is_refused() -> None:
    assert check_not_future(NOW_MS + 300_000, NOW_MS, 300_000) is None
    assert check_not_future(NOW_MS - 1, NOW_MS, 0) is None
    refusal = check_not_future(NOW_MS + 300_001, NOW_MS, 300_000)
    assert refusal is not None
    assert refusal.category == "future"
    assert refusal.reason == (
        f"sampled_at_ms is {NOW_MS + 300_001}, 300001 ms after {NOW_MS}, the newest time known here;"
        " allowed are at most 300000 ms: check the clock of the producer"
    )
    other = check_not_future(NOW_MS + 1, NOW_MS, 0, field="updated_at_ms")
    assert other is not None
    assert other.reason.startswith("updated_at_ms is ")
