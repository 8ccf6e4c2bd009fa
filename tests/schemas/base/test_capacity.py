"""The capacity of a node according to Kubernetes and to Koordinator's annotation."""

import pytest

from schemas.base.capacity import merge_raw_allocatable, parse_raw_allocatable

RAW_ALLOCATABLE = "node.koordinator.sh/raw-allocatable"
GI = 1024**3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cpu": "8", "memory": "16Gi"}', {"cpu": 8000, "memory": 16 * GI}),
        ('{"cpu": 8}', {"cpu": 8000}),
        ('{"cpu": 5.5}', {"cpu": 5500}),
        ('{"cpu": 1e1}', {"cpu": 10_000}),
        ('{"cpu": null}', {"cpu": 0}),
        ('{"cpu": " 8 "}', {"cpu": 8000}),
        ('{"cpu": "-2"}', {"cpu": -2000}),
        ('{"memory": "1500m"}', {"memory": 2}),
        ('{"memory": "9e99"}', {"memory": 2**63 - 1}),
        ("{}", {}),
        ("null", None),
        ("", None),
        ("{", None),
        ("[]", None),
        ('"8"', None),
        ('{"cpu": "8", "memory": "many"}', None),
        ('{"cpu": true}', None),
        ('{"cpu": NaN}', None),
        ('{"cpu": {"value": 8}}', None),
        ('{"cpu": ' + "9" * 5000 + "}", None),
        ("[" * 100_000, None),
    ],
)
def test_an_unreadable_amount_invalidates_the_raw_allocatable(
    text: str, expected: dict[str, int] | None
) -> None:
    assert parse_raw_allocatable({RAW_ALLOCATABLE: text}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"cpu": "x", "cpu": "10"}', None),
        ('{"cpu": true, "memory": "1", "cpu": "10"}', None),
        ('{"cpu": "", "cpu": null}', None),
        ('{"cpu": "4", "cpu": "10"}', {"cpu": 10_000}),
        ('{"cpu": "4", "cpu": null}', {"cpu": 0}),
    ],
)
def test_an_unreadable_amount_invalidates_the_raw_allocatable_despite_a_later_value(
    text: str, expected: dict[str, int] | None
) -> None:
    assert parse_raw_allocatable({RAW_ALLOCATABLE: text}) == expected


def test_a_node_without_the_annotation_has_no_raw_allocatable() -> None:
    assert parse_raw_allocatable({}) is None


def test_the_annotation_takes_precedence_over_allocatable() -> None:
    allocatable = {"cpu": 20_000, "memory": 16 * GI}
    raw = {RAW_ALLOCATABLE: '{"cpu": "10"}'}
    assert merge_raw_allocatable(allocatable, raw) == {"cpu": 10_000, "memory": 16 * GI}
    assert merge_raw_allocatable(allocatable, {}) == allocatable
