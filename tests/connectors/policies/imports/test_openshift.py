"""KubeDescheduler: profiles about load become `rebalance`, other profiles are reported as lost."""

import pytest

from tests.connectors.policies.imports.harness import OPENSHIFT, import_text


def _operator(profiles: str, rest: str = "") -> str:
    return (
        f"{OPENSHIFT}metadata: {{name: cluster}}\nspec:\n  deschedulingIntervalSeconds: 90\n"
        f"  mode: Automatic\n  profiles: [{profiles}]\n{rest}"
    )


@pytest.mark.parametrize(
    ("level", "low", "high"), [("AsymmetricLow", 0, 10), ("Medium", 20, 20), (None, 10, 10)]
)
def test_the_profile_for_virtual_machines_uses_the_deviation_from_the_mean(
    level: str | None, low: int, high: int
) -> None:
    rest = f"  profileCustomizations: {{devDeviationThresholds: {level}}}\n" if level else ""
    imported = import_text(_operator("KubeVirtRelieveAndMigrate", rest))
    policy = imported.policy
    assert policy.mode == "observe"
    assert policy.rebalance.use_deviation_thresholds
    assert policy.rebalance.low_thresholds == {"cpu": low}
    assert policy.rebalance.high_thresholds == {"cpu": high}
    assert policy.descheduling.descheduling_interval_ms == 90_000
    assert "LowNodeLoad" in imported.report["taken over"]["KubeVirtRelieveAndMigrate"]
    assert policy.evictor.ignore_pvc_pods
    assert "protected namespaces" in imported.report["lost"]


def test_the_profile_for_utilization_uses_requests() -> None:
    custom = "  profileCustomizations: {devLowNodeUtilizationThresholds: High}\n"
    imported = import_text(_operator("LifecycleAndUtilization, EvictPodsWithPVC", custom))
    assert imported.policy.rebalance.high_thresholds == {"cpu": 70, "memory": 70, "pods": 70}
    assert not imported.policy.evictor.ignore_pvc_pods
    assert "for requests" in imported.report["taken over"]["LifecycleAndUtilization"]
    assert imported.exit_code == 1


def test_the_profile_for_utilization_uses_usage_if_the_operator_measures_it() -> None:
    custom = "  profileCustomizations: {devActualUtilizationProfile: PrometheusCPUUsage}\n"
    imported = import_text(_operator("LifecycleAndUtilization", custom))
    assert "were for usage" in imported.report["taken over"]["LifecycleAndUtilization"]


@pytest.mark.parametrize("profile", ["AffinityAndTaints", "CompactAndScale"])
def test_other_profiles_are_reported_as_lost_and_no_pod_is_moved(profile: str) -> None:
    imported = import_text(_operator(profile))
    assert imported.exit_code == 1
    assert profile in imported.report["lost"]
    assert imported.policy.plugins.balance == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_operator("AffinityAndTaint"), ':7: spec.profiles[0]: found "AffinityAndTaint"'),
        (_operator("LongLifecycle", "  profileCustomisations: {}\n"), ":8: "),
        (_operator("LongLifecycle", "  evictionLimits: {totals: 1}\n"), 'did you mean "total"?'),
        (_operator("LongLifecycle").replace("90", "1m"), "allowed is a number of seconds"),
        (_operator("KubeVirtRelieveAndMigrate",
                   "  profileCustomizations: {devDeviationThresholds: Lowest}\n"), 'did you mean "Low"?'),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(text: str, expected: str) -> None:
    imported = import_text(text)
    assert (imported.exit_code, imported.text) == (1, "")
    assert expected in imported.errors[0]
