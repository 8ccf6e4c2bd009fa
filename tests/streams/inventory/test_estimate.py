from typing import Any

import pytest
from hypothesis import given

from schemas.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs, OverutilizationRiskArgs, Policy
from streams.inventory.demand import pod_demand
from streams.inventory.estimate import Estimator
from streams.inventory.fleet_usage import FleetUsage
from streams.inventory.kind import kind_of
from streams.inventory.moments import Moments
from streams.inventory.priority import PriorityClass
from tests.streams.cluster.builders import (
    AFTER_INITIALIZED,
    AFTER_SCHEDULED,
    GI,
    SCALING_FACTORS,
    at,
    container,
    load_args,
    pod,
)
from tests.streams.cluster.loads import load_aware_arguments, loading_pods

MI = 1024**2


def estimate(
    requests: dict[str, str],
    limits: dict[str, str] | None = None,
    of_class: PriorityClass = "prod",
    factors: str | None = None,
    **args: Any,
) -> dict[str, int]:
    """Expected use by resource, of those that are expected to be used at all."""
    annotations = {} if factors is None else {SCALING_FACTORS: factors}
    of = pod(containers=(container(requests, limits),), annotations=annotations)
    estimator = Estimator(load_args(**args))
    vector = estimator.estimate(of, pod_demand(of), of_class)
    return {
        name: amount for name, amount in zip(estimator.resources, vector, strict=True) if amount
    }


FLAT = {"cpu": 250, "memory": 200 * MI}


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        # The larger of limit and request, scaled: cpu by 85 %, memory by 70 %.
        ({"cpu": "1"}, {"cpu": "2"}, 1700),
        ({"cpu": "1"}, {"cpu": "1"}, 850),
        ({"cpu": "1"}, {}, 850),
        ({}, {"cpu": "1"}, 850),
        ({"cpu": "3"}, {"cpu": "1"}, 1000),  # at most the limit
        ({}, {}, 250),
        ({"cpu": "0"}, {"cpu": "0"}, 250),
        ({"cpu": "1m"}, {}, 1),
        ({"cpu": "10m"}, {}, 9),  # 8.5 rounds away from zero
        ({"cpu": "9e15"}, {}, 7_650_000_000_000_000_000),
        ({"cpu": "9e18"}, {}, 7_839_866_231_326_559_232),  # 85 % of the largest amount, in float64
    ],
)
def test_cpu_is_expected_by_the_larger_of_limit_and_request(
    requests: dict[str, str], limits: dict[str, str], expected: int
) -> None:
    assert estimate(requests, limits)["cpu"] == expected


def test_memory_is_scaled_by_its_own_factor() -> None:
    assert estimate({"memory": "1Gi"})["memory"] == 751_619_277


def test_a_pod_that_names_nothing_is_expected_to_use_a_flat_amount() -> None:
    assert estimate({}) == FLAT


def test_batch_and_mid_pods_are_expected_by_their_own_resources() -> None:
    batch = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "1Gi"}
    mid = {"kubernetes.io/mid-cpu": "2000", "kubernetes.io/mid-memory": "1Gi"}
    assert estimate(batch, of_class="batch") == {"cpu": 1700, "memory": 751_619_277}
    assert estimate(mid, of_class="mid") == {"cpu": 1700, "memory": 751_619_277}


def test_what_a_class_does_not_ask_for_is_flat_for_batch_and_nothing_for_others() -> None:
    native = {"cpu": "2", "memory": "1Gi"}
    assert estimate(native, of_class="batch") == FLAT
    assert estimate(native, of_class="mid") == {}
    assert estimate(native, of_class="free") == {}


@pytest.mark.parametrize(
    ("of_class", "expected"), [("prod", 5 * GI), ("batch", None), ("mid", None), ("free", None)]
)
def test_other_resources_are_expected_of_prod_pods_only(
    of_class: PriorityClass, expected: int | None
) -> None:
    factors = {"ephemeral-storage": 50}
    found = estimate({"ephemeral-storage": "10Gi"}, None, of_class, estimatedScalingFactors=factors)
    assert found.get("ephemeral-storage") == expected


def test_a_resource_without_a_factor_is_expected_to_be_used_not_at_all() -> None:
    found = estimate({"example.com/gpu": "1"}, supportedResources=["example.com/gpu"])
    assert "example.com/gpu" not in found


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
def test_a_pod_may_bring_its_own_factors(factors: str, expected: int | None) -> None:
    custom = estimate({"cpu": "1"}, factors=factors, allowCustomizeEstimation=True)
    assert custom.get("cpu") == expected
    assert estimate({"cpu": "1"}, factors=factors)["cpu"] == 850


def test_a_limit_caps_what_a_factor_asks_for() -> None:
    found = estimate(
        {}, {"cpu": "1"}, factors='{"cpu": 9223372036854775807}', allowCustomizeEstimation=True
    )
    assert found["cpu"] == 1000


# --- deadlines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "fields", "expected"),
    [
        ({}, {}, None),
        ({"estimatedSecondsAfterPodScheduled": 30}, {}, at(130)),
        ({"estimatedSecondsAfterPodScheduled": 0}, {}, None),
        ({"estimatedSecondsAfterPodScheduled": -5}, {}, None),
        ({"estimatedSecondsAfterInitialized": 30}, {}, None),
        ({"estimatedSecondsAfterInitialized": 30}, {"initialized_at_ms": at(110)}, at(140)),
        (
            {"estimatedSecondsAfterPodScheduled": 300, "estimatedSecondsAfterInitialized": 30},
            {"initialized_at_ms": at(110)},
            at(140),
        ),
        (
            {"estimatedSecondsAfterPodScheduled": 300, "estimatedSecondsAfterInitialized": 30},
            {},
            at(400),
        ),
    ],
)
def test_estimation_may_go_on_for_a_while(
    args: dict[str, int], fields: dict[str, Any], expected: int | None
) -> None:
    assert Estimator(load_args(**args)).deadline_ms(pod(**fields), at(100)) == expected


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
def test_a_pod_may_bring_its_own_seconds(scheduled: str, expected: int | None) -> None:
    args = load_args(allowCustomizeEstimation=True, estimatedSecondsAfterPodScheduled=30)
    of = pod(annotations={AFTER_SCHEDULED: scheduled})
    assert Estimator(args).deadline_ms(of, at(100)) == expected


def test_seconds_of_a_pod_count_only_where_that_is_allowed() -> None:
    of = pod(annotations={AFTER_SCHEDULED: "60", AFTER_INITIALIZED: "60"}, initialized_at_ms=at(0))
    assert Estimator(load_args()).deadline_ms(of, at(100)) is None


# --- vectors ------------------------------------------------------------------------------------


def test_the_axis_is_every_resource_that_some_argument_names() -> None:
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
    assert estimator.vector({"b": 2, "memory": 3, "other": 4}) == (0, 2, 0, 0, 0, 0, 0, 3)
    assert estimator.resources == args.resources


@given(load_aware_arguments(), loading_pods())
def test_an_estimate_stays_within_64_bits_and_its_limit(
    args: LoadAwareSchedulingArgs, of: Pod
) -> None:
    kind = kind_of(of)
    estimator = Estimator(args)
    vector = estimator.of_kind(kind)
    assert vector == estimator.estimate(of, kind.demand, kind.priority_class)
    for resource, amount in zip(estimator.resources, vector, strict=True):
        assert -(2**63) < amount < 2**63
        limit = kind.demand.limits.get(resource, 0)
        if kind.prod and limit > 0:
            assert amount <= limit


def _by_fleet(
    requests: dict[str, str],
    limits: dict[str, str] | None = None,
    of_class: PriorityClass = "prod",
    annotations: dict[str, str] | None = None,
    **args: Any,
) -> dict[str, int]:
    """Expected use where pods use 40 % of their CPU, give or take 30 points."""
    moments = Moments()
    load_aware = load_args(estimateBy="fleet", **{"estimateMarginPercent": 0, **args})
    of_cpu = OverutilizationRiskArgs.model_validate({"resources": [{"name": "cpu"}]})
    moments.judge_anew(Policy(load_aware=load_aware, overutilization_risk=of_cpu), ())
    moments.set_figures((FleetUsage(400_000, 50_000, 40_000),))
    of = pod(containers=(container(requests, limits),), annotations=annotations or {})
    estimator = Estimator(load_aware, moments.learned)
    return dict(
        zip(estimator.resources, estimator.estimate(of, pod_demand(of), of_class), strict=True)
    )


@pytest.mark.parametrize(
    ("requests", "limits", "cpu"),
    [
        ({"cpu": "1"}, {}, 400),
        ({"cpu": "1"}, {"cpu": "8"}, 400),  # a share of the request, whatever it is limited to
        ({"cpu": "8"}, {"cpu": "1"}, 1000),  # at most the limit
        ({}, {"cpu": "2"}, 800),
        ({}, {}, 100),  # of the flat amount of a pod that names neither
        ({"cpu": "1m"}, {}, 0),
    ],
)
def test_figures_of_the_fleet_say_which_share_of_its_request_a_pod_uses(
    requests: dict[str, str], limits: dict[str, str], cpu: int
) -> None:
    found = _by_fleet(requests, limits)
    assert found["cpu"] == cpu
    # The policy learns of cpu alone.
    assert found["memory"] == estimate(requests, limits)["memory"]


def test_a_margin_is_part_of_what_pods_differ_by_and_over_time() -> None:
    assert _by_fleet({"cpu": "1"}, estimateMarginPercent=100)["cpu"] == 700
    assert _by_fleet({"cpu": "1"}, estimateMarginPercent=50)["cpu"] == 550
    assert _by_fleet({"cpu": "1"}, {"cpu": "600m"}, estimateMarginPercent=100)["cpu"] == 600


def test_pods_of_other_classes_use_a_share_of_what_they_ask_for_in_place_of_cpu() -> None:
    batch = {"kubernetes.io/batch-cpu": "2000"}
    assert _by_fleet(batch, of_class="batch")["cpu"] == 800
    assert _by_fleet({}, of_class="free")["cpu"] == 0


@pytest.mark.parametrize("of_class", ["mid", "batch", "free"])
def test_a_pod_of_any_class_uses_a_share_of_the_cpu_that_it_asks_for(
    of_class: PriorityClass,
) -> None:
    """Many a cluster has priorities in Koordinator's bands and none of its resources."""
    assert _by_fleet({"cpu": "1"}, of_class=of_class)["cpu"] == 400
    assert _by_fleet({"cpu": "1"}, {"cpu": "300m"}, of_class=of_class)["cpu"] == 300
    assert _by_fleet({}, {"cpu": "2"}, of_class=of_class)["cpu"] == 800


def test_what_a_pod_says_itself_goes_before_what_the_fleet_uses() -> None:
    said = {SCALING_FACTORS: '{"cpu": 50}'}
    custom = _by_fleet({"cpu": "1"}, annotations=said, allowCustomizeEstimation=True)
    assert custom["cpu"] == 500
    assert _by_fleet({"cpu": "1"}, annotations=said)["cpu"] == 400
    assert _by_fleet({"cpu": "1"}, allowCustomizeEstimation=True)["cpu"] == 400


def test_an_estimator_is_made_again_from_its_row_with_the_usage_of_its_cluster() -> None:
    moments = Moments()
    args = load_args(estimateBy="fleet", estimateMarginPercent=25)
    moments.judge_anew(Policy(load_aware=args), ())
    estimator = Estimator(args, moments.learned)
    again = Estimator.of(estimator.counting(), moments.learned)
    assert again.counts_like(estimator)
    assert not again.counts_like(Estimator(load_args(), moments.learned))
    of = pod(cpu="1")
    assert again.estimate(of, pod_demand(of), "prod") == estimator.estimate(
        of, pod_demand(of), "prod"
    )
