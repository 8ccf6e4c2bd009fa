"""The values of a first policy: what they follow, and that they always make a policy."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.policies.draft.advice import GAIN, HISTORY_MS_MIN, advise, too_little
from connectors.policies.draft.document import document
from connectors.policies.draft.load import Load
from connectors.policies.draft.summary import ClusterSummary
from schemas.policy import read_policy
from schemas.policy.sections.plugins import PluginChoice

HOUR_MS = 3_600_000
#: A score by risk, and moves by thresholds, whatever the default is.
BY_THRESHOLDS = PluginChoice.model_validate(
    {"score": ["OverutilizationRisk"], "balance": ["LowNodeLoad"]}
)


def load(p50: float = 0.3, **fields: Any) -> Load:
    """Load of a calm cluster."""
    calm: dict[str, Any] = {
        "readings": 1000, "mean": p50, "p50": p50, "p75": p50, "p90": p50, "p99": p50, "spread": 0.1,
        "hot_share": 0.0, "spells": 0, "spell_ms": 0,
    }  # fmt: skip
    return Load(**(calm | fields))


def summary(**fields: Any) -> ClusterSummary:
    """A cluster of a hundred nodes, after a day."""
    usual: dict[str, Any] = {
        "since_ms": 0, "until_ms": 24 * HOUR_MS, "whole": True, "nodes": 100, "silent_nodes": 0,
        "report_ms": 60_000, "sample_ms": 60_000, "windows_ms": (300_000,),
        "loads": {"cpu": load(), "memory": load()}, "pods": 1300,
        "requesting": {"cpu": 1.0, "memory": 0.5}, "used_of_requests": {"cpu": 0.6}, "measured_pods": 1200,
        "owners": 120, "replicated_owners": 100, "budgets": 60, "started_per_hour": 250.0,
        "schedulers": (("loadstream", 1300),), "evictions": {},
    }  # fmt: skip
    return ClusterSummary(**(usual | fields))


def values(of: ClusterSummary) -> dict[str, Any]:
    return {".".join(each.path): each.value for each in advise(of, BY_THRESHOLDS).values}


def reasons(of: ClusterSummary) -> dict[str, str]:
    return {".".join(each.path): each.reason for each in advise(of, BY_THRESHOLDS).values}


def test_a_calm_cluster_keeps_the_usual_thresholds() -> None:
    found = values(summary())
    assert found["loadAware.usageThresholds.cpu"] == 75
    assert found["loadAware.usageThresholds.memory"] == 80
    assert found["rebalance.highThresholds.cpu"] == 75
    assert found["rebalance.lowThresholds.cpu"] == 30
    assert found["mode"] == "observe"


def test_thresholds_of_a_busy_cluster_leave_room() -> None:
    busy = load(0.62, p75=0.71, p90=0.83, p99=0.95, hot_share=0.2, spells=40, spell_ms=300_000)
    of = summary(loads={"cpu": busy, "memory": load()})
    found = values(of)
    assert found["loadAware.usageThresholds.cpu"] == 85
    assert found["rebalance.highThresholds.cpu"] == 85
    assert found["overutilizationRisk.resources"][0] == {"name": "cpu", "hotPercent": 85}
    assert found["rebalance.lowThresholds.cpu"] == 65
    assert found["rebalance.anomalyCondition.consecutiveAbnormalities"] == 6
    assert (
        "Half of the hot spells are over after 5 min"
        in (reasons(of)["rebalance.anomalyCondition.consecutiveAbnormalities"])
    )


@pytest.mark.parametrize(
    ("p75", "reason"),
    [
        (0.60, "the least that makes sense, 75, leaves room on these."),
        (0.68, "10 points more leave room on these."),
        (0.78, "85 is the most that leaves room for a peak."),
        (0.87, "85 is the most that leaves room for a peak, so it refuses more than a fourth."),
    ],
)
def test_only_a_threshold_below_three_of_four_readings_refuses_a_fourth(
    p75: float, reason: str
) -> None:
    of = summary(loads={"cpu": load(0.4, p75=p75, p90=0.9, p99=0.95)})
    found = reasons(of)["loadAware.usageThresholds.cpu"]
    assert found.endswith(f": {reason}")


@pytest.mark.parametrize(
    ("nodes", "migrating", "evictions"), [(3, 1, 1), (100, 10, 5), (5000, 50, 25)]
)
def test_limits_grow_with_the_cluster_up_to_a_bound(
    nodes: int, migrating: int, evictions: int
) -> None:
    found = values(summary(nodes=nodes))
    assert found["migration.maxMigratingGlobally"] == migrating
    assert found["descheduling.maxNoOfPodsToEvictTotal"] == evictions


def test_only_what_the_plugins_go_by_is_given() -> None:
    by_load = PluginChoice.model_validate(
        {"score": ["LoadAwareScheduling"], "balance": ["LowNodeLoad"]}
    )
    advice = advise(summary(), by_load)
    sections = {each.path[0] for each in advice.values}
    assert "overutilizationRisk" not in sections
    assert "rebalance" in sections
    policy = read_policy(document("blue", summary(), advice))
    assert policy.warnings == ()
    assert [each.name for each in policy.plugins.score] == ["LoadAwareScheduling"]


def test_moves_by_risk_take_the_place_of_thresholds() -> None:
    both = PluginChoice.model_validate(
        {"score": ["OverutilizationRisk"], "balance": ["LowNodeLoad", "OverutilizationRisk"]}
    )
    advice = advise(summary(), both)
    found = {".".join(each.path): each.value for each in advice.values}
    assert (found["riskMoves.gain"], found["riskMoves.maxMovesPerRound"]) == (GAIN, 5)
    assert "rebalance" not in {each.path[0] for each in advice.values}
    policy = read_policy(document("blue", summary(), advice))
    assert policy.warnings == ()
    assert policy.risk_moves.gain == GAIN


def test_a_resource_without_data_is_left_out_with_a_word() -> None:
    advice = advise(summary(loads={"cpu": load()}), BY_THRESHOLDS)
    text = document("blue", summary(), advice)
    assert "Without data: memory:" in text
    policy = read_policy(text)
    assert set(policy.rebalance.high_thresholds or {}) == {"cpu"}
    assert [each.name for each in policy.overutilization_risk.resources] == ["cpu"]


def test_less_than_an_hour_is_too_little_unless_that_was_all_that_was_looked_at() -> None:
    short = summary(until_ms=HISTORY_MS_MIN - 1)
    assert too_little(short) is not None
    assert too_little(replace(short, whole=False)) is None
    assert too_little(summary()) is None
    assert too_little(summary(loads={})) is not None


_SHARES = st.lists(st.floats(0, 1.5), min_size=4, max_size=4).map(sorted)


@st.composite
def _summaries(draw: st.DrawFn) -> ClusterSummary:
    loads = {}
    for name in draw(st.sets(st.sampled_from(("cpu", "memory")), min_size=1)):
        p50, p75, p90, p99 = draw(_SHARES)
        spell_ms = draw(st.integers(0, 10 * HOUR_MS))
        loads[name] = load(p50, p75=p75, p90=p90, p99=p99, spells=1, spell_ms=spell_ms)
    return summary(
        loads=loads,
        nodes=draw(st.integers(1, 20_000)),
        pods=draw(st.integers(0, 600_000)),
        report_ms=draw(st.none() | st.integers(1, 10 * HOUR_MS)),
        used_of_requests={"cpu": draw(st.floats(0, 10))},
        windows_ms=tuple(draw(st.lists(st.integers(1, 10**9), max_size=3))),
        silent_nodes=draw(st.integers(0, 3)),
        budgets=draw(st.integers(0, 3)),
        schedulers=(("a: b\n- c", 5),),
    )


@given(_summaries())
def test_whatever_was_seen_the_file_is_a_policy_that_asks_for_what_is_there(
    of: ClusterSummary,
) -> None:
    text = document("blue", of, advise(of))
    policy = read_policy(text)
    assert policy.warnings == ()
    assert policy.mode == "observe"
    assert max(map(len, text.splitlines())) <= 100
    if (of.report_ms or 0) <= 60_000:
        assert policy.warnings == ()


@given(_summaries(), st.sampled_from(["cpu", "memory"]), st.floats(0.01, 0.5))
def test_a_hotter_cluster_never_has_lower_thresholds(
    of: ClusterSummary, resource: str, more: float
) -> None:
    if resource not in of.loads:
        return
    known = of.loads[resource]
    hotter = replace(
        known,
        p50=known.p50 + more,
        p75=known.p75 + more,
        p90=known.p90 + more,
        p99=known.p99 + more,
    )
    before = values(of)
    after = values(replace(of, loads={**of.loads, resource: hotter}))
    for section in (
        "loadAware.usageThresholds",
        "rebalance.lowThresholds",
        "rebalance.highThresholds",
    ):
        assert after[f"{section}.{resource}"] >= before[f"{section}.{resource}"]
