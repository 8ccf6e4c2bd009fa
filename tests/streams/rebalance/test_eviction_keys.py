"""The keys by which pods are ordered."""

from typing import Any

import pytest

from schemas.messages.pods import Container
from streams.pods.kind import kind_of
from streams.rebalance.eviction_keys import (
    Keys,
    compute_eviction_keys,
    compute_qos_class,
    parse_cost,
)
from tests.streams.builders import container, pod


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (None, 0),
        ("", 0),
        ("0", 0),
        ("5", 5),
        ("-5", -5),
        ("-05", -5),
        ("007", 0),
        ("00", 0),
        ("+5", 0),
        (" 5", 0),
        ("5 ", 0),
        ("-", 0),
        ("--5", 0),
        ("5.0", 0),
        ("1e3", 0),
        ("1_000", 0),
        ("٣", 0),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("-2147483649", 0),
        ("9" * 5_000, 0),
    ],
)
def test_a_cost_that_is_not_an_integer_is_ignored(text: str | None, number: int) -> None:
    """docs/reference/upstream.md B5."""
    assert parse_cost(text) == number


@pytest.mark.parametrize(
    ("containers", "init", "quality"),
    [
        ([container()], [], "BestEffort"),
        ([container({"cpu": "0"})], [], "BestEffort"),
        ([container({"example.com/gpu": "1"})], [], "BestEffort"),
        ([container({"cpu": "1"})], [], "Burstable"),
        ([container()], [container({}, {"memory": "1Gi"})], "Burstable"),
        ([container({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"})], [], "Guaranteed"),
        ([container({"cpu": "1000m", "memory": "1Gi"}, {"cpu": "1", "memory": "1024Mi"})], [], "Guaranteed"),
        ([container({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"})], [], "Burstable"),
        ([container({}, {"cpu": "1", "memory": "1Gi"})], [], "Burstable"),
        ([container({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}), container()], [], "Burstable"),
    ],
)  # fmt: skip
def test_quality_of_service_is_what_kubernetes_computes(
    containers: list[Container], init: list[Container], quality: str
) -> None:
    of = pod(containers=tuple(containers), init_containers=tuple(init))
    assert compute_qos_class(of) == quality


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        ({}, (4, 0, 3, 3, 0, 0)),
        ({"containers": ()}, (2, 0, 1, 1, 0, 0)),
        ({"priority": 3_500}, (1, 3_500, 3, 3, 0, 0)),
        ({"priority": 7_500, "qos_class": "Burstable"}, (3, 7_500, 2, 2, 0, 0)),
        ({"labels": {"koordinator.sh/qosClass": "SYSTEM"}}, (4, 0, 3, 4, 0, 0)),
        ({"labels": {"koordinator.sh/qosClass": "LSE"}}, (4, 0, 3, 4, 0, 0)),
        ({"labels": {"koordinator.sh/qosClass": "unheard of"}}, (4, 0, 3, 3, 0, 0)),
    ],
)
def test_a_pod_is_ordered_by_class_priority_quality_of_service_and_costs(
    fields: dict[str, Any], keys: Keys
) -> None:
    of = pod(**fields)
    assert compute_eviction_keys(of, kind_of(of)) == keys
