from typing import Any

import pytest

from streams.aggregate.samples import SampleFigures
from streams.aggregate.samples import extract_figures as reading_of
from tests.streams.builders import read_sample, sample

READINGS = {"usage_without_page_cache_bytes": 1, "usage_with_page_cache_bytes": 3}


def reading(memory_field: str = "usage_without_page_cache_bytes", **fields: Any) -> SampleFigures:
    return reading_of(read_sample(sample(0, **fields)), b"value", memory_field)


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
def test_the_definition_of_memory_follows_from_source_and_reading(
    field: str, given: str | None, readings: dict[str, int] | None, expected: str | None
) -> None:
    assert reading(field, memory_is=given, memory=readings).facts.get("memory_is") == expected
