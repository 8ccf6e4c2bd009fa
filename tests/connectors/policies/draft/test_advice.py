"""The values of a first policy: what they follow, and that they always make a policy."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.policies.draft.advice import HISTORY_MS_MIN, advise, find_lack
from connectors.policies.draft.document import document
from connectors.policies.draft.reading import ClusterHistory, Load
from schemas.policy import read_policy

HOUR_MS = 3_600_000
CALM = Load(p75=0.3, p90=0.3, hot_share=0.0)


def history(**fields: Any) -> ClusterHistory:
    """A cluster of a hundred nodes, after a day."""
    usual: dict[str, Any] = {
        "since_ms": 0, "until_ms": 24 * HOUR_MS, "complete": True, "nodes": 100, "silent_nodes": 0,
        "report_ms": 60_000, "loads": {"cpu": CALM, "memory": CALM}, "pods": 1300,
        "schedulers": (("loadstream", 1300),), "budgets": 60,
    }  # fmt: skip
    return ClusterHistory(**(usual | fields))


def values(of: ClusterHistory) -> dict[str, Any]:
    return {".".join(value.path): value.value for value in advise(of)}


def test_a_calm_cluster_keeps_the_usual_thresholds() -> None:
    found = values(history())
    assert found["loadAware.usageThresholds.cpu"] == 75
    assert found["loadAware.usageThresholds.memory"] == 80
    assert found["overutilizationRisk.resources"] == [
        {"name": "cpu", "hotPercent": 75},
        {"name": "memory", "hotPercent": 80},
    ]
    assert found["mode"] == "observe"


def test_thresholds_of_a_busy_cluster_leave_room() -> None:
    found = values(history(loads={"cpu": Load(0.71, 0.83, 0.2), "memory": CALM}))
    assert found["loadAware.usageThresholds.cpu"] == 85
    assert found["overutilizationRisk.resources"][0] == {"name": "cpu", "hotPercent": 85}


@pytest.mark.parametrize(("p75", "refuses"), [(0.60, False), (0.78, False), (0.87, True)])
def test_only_a_threshold_below_three_of_four_readings_refuses_a_fourth(
    p75: float, refuses: bool
) -> None:
    of = history(loads={"cpu": Load(p75, 0.9, 0.1)})
    (value,) = [value for value in advise(of) if value.path[1:] == ("usageThresholds", "cpu")]
    assert (value.value < 100 * p75) == refuses
    assert ("refuses more than a fourth" in value.reason) == refuses


@pytest.mark.parametrize(
    ("nodes", "migrating", "evictions"), [(3, 1, 1), (100, 10, 5), (5000, 50, 25)]
)
def test_limits_grow_with_the_cluster_up_to_a_bound(
    nodes: int, migrating: int, evictions: int
) -> None:
    found = values(history(nodes=nodes))
    assert found["migration.maxMigratingGlobally"] == migrating
    assert found["descheduling.maxNoOfPodsToEvictTotal"] == evictions
    assert found["riskMoves.maxMovesPerRound"] == evictions


def test_a_resource_without_data_is_left_out_and_named() -> None:
    text = document("blue", history(loads={"cpu": CALM}))
    assert "Without data: memory:" in text
    policy = read_policy(text)
    assert [resource.name for resource in policy.overutilization_risk.resources] == ["cpu"]


def test_less_than_an_hour_is_too_little_unless_a_limit_of_records_cut_it_short() -> None:
    short = history(until_ms=HISTORY_MS_MIN - 1)
    assert find_lack(short) is not None
    assert find_lack(replace(short, complete=False)) is None
    assert find_lack(history()) is None
    assert find_lack(history(loads={})) is not None


_SHARES = st.lists(st.floats(0, 1.5), min_size=2, max_size=2).map(sorted)


@st.composite
def _histories(draw: st.DrawFn) -> ClusterHistory:
    loads = {}
    for name in draw(st.sets(st.sampled_from(("cpu", "memory")), min_size=1)):
        p75, p90 = draw(_SHARES)
        loads[name] = Load(p75, p90, 0.1)
    return history(
        loads=loads,
        nodes=draw(st.integers(1, 20_000)),
        pods=draw(st.integers(0, 600_000)),
        report_ms=draw(st.none() | st.integers(1, 10 * HOUR_MS)),
        silent_nodes=draw(st.integers(0, 3)),
        budgets=draw(st.integers(0, 3)),
        schedulers=(("a: b\n- c", 5),),
    )


@given(_histories())
def test_any_history_gives_a_policy_without_warnings(of: ClusterHistory) -> None:
    text = document("blue", of)
    policy = read_policy(text)
    assert policy.warnings == ()
    assert policy.mode == "observe"
    assert max(map(len, text.splitlines())) <= 100


@given(_histories(), st.sampled_from(["cpu", "memory"]), st.floats(0.01, 0.5))
def test_a_hotter_cluster_never_has_lower_thresholds(
    of: ClusterHistory, resource: str, more: float
) -> None:
    if resource not in of.loads:
        return
    load = of.loads[resource]
    hotter = replace(load, p75=load.p75 + more, p90=load.p90 + more)
    before = values(of)
    after = values(replace(of, loads={**of.loads, resource: hotter}))
    path = f"loadAware.usageThresholds.{resource}"
    assert after[path] >= before[path]
