import json
from typing import Any

import pytest

from streams.usage.thresholds import (
    AggregatedThresholds,
    NodeThresholds,
    read_node_thresholds,
)
from tests.streams.builders import THRESHOLDS

P95 = AggregatedThresholds({"cpu": 70}, "p95", 300_000)
DEFAULTS = NodeThresholds(plain={"cpu": 65, "memory": 95}, prod={"cpu": 50}, aggregated=P95)


def read(text: str) -> NodeThresholds:
    return read_node_thresholds({THRESHOLDS: text}, DEFAULTS)


def test_a_node_without_the_annotation_has_the_thresholds_of_the_policy() -> None:
    assert read_node_thresholds({}, DEFAULTS) is DEFAULTS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "5",
        '"x"',
        '{"usageThresholds": {"cpu": "65"}}',
        '{"usageThresholds": {"cpu": 65.0}}',
        '{"usageThresholds": {"cpu": 65.5}}',
        '{"usageThresholds": {"cpu": NaN}}',
        '{"usageThresholds": {"cpu": 9223372036854775808}}',
        '{"usageThresholds": [65]}',
        '{"usageThresholds": {"cpu": 1}, "prodUsageThresholds": 5}',
        '{"usageThresholds": {"cpu": 1}, "aggregatedUsage": []}',
        '{"usageThresholds": {"cpu": 1}, "aggregatedUsage": {"usageAggregationType": 95}}',
        '{"usageThresholds": {"cpu": 1}, "aggregatedUsage": {"usageAggregatedDuration": 300}}',
        '{"usageThresholds": {"cpu": 1}, "aggregatedUsage": {"usageAggregatedDuration": "5 min"}}',
        '{"usageThresholds": {"cpu": ' + "9" * 5000 + "}}",
        "[" * 100_000,
    ],
)
def test_an_annotation_that_cannot_be_read_is_ignored_whole(text: str) -> None:
    assert read(text) == DEFAULTS


@pytest.mark.parametrize(
    ("written", "plain", "prod"),
    [
        ({}, None, None),
        (None, None, None),
        ({"usageThresholds": {"cpu": 30}}, {"cpu": 30}, None),
        ({"prodUsageThresholds": {"memory": 30}}, None, {"memory": 30}),
        ({"usageThresholds": {}, "prodUsageThresholds": None}, None, None),
        ({"usageThresholds": {"cpu": None}}, {"cpu": 0}, None),
        ({"usageThresholds": {"cpu": 150}}, {"cpu": 150}, None),
        ({"usageThresholds": {"cpu": -5}}, {"cpu": -5}, None),
        ({"USAGETHRESHOLDS": {"cpu": 30}}, {"cpu": 30}, None),
        ({"unknown": {"cpu": 30}}, None, None),
    ],
)
def test_each_part_that_is_given_replaces_that_part(
    written: Any, plain: dict[str, int] | None, prod: dict[str, int] | None
) -> None:
    thresholds = read(json.dumps(written))
    assert thresholds.plain == (DEFAULTS.plain if plain is None else plain)
    assert thresholds.prod == (DEFAULTS.prod if prod is None else prod)
    assert thresholds.aggregated == P95


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            '{"usageThresholds": {"cpu": 1}, "usageThresholds": {"memory": 2}}',
            {"cpu": 1, "memory": 2},
        ),
        ('{"usageThresholds": {"cpu": 1}, "USAGEThresholds": {"cpu": 2}}', {"cpu": 2}),
        ('{"usageThresholds": {"cpu": 1}, "u\u017fagethresholds": {"cpu": 2}}', {"cpu": 2}),
        ('{"usageThresholds": {"cpu": 1}, "usageThresholds": null}', None),
        ('{"usageThresholds": {"cpu": 1}, "x": NaN}', None),
        ('{"usageThresholds": {"cpu": 1}, "x": -Infinity}', None),
        ('{"usageThresholds": {"cpu": 1}, "usageThresholds": {"memory": "2"}}', None),
    ],
)
def test_fields_are_read_one_after_the_other_as_go_does(
    text: str, plain: dict[str, int] | None
) -> None:
    """docs/reference/upstream.md A6."""
    assert read(text).plain == (DEFAULTS.plain if plain is None else plain)


def test_repeated_parts_of_aggregated_usage_are_merged() -> None:
    text = """{"aggregatedUsage": {"usageThresholds": {"cpu": 30}, "usageAggregatedDuration": "5m"},
        "aggregatedUsage": {"usageAggregationType": "p50", "usageAggregatedDuration": null}}"""
    assert read(text).aggregated == AggregatedThresholds({"cpu": 30}, "p50", 0)
    forgotten = text.replace(
        '"aggregatedUsage": {"usageAgg', '"aggregatedUsage": null, "aggregatedUsage": {"usageAgg'
    )
    assert read(forgotten).aggregated == P95
