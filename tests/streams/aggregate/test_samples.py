from typing import Any

import pytest

from streams.aggregate.samples import SampleFigures
from streams.aggregate.samples import extract_figures as reading_of
from tests.streams.builders import pod_usage, read_sample, sample

READINGS = {"usage_without_page_cache_bytes": 1, "usage_with_page_cache_bytes": 3}


def reading(memory_field: str = "usage_without_page_cache_bytes", **fields: Any) -> SampleFigures:
    return reading_of(read_sample(sample(0, **fields)), b"value", memory_field)


@pytest.mark.parametrize(
    ("field", "memory_is", "readings", "expected"),
    [
        ("usage_without_page_cache_bytes", "workingSet", None, "workingSet"),
        ("usage_without_page_cache_bytes", "workingSet", READINGS, "anonymous"),
        ("usage_without_page_cache_bytes", "notAvailable", READINGS, "notAvailable"),
        ("usage_with_page_cache_bytes", "workingSet", READINGS, "withPageCache"),
        ("usage_with_page_cache_bytes", None, None, None),
    ],
)
def test_the_definition_of_memory_follows_from_source_and_reading(
    field: str, memory_is: str | None, readings: dict[str, int] | None, expected: str | None
) -> None:
    assert reading(field, memory_is=memory_is, memory=readings).facts.get("memory_is") == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": {"cpu": 0, "memory": 0}},
        {"usage": {"cpu": 100}, "memory": {"usage_without_page_cache_bytes": 0}},
        {
            "usage": {"cpu": 0, "memory": 0},
            "capacity": {"memory": 9},
            "system_usage": {"memory": 5},
        },
    ],
)
def test_a_node_without_memory_is_impossible(fields: dict[str, Any]) -> None:
    figures = reading(**fields)
    assert "memory: measured 0" in str(figures.find_impossible(fields.get("capacity", {})))


def test_pods_without_memory_are_left_out_and_counted() -> None:
    pods = [pod_usage("web", 50, usage={"cpu": 50, "memory": 7}), pod_usage("ghost", 9)]
    pods += [pod_usage("ending", 0, usage={"cpu": 0, "memory": 0})]
    figures = reading(usage={"cpu": 80, "memory": 10}, pods=pods)
    assert [member[1] for member, _ in figures.members] == ["web", "ghost"]
    assert figures.unmeasured_pods == 1
