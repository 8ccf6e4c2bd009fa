"""Where two values differ, in names that a reader finds again."""

import json
from typing import Any

import pytest
from hypothesis import given

from streams.replay.diff import NOTHING, PATHS_MAX, TEXT_CHARS_MAX, at, compare, parsed, shown
from tests.strategies import json_values


@pytest.mark.parametrize(
    ("recorded", "replayed", "names"),
    [
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ["a.b[1]"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a[1]"]),
        ({"a": [1]}, {"a": {"0": 1}}, ["a"]),
        ({"a": None}, {}, ["a"]),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, ["a", "b"]),
        ({"a": 1}, {"a": 1.0}, ["a"]),
        ({"a": 1}, {"a": True}, ["a"]),
        ([{"a": 1}], [{"a": 2}], ["[0].a"]),
        ({"a": 1}, NOTHING, ["the whole"]),
        (b"no JSON", {"a": 1}, ["the whole"]),
        ({"a": 1}, {"a": 1}, ["the whole"]),
    ],
)
def test_paths_lead_to_what_differs(recorded: Any, replayed: Any, names: list[str]) -> None:
    assert [difference.name for difference in compare(recorded, replayed)] == names


@given(json_values(), json_values())
def test_both_sides_stand_at_their_paths(recorded: Any, replayed: Any) -> None:
    for difference in compare(recorded, replayed):
        assert at(recorded, difference.path) is difference.recorded
        assert at(replayed, difference.path) is difference.replayed


def test_no_more_paths_are_named_than_anybody_reads() -> None:
    assert len(compare(list(range(100)), list(range(1, 101)))) == PATHS_MAX


@given(json_values())
def test_a_value_is_shown_in_a_line_of_bounded_length(value: Any) -> None:
    text = shown(value)
    assert "\n" not in text
    assert len(text) <= TEXT_CHARS_MAX + 40
    assert text == json.dumps(value, ensure_ascii=False) or " ... " in text


def test_what_is_no_json_is_shown_as_bytes_and_what_is_not_there_is_said() -> None:
    assert shown(parsed(b"\xff[")) == repr(b"\xff[")
    assert shown(NOTHING) == "nothing"
