from typing import Any

import pytest

from tests.golden.objects import time_ms
from tests.golden.times import in_milliseconds


def test_times_of_whole_milliseconds_are_left_alone() -> None:
    scenario = {"now": "2026-08-03T12:00:00.25Z", "nodes": [{"createdAt": "2026-08-03T11:00:00Z"}]}
    assert in_milliseconds(scenario) is scenario


def test_finer_times_keep_their_order_also_by_whole_seconds() -> None:
    texts = [
        "2026-08-03T11:57:00.000300Z",
        "2026-08-03T11:57:00.0004Z",
        "2026-08-03T12:00:00.000300Z",
        "2026-08-03T12:00:00.000399Z",
        "2026-08-03T12:00:00.0004Z",
    ]
    scenario: Any = {"now": texts[3], "rounds": [{"updateTime": text} for text in texts]}
    found = in_milliseconds(scenario)
    young, old, *rest = [time_ms(item["updateTime"]) for item in found["rounds"]]
    assert young is not None
    assert old is not None
    # After 180 s the first is as old, the second is not yet.
    assert [each - young >= 180_000 for each in rest if each] == [True, True, True]
    assert [each - old >= 180_000 for each in rest if each] == [False, False, True]
    assert found["now"] == found["rounds"][3]["updateTime"]


def test_pods_created_within_a_millisecond_are_told_apart() -> None:
    pods = [{"createdAt": f"2026-08-03T12:00:00.{part}Z"} for part in ("000002", "000001", "5")]
    times = [time_ms(pod["createdAt"]) for pod in in_milliseconds({"pods": pods})["pods"]]
    assert sorted(range(3), key=lambda index: times[index] or 0) == [1, 0, 2]


def test_more_parts_of_a_second_than_can_be_told_apart_are_refused() -> None:
    pods = [{"createdAt": f"2026-08-03T12:00:00.{part:06}Z"} for part in range(1_001)]
    with pytest.raises(ValueError, match="1001 parts of a second"):
        in_milliseconds({"pods": pods})
