"""KubeSchedulerConfiguration: scores, filters and arguments, of Koordinator and of Trimaran."""

import pytest

from tests.connectors.policies.imports.harness import SCHEDULER, Imported, import_text

_KOORDINATOR = (
    SCHEDULER
    + """\
leaderElection: {leaderElect: true}
podMaxBackoffSeconds: 20
profiles:
- schedulerName: koord-scheduler
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      filterExpiredNodeMetrics: false
      estimator: mine
      usageThresholds: {cpu: 60, memory: 90}
      aggregated: {usageThresholds: {cpu: 65}, usageAggregationType: p95}
  plugins:
    filter: {enabled: [{name: LoadAwareScheduling}, {name: Reservation}]}
    score: {enabled: [{name: LoadAwareScheduling, weight: 2}, {name: ElasticQuota}]}
    reserve: {enabled: [{name: LoadAwareScheduling}]}
"""
)


def _scores(imported: Imported) -> dict[str, int]:
    return {plugin.name: plugin.weight for plugin in imported.policy.plugins.score}


def _import_plugins(plugins: str, args: str = "") -> Imported:
    return import_text(
        f"{SCHEDULER}profiles: [{{plugins: {{{plugins}}}, pluginConfig: [{args}]}}]\n"
    )


def test_filter_and_score_of_koordinator_are_imported_with_their_arguments() -> None:
    imported = import_text(_KOORDINATOR)
    policy = imported.policy
    assert policy.compat == "koordinator"
    assert policy.mode == "observe"
    assert policy.load_aware.usage_thresholds == {"cpu": 60, "memory": 90}
    assert policy.load_aware.aggregated is not None
    assert policy.max_backoff_seconds == 20
    assert _scores(imported) == {"LoadAwareScheduling": 2}
    assert "LoadAwareScheduling" in imported.report["taken over"]


def test_unknown_plugins_are_reported_as_lost_and_exit_with_1_unless_allowed() -> None:
    imported = import_text(_KOORDINATOR)
    assert set(imported.report["lost"]) == {"ElasticQuota", "Reservation"}
    assert "ResourceQuota" in imported.report["lost"]["ElasticQuota"]
    assert imported.exit_code == 1
    allowed = import_text(_KOORDINATOR, "--allow-lost")
    assert (allowed.exit_code, allowed.text) == (0, imported.text)


def test_settings_of_the_process_are_handled_elsewhere() -> None:
    elsewhere = import_text(_KOORDINATOR).report["handled elsewhere"]
    assert {"leaderElection", "profiles[0].schedulerName"} <= set(elsewhere)
    assert any(name.endswith("estimator") for name in elsewhere)


@pytest.mark.parametrize(
    ("plugins", "scores"),
    [
        ("score: {enabled: [{name: NodeResourcesBalancedAllocation, weight: 3}]}",
         {"NodeResourcesBalancedAllocation": 3}),
        ("multiPoint: {enabled: [LoadAwareScheduling, {name: NodeResourcesFit, weight: 0}]}",
         {"LoadAwareScheduling": 1, "NodeResourcesFit": 1}),
        ("score: {enabled: [LoadAwareScheduling], disabled: [{name: '*'}]}",
         {"LoadAwareScheduling": 1}),
        ("multiPoint: {enabled: [{name: LoadVariationRiskBalancing, weight: 4}]}",
         {"OverutilizationRisk": 4}),
    ],
)  # fmt: skip
def test_scores_in_the_file_are_enabled_with_their_weights(
    plugins: str, scores: dict[str, int]
) -> None:
    imported = _import_plugins(plugins)
    assert imported.exit_code == 0
    assert _scores(imported) == scores


def test_a_default_score_with_arguments_is_enabled_unless_it_is_disabled() -> None:
    args = (
        "{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: 5}]}}}"
    )
    on = _import_plugins("score: {enabled: [LoadAwareScheduling]}", args)
    assert _scores(on) == {"LoadAwareScheduling": 1, "NodeResourcesFit": 1}
    assert on.policy.resources_fit.scoring_strategy.weights == {"cpu": 5}
    off = _import_plugins(
        "score: {enabled: [LoadAwareScheduling], disabled: [{name: NodeResourcesFit}]}", args
    )
    assert _scores(off) == {"LoadAwareScheduling": 1}


def test_a_strategy_that_fills_nodes_is_reported_as_lost_and_disabled() -> None:
    args = "{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}"
    imported = _import_plugins("score: {enabled: [NodeResourcesFit, LoadAwareScheduling]}", args)
    assert imported.exit_code == 1
    assert "MostAllocated" in imported.report["lost"]["NodeResourcesFit"]
    assert _scores(imported) == {"LoadAwareScheduling": 1}


@pytest.mark.parametrize(
    ("plugins", "off"),
    [
        ("filter: {disabled: [{name: NodePorts}]}", "NodePorts"),
        ("multiPoint: {disabled: [{name: NodePorts}]}", "NodePorts"),
        ("score: {enabled: [LoadAwareScheduling]}", "LoadAwareScheduling"),
    ],
)
def test_a_filter_that_is_not_enabled_upstream_is_disabled(plugins: str, off: str) -> None:
    assert not _import_plugins(plugins).policy.plugins.filters(off)


def test_the_risk_score_of_trimaran_is_imported_and_packing_is_not() -> None:
    imported = import_text(
        SCHEDULER
        + """\
profiles:
- schedulerName: trimaran
  plugins:
    multiPoint: {enabled: [{name: LoadVariationRiskBalancing}], disabled: [{name: NodeResourceFit}]}
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args: {safeVarianceMargin: 1, metricProvider: {type: Prometheus}}
  - name: TargetLoadPacking
    args: {targetUtilization: 70}
"""
    )
    assert imported.policy.compat == "loadstream"
    assert _scores(imported) == {"OverutilizationRisk": 1}
    assert "OverutilizationRisk" in imported.report["taken over"]["LoadVariationRiskBalancing"]
    assert "TargetLoadPacking" in imported.report["lost"]
    assert 'did you mean "NodeResourcesFit"?' in imported.report["lost"]["NodeResourceFit"]
    assert any(name.endswith("metricProvider") for name in imported.report["handled elsewhere"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("leaderElections: {}", 'standard input:3: leaderElections: unknown field; did you mean "leader'),
        ("profiles: {}", "standard input:3: profiles: found an empty map; allowed is a list"),
        ("profiles: [{plugins: {filters: {}}}]", 'did you mean "filter"?'),
        ("profiles: [{plugins: {score: {enable: []}}}]", 'did you mean "enabled"?'),
        ("profiles: [{plugins: {score: {enabled: [{weight: 1}]}}}]", "required, but not given: name"),
        ("podInitialBackoffSeconds: 0", "standard input:3: podInitialBackoffSeconds: found 0;"),
        ("profiles: [{pluginConfig: [{name: LoadAwareScheduling, args: {checkBoth: true}}]}]",
         "args.checkBoth: unknown field"),
        ("profiles: [{pluginConfig: [{name: LoadAwareScheduling, args: {kind: LowNodeLoadArgs}}]}]",
         "allowed here is LoadAwareSchedulingArgs"),
        ("profiles: [{pluginConfig: [{name: LoadVariationRiskBalancing, args: {margin: 1}}]}]",
         "args.margin: unknown field"),
        ("profiles: [{plugins: {filter: {enabled: [a]}}}, {plugins: {filter: {enabled: [b]}}}]",
         "found a second profile with settings"),
    ],
)  # fmt: skip
def test_settings_that_the_scheduler_refuses_are_errors(text: str, expected: str) -> None:
    imported = import_text(SCHEDULER + text)
    assert (imported.exit_code, imported.text) == (1, "")
    assert expected in imported.errors[0]
