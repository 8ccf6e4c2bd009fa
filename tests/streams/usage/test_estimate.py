from typing import Any

import pytest
from hypothesis import given

from schemas.messages.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs
from streams.pods.kind import PRIORITY_CLASS_LABEL, PriorityClass, kind_of
from streams.usage.estimate import Estimator
from tests.streams.builders import (
    AFTER_INITIALIZED,
    AFTER_SCHEDULED,
    SCALING_FACTORS,
    at,
    container,
    load_args,
    pod,
)
from tests.streams.strategies import load_aware_arguments, loading_pods

MI = 1024**2


def estimate(
    requests: dict[str, str],
    limits: dict[str, str] | None = None,
    of_class: PriorityClass = "prod",
    factors: str | None = None,
    **args: Any,
) -> dict[str, int]:
    """Expected use by resource, of those that are expected to be used at all."""
    of = pod(
        containers=(container(requests, limits),),
        annotations={} if factors is None else {SCALING_FACTORS: factors},
        labels={PRIORITY_CLASS_LABEL: f"koord-{of_class}"},
    )
    estimator = Estimator(load_args(**args))
    vector = estimator.estimate(kind_of(of)).expected
    return {
        name: amount for name, amount in zip(estimator.resources, vector, strict=True) if amount
    }


def test_a_resource_without_a_factor_has_no_expected_usage() -> None:
    amounts = estimate({"example.com/gpu": "1"}, supportedResources=["example.com/gpu"])
    assert "example.com/gpu" not in amounts


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ('{"cpu": 50}', 500),
        ('{"cpu": 200}', 2000),
        ('{"cpu": 0}', None),
        ('{"cpu": null}', None),
        ('{"memory": 10}', 850),
        ("{}", 850),
        ("null", 850),
        ("", 850),
        ("{", 850),
        ('{"cpu": "50"}', 850),
        ('{"cpu": 50.0}', 850),
        ('{"cpu": 50, "memory": "x"}', 850),
        ('{"cpu": -50}', -500),
        ('{"cpu": 9223372036854775807}', 2**63 - 1),
        ('{"cpu": -9223372036854775808}', -(2**63) + 1),
        ("[" * 100_000, 850),
        ('{"cpu": ' + "9" * 5000 + "}", 850),
    ],
)
def test_a_pod_can_set_its_scaling_factors(factors: str, expected: int | None) -> None:
    custom = estimate({"cpu": "1"}, factors=factors, allowCustomizeEstimation=True)
    assert custom.get("cpu") == expected
    assert estimate({"cpu": "1"}, factors=factors)["cpu"] == 850


def test_a_limit_caps_what_a_factor_asks_for() -> None:
    amounts = estimate(
        {}, {"cpu": "1"}, factors='{"cpu": 9223372036854775807}', allowCustomizeEstimation=True
    )
    assert amounts["cpu"] == 1000


# --- deadlines ----------------------------------------------------------------------------------


def test_negative_estimation_seconds_of_a_policy_are_ignored() -> None:
    args = load_args(estimatedSecondsAfterPodScheduled=-5, estimatedSecondsAfterInitialized=-5)
    assert Estimator(args).compute_deadline_ms(pod(initialized_at_ms=at(110)), at(100)) is None


@pytest.mark.parametrize(
    ("scheduled", "expected"),
    [
        ("60", at(160)),
        ("0060", at(160)),
        ("+60", at(160)),
        ("0", None),
        ("-0", None),
        ("-1", at(130)),
        ("", at(130)),
        (" 60", at(130)),
        ("6_0", at(130)),
        ("60.0", at(130)),
        ("٦٠", at(130)),
        ("9" * 19, at(130)),
        ("9" * 400, at(130)),
        ("9223372036854775807", at(100) + (2**63 - 1) * 1000),
    ],
)
def test_a_pod_can_set_its_estimation_seconds(scheduled: str, expected: int | None) -> None:
    args = load_args(allowCustomizeEstimation=True, estimatedSecondsAfterPodScheduled=30)
    of = pod(annotations={AFTER_SCHEDULED: scheduled})
    assert Estimator(args).compute_deadline_ms(of, at(100)) == expected


def test_estimation_seconds_of_a_pod_count_only_where_allowed() -> None:
    of = pod(annotations={AFTER_SCHEDULED: "60", AFTER_INITIALIZED: "60"}, initialized_at_ms=at(0))
    assert Estimator(load_args()).compute_deadline_ms(of, at(100)) is None


# --- vectors ------------------------------------------------------------------------------------


def test_resources_are_all_that_any_argument_names() -> None:
    args = load_args(
        usageThresholds={"b": 1},
        prodUsageThresholds={"f": 1},
        aggregated={"usageThresholds": {"a": 1}},
        estimatedScalingFactors={"e": 1, "d": 1},
        resourceWeights={"d": 1},
        supportedResources=["c"],
    )
    estimator = Estimator(args)
    assert estimator.resources == ("a", "b", "c", "cpu", "d", "e", "f", "memory")
    assert estimator.to_vector({"b": 2, "memory": 3, "other": 4}) == (0, 2, 0, 0, 0, 0, 0, 3)
    assert estimator.resources == args.resources


@given(load_aware_arguments(), loading_pods())
def test_an_estimate_stays_within_64_bits_and_its_limit(
    args: LoadAwareSchedulingArgs, of: Pod
) -> None:
    kind = kind_of(of)
    estimator = Estimator(args)
    vector = estimator.estimate(kind).expected
    for resource, amount in zip(estimator.resources, vector, strict=True):
        assert -(2**63) < amount < 2**63
        limit = kind.demand.limits.get(resource, 0)
        if kind.prod and limit > 0:
            assert amount <= limit
