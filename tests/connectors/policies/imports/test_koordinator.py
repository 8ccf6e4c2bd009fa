"""Koordinator's descheduler, and the collect policy of its manager."""

import json

import pytest

from schemas.policy import effective_yaml, read_policy
from tests.connectors.policies.imports.harness import KOORDINATOR, import_text

_LOW_NODE_LOAD = """\
profiles:
- name: koord-descheduler
  pluginConfig:
  - name: LowNodeLoad
    args:
      apiVersion: descheduler/v1alpha2
      kind: LowNodeLoadArgs
      evictableNamespaces:
        exclude:
        - kube-system
      lowThresholds: {cpu: 45, memory: 55}
      highThresholds: {cpu: 75, memory: 80}
"""
_ENABLED = "  plugins: {balance: {enabled: [LowNodeLoad]}}\n"
_MIGRATION = """\
  - name: MigrationController
    args:
      kind: MigrationControllerArgs
      arbitrationArgs: {enabled: true, interval: 500ms}
      defaultJobTTL: 5m0s
      evictQPS: "10"
      maxConcurrentReconciles: 1
"""
_DIRECT = """\
  plugins:
    balance: {enabled: [LowNodeLoad]}
    deschedule: {}
    evict: {disabled: [{name: "*"}], enabled: [{name: DefaultEvictor}]}
    filter: {disabled: [{name: "*"}]}
"""


def test_a_descheduler_configuration_is_imported() -> None:
    imported = import_text(
        KOORDINATOR
        + "deschedulingInterval: 10s\ndryRun: true\nmaxNoOfPodsToEvictTotal: 9\n"
        + "nodeSelector: {matchLabels: {pool: batch}}\nmetricsBindAddress: 0.0.0.0:10251\n"
        + _LOW_NODE_LOAD
        + _MIGRATION
        + _ENABLED
    )
    policy = imported.policy
    assert imported.exit_code == 0
    assert (policy.mode, policy.compat) == ("observe", "koordinator")
    assert policy.plugins.balances("LowNodeLoad")
    assert not policy.plugins.balances("OverutilizationRisk")
    assert policy.rebalance.high_thresholds == {"cpu": 75, "memory": 80}
    assert policy.migration.evict_qps == 10
    assert policy.descheduling.descheduling_interval_ms == 10_000
    assert policy.descheduling.max_no_of_pods_to_evict_total == 9
    assert policy.descheduling.dry_run
    assert policy.descheduling.node_selector is not None
    assert {"LowNodeLoad", "MigrationController"} <= set(imported.report["taken over"])
    elsewhere = imported.report["handled elsewhere"]
    assert "metricsBindAddress" in elsewhere
    assert any(name.endswith("maxConcurrentReconciles") for name in elsewhere)


def test_low_node_load_that_is_not_enabled_moves_nothing() -> None:
    imported = import_text(KOORDINATOR + _LOW_NODE_LOAD)
    assert imported.policy.plugins.balance == ()
    assert "so no pods are moved" in imported.text


def test_default_evictor_in_place_of_migration_controller_evicts_without_its_limits() -> None:
    args = import_text(KOORDINATOR + _LOW_NODE_LOAD + _DIRECT).policy.migration
    assert args.default_job_mode == "EvictDirectly"
    assert "MaxMigratingPerNode" in args.skip_eviction_gates
    assert args.object_limiters["workload"].duration_ms == 0
    refused = import_text(KOORDINATOR + _LOW_NODE_LOAD + _MIGRATION + _DIRECT)
    assert refused.exit_code == 1
    assert "found arguments of MigrationController" in refused.errors[0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("exclude:", "only these namespaces:", "line 11: allowed: include, exclude"),
        ("      evictableNamespaces:\n        exclude:\n        - kube-system\n",
         "      evictableNamespaces:\n      exclude:\n      - kube-system\n",
         "line 11: it belongs inside evictableNamespaces: indent it more"),
        ("  - name: LowNodeLoad\n    args:\n", "  - args:\n      name: LowNodeLoad\n",
         "line 6: required, but not given: name, beside args"),
        ("highThresholds", "highThreshold", 'line 14: did you mean "highThresholds"?'),
        ("kind: LowNodeLoadArgs", "kind: Args", "line 9: allowed here is LowNodeLoadArgs"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line_with_a_suggestion(
    before: str, after: str, expected: str
) -> None:
    imported = import_text(KOORDINATOR + _LOW_NODE_LOAD.replace(before, after) + _ENABLED)
    line, _, meant = expected.partition(": ")
    assert (imported.exit_code, imported.text) == (1, "")
    assert imported.errors[0].startswith(f"standard input:{line.removeprefix('line ')}: ")
    assert meant in imported.errors[0]


def test_arguments_of_a_profile_that_does_not_move_pods_by_load_do_not_count() -> None:
    second = (
        "- name: b\n  pluginConfig:\n  - {name: DefaultEvictor, args: {evictLocalStoragePods: true}}\n"
        "  plugins: {deschedule: {enabled: [PodLifeTime]}}\n"
    )
    imported = import_text(KOORDINATOR + _LOW_NODE_LOAD + _ENABLED + second)
    assert not imported.policy.evictor.evict_local_storage_pods
    assert "PodLifeTime" in imported.report["lost"]


def test_scheduler_and_descheduler_make_one_policy_with_equal_effect() -> None:
    imported = import_text(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {enabled: [LoadAwareScheduling]}, "
        "score: {enabled: [LoadAwareScheduling]}}}]\n"
        f"---\n{KOORDINATOR}{_LOW_NODE_LOAD}{_ENABLED}"
    )
    policy = read_policy(
        "compat: koordinator\n"
        "rebalance:\n  evictableNamespaces: {exclude: [kube-system]}\n"
        "  lowThresholds: {cpu: 45, memory: 55}\n  highThresholds: {cpu: 75, memory: 80}\n"
    )
    assert effective_yaml(imported.policy) == effective_yaml(policy)


def _slo(config: dict[str, object]) -> str:
    other = {"clusterStrategy": {"enable": True}}
    return (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slo-controller-config}\ndata:\n"
        f"  colocation-config: |\n    {json.dumps(config)}\n"
        f"  resource-threshold-config: |\n    {json.dumps(other)}\n"
    )


def test_the_collect_policy_of_slo_controller_config_is_imported() -> None:
    imported = import_text(
        _slo(
            {
                "enable": True,
                "metricReportIntervalSeconds": 90,
                "metricAggregatePolicy": {"durations": ["5m", "15m"]},
                "cpuReclaimThresholdPercent": 65,
                "nodeConfigs": [
                    {"name": "gpu", "nodeSelector": {}, "metricReportIntervalSeconds": 30},
                    {"name": "web", "nodeSelector": {}, "enable": False},
                ],
            }
        )
    )
    collect = imported.policy.collect
    assert imported.exit_code == 0
    assert collect.metric_report_interval_seconds == 90
    assert collect.metric_aggregate_policy.durations_ms == (300_000, 900_000)
    assert [pool.name for pool in collect.pools] == ["gpu"]
    assert collect.of_pool("gpu").metric_report_interval_seconds == 30
    elsewhere = imported.report["handled elsewhere"]
    assert {"resource-threshold-config", "cpuReclaimThresholdPercent"} <= set(elsewhere)
