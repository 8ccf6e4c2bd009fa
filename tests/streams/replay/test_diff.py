"""Where two values differ, in names that a reader finds again."""

from typing import Any

import pytest

from streams.replay.diff import NOTHING, compare_values


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
        ({"a": 1}, NOTHING, ["the whole value"]),
        (b"no JSON", {"a": 1}, ["the whole value"]),
        ({"a": 1}, {"a": 1}, ["the whole value"]),
    ],
)
def test_paths_lead_to_the_differences(recorded: Any, replayed: Any, names: list[str]) -> None:
    assert [difference.name for difference in compare_values(recorded, replayed)] == names
