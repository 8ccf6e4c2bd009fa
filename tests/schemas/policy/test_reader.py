"""Reading a policy reports all its problems with path and line."""

import pytest

from schemas.policy import (
    BUILT_IN,
    Policy,
    PolicyError,
    effective_yaml,
    read_policy,
)
from schemas.policy.errors import PROBLEMS_MAX
from schemas.policy.parts import NODE_POOLS_MAX
from tests.schemas.policy.harness import lines


@pytest.mark.parametrize(
    "text", ["", "\n", "# nothing yet\n", "---\n", "null\n", "{}", b"", "\ufeff"]
)
def test_empty_text_is_the_default_policy(text: str | bytes) -> None:
    assert read_policy(text) == Policy()


@pytest.mark.parametrize(
    ("text", "scores"),
    [
        ("compat: koordinator", ["LoadAwareScheduling"]),
        ("", ["OverutilizationRisk"]),
        ("plugins: {filter: [NodeName]}", ["OverutilizationRisk"]),
    ],
)
def test_missing_scores_follow_compat(text: str, scores: list[str]) -> None:
    assert [plugin.name for plugin in read_policy(text).plugins.score] == scores


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("apiVersion: v1\nkind: ConfigMap\ndata: {}", "line 2: kind: found 'ConfigMap'"),
        ("mode: observe\n---\nkind: DeschedulerPolicy", "line 3: kind: found 'DeschedulerPolicy'"),
        ("apiVersion: loadstream/v1", "line 1: apiVersion: found a document of another kind"),
        ("profiles: [{pluginConfig: []}]", "line 1: profiles: found a document of another kind"),
    ],
)
def test_a_document_of_another_system_is_refused_with_a_hint_at_the_import(
    text: str, position: str
) -> None:
    (problem,) = lines(text)
    assert problem.startswith(position)
    assert "loadstream policy import FILE" in problem


def test_the_default_policy_observes_and_scores_by_risk_alone() -> None:
    policy = read_policy("")
    assert policy.mode == "observe"
    assert policy.dry_run
    assert tuple(plugin.name for plugin in policy.plugins.filter) == BUILT_IN.filter
    assert [(plugin.name, plugin.weight) for plugin in policy.plugins.score] == [
        ("OverutilizationRisk", 1),
    ]
    assert policy.load_aware.usage_thresholds == {"cpu": 75, "memory": 95}
    assert policy.rebalance.resource_weights == {"cpu": 1, "memory": 1}
    assert policy.migration.max_migrating_per_node == 2
    assert policy.reservation_seconds == 300
    assert (policy.initial_backoff_seconds, policy.max_backoff_seconds) == (1, 60)
    assert policy.metric_future_seconds == 60
    assert policy.warnings == ()


def test_all_problems_are_reported_in_the_order_of_lines() -> None:
    text = """\
mode: enforced
loadAware:
  usageThreshold: {cpu: 70}
  resourceWeights:
    cpu: 1
    cpu: 2
  aggregated:
    usageAggregationType: p96
rebalance:
  nodeFit: on
  highThresholds: {cpu: 60}
  nodePools:
  - name: a
    nodeSelector: {matchExpressions: [{key: zone, operator: In}]}
maxPendingRequests: "many"
initialBackoffSeconds: 90
plugins:
  filter: [NodeName, NodePort]
"""
    assert lines(text) == [
        "line 1: mode: found \"enforced\" (text); allowed is 'observe' or 'enforce'; did you mean "
        '"enforce"?',
        'line 3: loadAware.usageThreshold: unknown field; did you mean "usageThresholds"?',
        "line 6: loadAware.resourceWeights.cpu: found a second time, also in line 5; allowed is once",
        'line 8: loadAware.aggregated.usageAggregationType: found "p96" (text); '
        "allowed is 'avg', 'p50', 'p90', 'p95', 'p99' or ''; did you mean \"p99\"?",
        'line 10: rebalance.nodeFit: found "on" (text); allowed is true or false',
        "line 11: rebalance.highThresholds.cpu: highThresholds has 'cpu', but lowThresholds does not; "
        "give both or neither",
        "line 14: rebalance.nodePools[0].nodeSelector.matchExpressions[0].values: "
        "In needs at least one value",
        'line 15: maxPendingRequests: found "many" (text); allowed is an integer',
        "line 16: initialBackoffSeconds: initialBackoffSeconds is 90 and maxBackoffSeconds is 60; "
        "the maximum must not be smaller",
        "line 18: plugins.filter[1].name: found 'NodePort'; did you mean \"NodePorts\"?",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- mode", "line 1: found a list of 1; expected a map of fields"),
        ("observe", 'line 1: found "observe" (text); expected a map of fields'),
        (
            "mode: observe\n---\nmode: enforce",
            "line 3: found a second policy; the first begins in line 1",
        ),
        ("loadAware: 5", "line 1: loadAware: found 5; allowed is a map"),
        ("not_applied: [a]", "line 1: not_applied: unknown field"),
        ("digest: a", "line 1: digest: unknown field"),
        ("foo:", "line 1: foo: unknown field; allowed: mode, compat,"),
        ("compat: k8s\nrebalance: {highThresholds: {cpu: 1}}", "line 1: compat: found"),
        ("plugins: {filter: [NodeName, NodeName]}", "found 'NodeName' a second time"),
        ("plugins: {score: [{name: LoadAwareScheduling, weight: 0}]}", "from 1 to 1000000"),
        ("descheduling: {deschedulingInterval: 0s}", "above 0"),
        ("collect: {metricReportIntervalSeconds: 10}", "from 30 to 43200"),
    ],
)
def test_one_problem_is_one_line(text: str, expected: str) -> None:
    problem_lines = lines(text)
    assert len(problem_lines) == 1
    assert expected in problem_lines[0]


def test_a_limited_number_of_problems_is_reported() -> None:
    problem_lines = lines("\n".join(f"unknown{number}: 1" for number in range(2_000)))
    assert len(problem_lines) == PROBLEMS_MAX + 1
    assert problem_lines[-1] == f"there are more problems; only the first {PROBLEMS_MAX} are shown"


def test_plugins_run_in_the_given_order_and_may_be_empty() -> None:
    policy = read_policy(
        "plugins: {filter: [LoadAwareScheduling, {name: NodeName}], score: [], balance: []}"
    )
    assert [plugin.name for plugin in policy.plugins.filter] == ["LoadAwareScheduling", "NodeName"]
    assert policy.plugins.score == ()
    assert policy.plugins.balance == ()


@pytest.mark.parametrize(
    ("text", "dry"),
    [
        ("", True),
        ("mode: enforce", False),
        ("{mode: enforce, descheduling: {dryRun: true}}", True),
        ("{mode: enforce, rebalance: {dryRun: true}}", True),
        ("{mode: enforce, migration: {dryRun: true}}", True),
    ],
)
def test_evictions_are_dry_unless_the_mode_says_enforce_and_no_switch_says_dry(
    text: str, dry: bool
) -> None:
    assert read_policy(text).dry_run is dry


def test_the_digest_depends_on_the_effect_and_not_on_the_text() -> None:
    default = read_policy("").digest
    assert len(default) == 16
    assert read_policy("# a comment\nmode: observe\n").digest == default
    assert read_policy("loadAware: {usageThresholds: {memory: 95, cpu: 75}}").digest == default
    assert read_policy("migration: {maxMigratingPerNode: 2}").digest == default
    assert read_policy("migration: {maxMigratingPerNode: 3}").digest != default


def test_a_changed_copy_has_another_digest() -> None:
    policy = read_policy("")
    copied = policy.model_copy(update={"mode": "enforce"}) if policy.digest else policy
    assert copied.digest == read_policy("mode: enforce").digest
    assert copied == read_policy("mode: enforce")


def test_every_default_is_printed_and_changes_no_digest() -> None:
    """Also for fields that a document omits if they have the default."""
    for text in ("", "compat: koordinator"):
        policy = read_policy(text)
        printed = effective_yaml(policy)
        defaults = ("minSavedMinutes: 7", "recentMinutes: 30", "checkBoth: false")
        assert [line for line in (*defaults, "type: LeastAllocated") if line not in printed] == []
        assert read_policy(printed).digest == policy.digest


def _pools(count: int, windows: int = 1) -> str:
    """Return a policy with this number of pools, each with an entry of thresholds that move."""
    names = [f"p{number}" for number in range(count)]
    pools = "".join(
        f"    - {{name: {name}, nodeSelector: {{matchLabels: {{p: {name}}}}}}}\n" for name in names
    )
    window = "{from: '00:00', to: '06:00', highThresholds: {cpu: 80}}"
    entries = "".join(
        f"    - {{pool: {name}, windows: [{', '.join([window] * windows)}]}}\n" for name in names
    )
    return (
        f"rebalance:\n  highThresholds: {{cpu: 60}}\n  lowThresholds: {{cpu: 40}}\n  nodePools:\n{pools}"
        f"movingThresholds:\n  hotspots:\n{entries}"
    )


def test_a_policy_has_a_bounded_number_of_pools() -> None:
    assert len(read_policy(_pools(NODE_POOLS_MAX)).rebalance.node_pools) == NODE_POOLS_MAX
    with pytest.raises(PolicyError, match="found a list of 65; allowed is at most 64 entries"):
        read_policy(_pools(NODE_POOLS_MAX + 1))
