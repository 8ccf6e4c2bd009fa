"""DeschedulerPolicy of the Kubernetes descheduler: LowNodeUtilization becomes `rebalance`."""

import pytest

from tests.connectors.policies.imports.harness import DESCHEDULER, Imported, import_text


def _policy(
    args: str, *, top: str = "", plugins: str = "balance: {enabled: [LowNodeUtilization]}"
) -> str:
    return (
        f"{DESCHEDULER}{top}profiles:\n- name: p\n  pluginConfig:\n  - name: LowNodeUtilization\n"
        f"    args: {{{args}}}\n  plugins: {{{plugins}}}\n"
    )


_THRESHOLDS = "thresholds: {cpu: 30, memory: 40}, targetThresholds: {cpu: 70, memory: 80}"
_USAGE = f"metricsUtilization: {{source: KubernetesMetrics}}, {_THRESHOLDS}"


def _low_node_utilization(imported: Imported) -> str:
    return imported.report["taken over"]["LowNodeUtilization"]


def test_thresholds_by_usage_become_thresholds_of_rebalance() -> None:
    imported = import_text(
        _policy(
            f"{_USAGE}, numberOfNodes: 2, evictableNamespaces: {{exclude: [kube-system]}}",
            top="maxNoOfPodsToEvictTotal: 4\nnodeSelector: pool in (batch)\ngracePeriodSeconds: 30\n",
        )
    )
    policy = imported.policy
    assert imported.exit_code == 0
    assert (policy.mode, policy.compat) == ("observe", "loadstream")
    assert policy.rebalance.low_thresholds == {"cpu": 30, "memory": 40}
    assert policy.rebalance.high_thresholds == {"cpu": 70, "memory": 80}
    assert policy.rebalance.number_of_nodes == 2
    assert policy.rebalance.evictable_namespaces is not None
    assert policy.migration.default_job_mode == "EvictDirectly"
    assert policy.migration.default_delete_options is not None
    assert policy.descheduling.max_no_of_pods_to_evict_total == 4
    assert policy.descheduling.node_selector is not None
    assert policy.descheduling.node_selector.matches({"pool": "batch"})
    assert [plugin.name for plugin in policy.plugins.balance] == ["LowNodeLoad"]
    assert "for usage" in _low_node_utilization(imported)


@pytest.mark.parametrize(
    ("query", "thresholds", "lost"),
    [
        ("instance:node_cpu:rate:sum", {"cpu": 10}, False),
        ("instance:node_memory_utilisation:ratio", {"memory": 10}, False),
        ("node_pressure_cpu_waiting_seconds_total", None, True),
        ("my_score", None, True),
    ],
)
def test_a_prometheus_query_is_imported_if_it_names_a_resource(
    query: str, thresholds: dict[str, int] | None, lost: bool
) -> None:
    imported = import_text(
        _policy(
            f"metricsUtilization: {{source: Prometheus, prometheus: {{query: '{query}'}}}}, "
            "useDeviationThresholds: true, thresholds: {MetricResource: 10}, "
            "targetThresholds: {MetricResource: 10}"
        )
    )
    assert imported.policy.rebalance.use_deviation_thresholds
    assert imported.policy.rebalance.high_thresholds == thresholds
    assert ("MetricResource" in imported.report.get("lost", {})) is lost
    assert imported.exit_code == lost


@pytest.mark.parametrize(
    ("plugins", "lost", "text"),
    [
        ("balance: {enabled: [HighNodeUtilization]}", "HighNodeUtilization", "fills nodes"),
        ("deschedule: {enabled: [PodLifeTime]}", "PodLifeTime", "keep the Kubernetes descheduler"),
        ("preevictionfilter: {enabled: [ThirdPartyEvictor]}", "ThirdPartyEvictor", "no such plugin"),
        ("deschedule: {enabled: [RemovePodsViolatingTopologySpreadConstraint]}",
         "RemovePodsViolatingTopologySpreadConstraint", "under deschedule it never runs"),
        ("deschedule: {enabled: [LowNodeUtilization]}", "LowNodeUtilization",
         "under deschedule it never runs"),
        ("balance: {enabled: [LowNodeUtilisation]}", "LowNodeUtilisation",
         'did you mean "LowNodeUtilization"?'),
    ],
)  # fmt: skip
def test_unsupported_strategies_are_reported_and_no_pod_is_moved(
    plugins: str, lost: str, text: str
) -> None:
    imported = import_text(_policy(_USAGE, plugins=plugins))
    assert imported.exit_code == 1
    assert text in imported.report["lost"][lost]
    assert imported.policy.plugins.balance == ()


def test_arguments_of_the_evictor_keep_their_names() -> None:
    text = _policy(_USAGE).replace(
        "  pluginConfig:\n",
        "  pluginConfig:\n  - name: DefaultEvictor\n"
        "    args: {minReplicas: 2, podProtections: {defaultDisabled: [PodsWithLocalStorage]}}\n",
    )
    evictor = import_text(text).policy.evictor
    assert evictor.min_replicas == 2
    assert "PodsWithLocalStorage" not in evictor.protections


def test_a_policy_in_helm_values_is_imported_with_the_interval_next_to_it() -> None:
    policy = "".join(f"      {line}\n" for line in _policy(_USAGE).splitlines()[2:])
    imported = import_text(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  values:\n"
        "    kind: Deployment\n    deschedulingInterval: 5m\n"
        f"    deschedulerPolicyAPIVersion: descheduler/v1alpha2\n    deschedulerPolicy:\n{policy}"
    )
    assert imported.policy.descheduling.descheduling_interval_ms == 300_000
    assert imported.policy.rebalance.high_thresholds == {"cpu": 70, "memory": 80}


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (_policy(_USAGE.replace("source", "sources")), 7, 'did you mean "source"?'),
        (_policy(_USAGE.replace("KubernetesMetrics", "KubernetesMetric")), 7,
         'did you mean "KubernetesMetrics"?'),
        (_policy("threshold: {cpu: 1}"), 7, 'did you mean "thresholds"?'),
        (_policy("evictableNamespaces: {include: [a]}"), 7, "refuses to include"),
        (_policy("thresholds: {cpu: 5}, targetThresholds: {memory: 9}"), 7, "give both or neither"),
        (_policy(_USAGE, top="nodeSelector: a in b\n"), 3, "is not a label requirement"),
        (_policy(_USAGE, top="podProtections: {}\n"), 3, "unknown field"),
        (_policy(_USAGE).replace("v1alpha2", "v1alpha1"), 1, "allowed for DeschedulerPolicy is"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(text: str, line: int, expected: str) -> None:
    imported = import_text(text)
    assert (imported.exit_code, imported.text) == (1, "")
    assert imported.errors[0].startswith(f"standard input:{line}: ")
    assert expected in imported.errors[0]
