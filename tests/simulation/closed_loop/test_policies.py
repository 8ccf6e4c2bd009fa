"""The policies that are compared: read whole, in force, and what their names say."""

from pathlib import Path

import pytest

from schemas.policy import LoadAwareSchedulingArgs, Policy, read_policy
from simulation import closed_loop

_FOLDER = Path(closed_loop.__file__).parent / "policies"


def of(name: str) -> Policy:
    return read_policy((_FOLDER / f"{name}.yaml").read_bytes())


def scores(name: str) -> list[str]:
    return [plugin.name for plugin in of(name).plugins.score]


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
