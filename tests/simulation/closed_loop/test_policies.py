"""The policies that are compared: read whole, in force, and what their names say."""

from pathlib import Path

import pytest

from schemas.policy import LoadAwareSchedulingArgs, Policy, effective_yaml, read_policy
from simulation import closed_loop

_FOLDER = Path(closed_loop.__file__).parent / "policies"
_BY_REQUESTS = ["NodeResourcesFit", "NodeResourcesBalancedAllocation"]


def of(name: str) -> Policy:
    return read_policy((_FOLDER / f"{name}.yaml").read_bytes())


def scores(name: str) -> list[str]:
    return [plugin.name for plugin in of(name).plugins.score]


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_policy_acts_and_all_of_it_has_an_effect(path: Path) -> None:
    policy = of(path.stem)
    assert policy.mode == "enforce"
    assert not policy.dry_run
    assert policy.warnings == ()
    assert read_policy(effective_yaml(policy)) == policy


@pytest.mark.parametrize(
    "name", ["koordinator", "koordinator-lownodeload-65", "koordinator-lownodeload-75"]
)
def test_koordinator_places_by_upstreams_defaults_alone(name: str) -> None:
    policy = of(name)
    assert policy.compat == "koordinator"
    assert policy.load_aware == LoadAwareSchedulingArgs()
    assert scores(name) == ["LoadAwareScheduling"]
    assert policy.plugins.filter == Policy().plugins.filter


@pytest.mark.parametrize("high", [65, 75])
def test_low_node_load_has_the_thresholds_of_its_name_and_may_move_the_pods_of_the_loop(
    high: int,
) -> None:
    policy = of(f"koordinator-lownodeload-{high}")
    (pool,) = policy.rebalance.pools("koordinator")
    assert pool.low_thresholds == {"cpu": 45, "memory": 55}
    assert pool.high_thresholds == {"cpu": high, "memory": 80}
    assert policy.migration.scheduler_names == ("loadstream",)
    assert policy.migration.default_job_mode == "ReservationFirst"


@pytest.mark.parametrize(
    "name",
    [
        "koordinator",
        "koordinator-no-estimation",
        "koordinator-with-kube-scheduler",
        "kube-scheduler",
    ],
)
def test_nothing_moves_where_placement_alone_is_compared(name: str) -> None:
    assert of(name).plugins.balance == ()


def test_the_scores_of_kube_scheduler_stand_alone_and_beside_koordinators() -> None:
    assert scores("kube-scheduler") == _BY_REQUESTS
    assert "LoadAwareScheduling" not in {each.name for each in of("kube-scheduler").plugins.filter}
    assert scores("koordinator-with-kube-scheduler") == ["LoadAwareScheduling", *_BY_REQUESTS]


def test_without_estimation_pods_may_say_that_they_count_nothing() -> None:
    args = of("koordinator-no-estimation").load_aware
    assert args.allow_customize_estimation
    assert args.estimated_scaling_factors == of("koordinator").load_aware.estimated_scaling_factors
