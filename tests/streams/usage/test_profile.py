import json
from typing import Any

import pytest

from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts
from schemas.messages.nodes import NodeState
from streams.usage.rounding import UNBOUNDED
from streams.usage.thresholds import (
    NodeProfile,
    NodeThresholds,
    build_profile,
)
from tests.streams.builders import GI, RAW_ALLOCATABLE, THRESHOLDS, node

RESOURCES = ("cpu", "gpu", "memory")
DEFAULTS = NodeThresholds(plain={"cpu": 65, "memory": 95}, prod={}, aggregated=None)


def profile_of(state: NodeState, defaults: NodeThresholds = DEFAULTS) -> NodeProfile:
    capacity = merge_raw_allocatable(parse_amounts(state.allocatable), state.annotations)
    return build_profile(capacity, state.annotations, RESOURCES, defaults)


def annotated(thresholds: Any = None, raw: Any = None) -> dict[str, str]:
    texts = {THRESHOLDS: thresholds, RAW_ALLOCATABLE: raw}
    return {name: json.dumps(value) for name, value in texts.items() if value is not None}


def test_a_node_that_kubernetes_has_not_named_has_no_capacity() -> None:
    profile = build_profile({}, {}, RESOURCES, DEFAULTS)
    assert profile.total == (0, 0, 0)
    assert profile.usage_max == (UNBOUNDED,) * 3
    assert profile.prod_usage_max is None


def test_allocatable_is_given_per_resource() -> None:
    profile = profile_of(node(cpu="10"))
    assert profile.total == (10_000, 0, 32 * GI)
    assert profile.usage_max is not None
    assert profile.usage_max[:2] == (6549, UNBOUNDED)


@pytest.mark.parametrize(
    ("raw", "total"),
    [
        ({}, (8000, 0, 32 * GI)),
        ({"cpu": "10"}, (10_000, 0, 32 * GI)),
        ({"cpu": "10", "gpu": "2", "pods": "1"}, (10_000, 2, 32 * GI)),
        ({"cpu": None}, (0, 0, 32 * GI)),
        ({"cpu": "10", "memory": "x"}, (8000, 0, 32 * GI)),
    ],
)
def test_raw_allocatable_is_merged_resource_by_resource(raw: Any, total: tuple[int, ...]) -> None:
    state = node(annotations=annotated(raw=raw))
    assert profile_of(state).total == total
