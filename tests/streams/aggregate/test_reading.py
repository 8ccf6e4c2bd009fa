from typing import Any

import pytest

from streams.aggregate.reading import SampleFigures
from streams.aggregate.reading import read as reading_of
from tests.streams.aggregate.builders import T0, pod, read, sample

READINGS = {"usage_without_page_cache_bytes": 1, "usage_with_page_cache_bytes": 3}


def reading(memory_field: str = "usage_without_page_cache_bytes", **fields: Any) -> SampleFigures:
    return reading_of(read(sample(T0, **fields)), b"value", memory_field)


@pytest.mark.parametrize(("field", "memory"), READINGS.items())
def test_the_policy_picks_the_memory_reading_everywhere(field: str, memory: int) -> None:
    subject = reading(
        field,
        usage={"cpu": 5, "memory": 99},
        memory=READINGS,
        pods=[pod("a", 1, memory=READINGS)],
        host_applications=[{"name": "x", "usage": {"memory": 99}, "memory": READINGS}],
    )
    assert subject.usage == {"cpu": 5, "memory": memory}
    assert [amounts["memory"] for _, amounts in subject.members] == [memory, memory]


def test_where_the_picked_reading_is_missing_the_plain_memory_stands() -> None:
    other = {"usage_with_page_cache_bytes": 3}
    assert reading(usage={"memory": 99}, memory=other).usage == {"memory": 99}
    assert reading(usage={"cpu": 1}, memory=other).usage == {"cpu": 1}


@pytest.mark.parametrize(
    ("field", "given", "readings", "expected"),
    [
        ("usage_without_page_cache_bytes", "workingSet", None, "workingSet"),
        ("usage_without_page_cache_bytes", "workingSet", READINGS, "anonymous"),
        ("usage_without_page_cache_bytes", "notAvailable", READINGS, "notAvailable"),
        ("usage_with_page_cache_bytes", "workingSet", READINGS, "withPageCache"),
        ("usage_with_page_cache_bytes", None, None, None),
    ],
)
def test_what_memory_counts_follows_from_the_source_and_from_the_reading(
    field: str, given: str | None, readings: dict[str, int] | None, expected: str | None
) -> None:
    assert reading(field, memory_is=given, memory=readings).memory_is == expected


def test_the_system_part_is_what_is_left_of_the_node() -> None:
    subject = reading(
        usage={"cpu": 100, "memory": 10},
        pods=[pod("a", 30), pod("b", 20, usage={"cpu": 20, "gpu": 1})],
        host_applications=[{"name": "x", "usage": {"cpu": 5, "memory": 11}}],
    )
    assert subject.system == {"cpu": 45, "memory": 0}
    assert subject.resources == {"cpu", "memory", "gpu"}


def test_a_system_part_that_is_given_stands() -> None:
    assert reading(system_usage={"cpu": 7}, pods=[pod("a", 1)]).system == {"cpu": 7}
    assert reading(system_usage={}, pods=[pod("a", 1)]).system == {}


def test_what_is_missing_stays_unknown() -> None:
    subject = reading(usage={"cpu": 100}, pods=[pod("a", 0, usage={})])
    assert subject.system == {"cpu": 100}
    assert subject.members == [(("default", "a", "uid-a", ""), {})]


def test_pressure_is_kept_as_shares() -> None:
    some = {"avg10_bp": 1, "avg60_bp": 2, "avg300_bp": 3}
    pressure = {"memory": {"some": {**some, "total_us": 9}, "full": {**some, "total_us": 9}}}
    assert reading(pressure=pressure).pressure == {"memory": {"some": some, "full": some}}


def test_without_pressure_there_is_none() -> None:
    assert reading().pressure is None
    assert reading(pressure={}).pressure is None
