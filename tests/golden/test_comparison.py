"""Answers agree if their rounds are equal; of an error only that there is one counts."""

from typing import Any

import pytest

from tests.golden.comparison import agree

_ROUND = {"default/p": {"node-1": {"filter": "ok", "score": 50}}}


@pytest.mark.parametrize(
    ("expected", "found", "agreed"),
    [
        ({"rounds": [_ROUND]}, {"rounds": [_ROUND]}, True),
        ({"rounds": []}, {"rounds": [_ROUND]}, False),
        ({"rounds": [_ROUND]}, {"error": "no"}, False),
        ({"error": "this"}, {"error": "that"}, True),
        ({"error": "this"}, {"rounds": [_ROUND]}, False),
    ],
)
def test_of_two_errors_only_that_they_are_errors_is_compared(
    expected: Any, found: Any, agreed: bool
) -> None:
    assert agree(expected, found) is agreed
