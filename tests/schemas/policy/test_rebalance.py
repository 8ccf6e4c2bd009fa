"""LowNodeLoadArgs are read as Koordinator reads them, or by the stricter rules of loadstream."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.policy import Compat, LowNodeLoadArgs, PolicyError
from schemas.policy.sections.rebalance import DEFAULT_POOL
from tests.plugin_arguments import low_node_load_args
from tests.schemas.policy.harness import problems

GOLDEN = Path(__file__).parents[2] / "golden" / "lownodeload.jsonl.gz"
EAST = {"matchLabels": {"zone": "east"}}
BOTH = {"lowThresholds": {"cpu": 30}, "highThresholds": {"cpu": 60}}


def anomaly(args: LowNodeLoadArgs) -> tuple[int, int, int]:
    condition = args.anomaly_condition
    assert condition is not None
    return (
        condition.consecutive_abnormalities,
        condition.consecutive_normalities,
        condition.timeout_ms,
    )


def test_exactly_the_arguments_that_koordinator_refuses_are_refused() -> None:
    differences = []
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        name, refused = case["scenario"]["name"], "error" in case["expected"]
        try:
            low_node_load_args(case["scenario"]["args"], "koordinator").pools("koordinator")
        except PolicyError as error:
            if not refused:
                differences.append(f"{name}: refused: {error}")
        else:
            if refused:
                differences.append(f"{name}: read, but: {case['expected']['error']}")
    assert differences == []


def test_defaults_equal_those_of_koordinator() -> None:
    args = low_node_load_args({})
    assert args.node_fit is True
    assert args.node_metric_expiration_seconds == 180
    assert args.detector_cache_timeout_ms == 300_000
    assert args.resource_weights == {"cpu": 1, "memory": 1}
    assert anomaly(args) == (5, 3, 60_000)


@pytest.mark.parametrize(
    ("fields", "compat", "expected"),
    [
        ({"consecutiveAbnormalities": 2}, "koordinator", (2, 3, 60_000)),
        ({"consecutiveNormalities": 2}, "koordinator", (5, 2, 60_000)),
        ({"consecutiveAbnormalities": 2, "timeout": "-1s"}, "koordinator", (2, 3, 60_000)),
        ({}, "loadstream", (5, 3, 60_000)),
        ({"timeout": "2m"}, "loadstream", (5, 3, 120_000)),
    ],
)
def test_missing_counts_of_rounds_get_defaults(
    fields: dict[str, Any], compat: Compat, expected: tuple[int, int, int]
) -> None:
    assert anomaly(low_node_load_args({"anomalyCondition": fields}, compat)) == expected


def test_weights_are_completed_for_every_resource_with_a_threshold() -> None:
    raw = {
        "lowThresholds": {"cpu": 30, "pods": 10},
        "highThresholds": {"cpu": 60, "pods": 80},
        "resourceWeights": {"cpu": 4, "pods": -1, "example.com/gpu": 7},
    }
    weights = {"cpu": 4, "memory": 1, "pods": 1, "example.com/gpu": 7}
    assert low_node_load_args(raw).resource_weights == weights


def test_a_pool_inherits_whole_maps_but_neither_selector_nor_deviation() -> None:
    raw = {
        **BOTH,
        "nodeSelector": EAST,
        "useDeviationThresholds": True,
        "anomalyCondition": {"consecutiveAbnormalities": 7, "consecutiveNormalities": 4},
        "nodePools": [
            {"name": "a", "highThresholds": {"cpu": 90}},
            {
                "name": "b",
                "resourceWeights": {},
                "prodHighThresholds": {},
                "anomalyCondition": {"consecutiveAbnormalities": 2, "timeout": "0s"},
            },
        ],
    }
    default, first, second = low_node_load_args(raw, "koordinator").pools("koordinator")
    assert default.name == DEFAULT_POOL
    assert default.node_selector is not None
    assert default.use_deviation_thresholds
    assert first.high_thresholds == {"cpu": 90}
    assert first.low_thresholds == {"cpu": 30}
    assert first.resource_weights == {"cpu": 1, "memory": 1}
    assert first.node_selector is None
    assert not first.use_deviation_thresholds
    assert first.anomaly_condition == default.anomaly_condition
    assert second.resource_weights == {}
    assert second.prod_high_thresholds == {}
    condition = second.anomaly_condition
    assert condition is not None
    assert (condition.consecutive_abnormalities, condition.consecutive_normalities) == (2, 4)
    assert condition.timeout_ms == 60_000


def test_the_default_pool_is_last_and_first_with_compat_koordinator() -> None:
    raw = {**BOTH, "nodePools": [{"name": "a", "nodeSelector": EAST}]}
    order = {
        compat: [pool.name for pool in low_node_load_args(raw, compat).pools(compat)]
        for compat in ("koordinator", "loadstream")
    }
    assert order == {"koordinator": [DEFAULT_POOL, "a"], "loadstream": ["a", DEFAULT_POOL]}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"highThresholds": {"cpu": 60}}, "highThresholds.cpu"),
        ({"lowThresholds": {"cpu": 60}}, "lowThresholds.cpu"),
        ({**BOTH, "prodHighThresholds": {"cpu": 50}}, "prodHighThresholds.cpu"),
        ({**BOTH, "prodLowThresholds": {"cpu": 50}}, "prodLowThresholds.cpu"),
        (
            {**BOTH, "nodePools": [{"name": "a", "highThresholds": {"cpu": 60, "pods": 9}}]},
            "nodePools[0].highThresholds.pods",
        ),
        ({"nodePools": [{"nodeSelector": EAST}]}, "nodePools[0].name"),
        (
            {"nodePools": [{"name": "a", "nodeSelector": EAST}, {"name": "a"}]},
            "nodePools[1].name",
        ),
        ({"nodePools": [{"name": DEFAULT_POOL}]}, "nodePools[0].name"),
        ({"nodePools": [{"name": "a"}, {"name": "b"}]}, "nodePools[0].nodeSelector"),
    ],
)
def test_values_misread_by_koordinator_are_refused(raw: dict[str, Any], path: str) -> None:
    low_node_load_args(raw, "koordinator")
    assert list(problems(low_node_load_args, raw, "loadstream")) == [path]


def test_zero_deviation_is_accepted_as_a_threshold() -> None:
    raw = {
        "useDeviationThresholds": True,
        "lowThresholds": {"cpu": 0},
        "highThresholds": {"cpu": 10},
    }
    assert low_node_load_args(raw).low_thresholds == {"cpu": 0.0}
