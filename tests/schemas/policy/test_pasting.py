"""Configurations of the scheduler and the descheduler can be pasted and mean what they meant."""

from typing import Any

import pytest

from schemas.policy import Policy, PolicyError, read_policy
from schemas.policy.extensionpoints import merged
from tests.schemas.policy.harness import lines, refused

SCHEDULER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
DESCHEDULER = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
"""
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
"""
LOW_NODE_LOAD = """\
profiles:
- name: koord-descheduler
  pluginConfig:
  - name: LowNodeLoad
    args:
      apiVersion: descheduler/v1alpha2
      kind: LowNodeLoadArgs
      lowThresholds: {cpu: 45, memory: 55}
      highThresholds: {cpu: 75, memory: 80}
"""


def names(plugins: tuple[Any, ...]) -> list[str]:
    return [plugin.name for plugin in plugins]


def test_a_koordinator_scheduler_configuration_is_read_as_the_whole_file() -> None:
    policy = read_policy(
        SCHEDULER
        + """\
leaderElection: {leaderElect: true, resourceLock: leases}
clientConnection: {qps: 50, burst: 100}
percentageOfNodesToScore: 30
podMaxBackoffSeconds: 20
profiles:
- schedulerName: koord-scheduler
  plugins:
    filter:
      enabled:
      - name: LoadAwareScheduling
      - name: NodeNUMAResource
    score:
      enabled:
      - name: LoadAwareScheduling
        weight: 5
    reserve:
      enabled:
      - name: LoadAwareScheduling
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: LeastAllocated}}
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      usageThresholds: {cpu: 60}
"""
    )
    assert policy.load_aware.usage_thresholds == {"cpu": 60}
    assert policy.max_backoff_seconds == 20
    assert [(plugin.name, plugin.weight) for plugin in policy.plugins.score] == [
        ("LoadAwareScheduling", 5),
    ]
    assert names(policy.plugins.filter) == names(Policy().plugins.filter)
    kind = "KubeSchedulerConfiguration: "
    assert policy.not_applied == (
        kind + "leaderElection",
        kind + "clientConnection",
        kind + "percentageOfNodesToScore",
        kind + "profiles[0].schedulerName",
        kind + "profiles[0].plugins.filter.enabled[1] (NodeNUMAResource)",
        kind + "profiles[0].pluginConfig[0].args.scoringStrategy (plugins.score does not enable "
        "NodeResourcesFit)",
    )


_SCORES_BY_REQUESTS = """\
profiles:
- plugins:
    score: {enabled: [{name: NodeResourcesBalancedAllocation, weight: 2}]}
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 3}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeResourcesFitArgs
      ignoredResources: [example.com/a]
      scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 5}]}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu, weight: 1}, {name: nvidia.com/gpu, weight: 1}]}
"""


def test_kube_schedulers_scores_by_requests_are_enabled_and_weighed_by_its_configuration() -> None:
    policy = read_policy(SCHEDULER + _SCORES_BY_REQUESTS)
    assert [(plugin.name, plugin.weight) for plugin in policy.plugins.score] == [
        ("LoadAwareScheduling", 1),
        ("NodeResourcesFit", 3),
        ("NodeResourcesBalancedAllocation", 2),
    ]
    assert policy.resources_fit.scoring_strategy.weights == {"cpu": 5}
    assert [each.name for each in policy.balanced_allocation.resources] == ["cpu", "nvidia.com/gpu"]
    assert policy.not_applied == (
        "KubeSchedulerConfiguration: profiles[0].pluginConfig[0].args.ignoredResources",
    )


@pytest.mark.parametrize(
    "args",
    [
        "{scoringStrategy: {type: Random}}",
        "{scoringStrategy: {resources: [{name: cpu, weight: 500}]}}",
        "5",
    ],
)
def test_arguments_that_came_to_be_read_later_are_listed_in_a_policy_that_is_in_force(
    args: str,
) -> None:
    text = f"{SCHEDULER}profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]"
    with pytest.raises(PolicyError):
        read_policy(text)
    assert read_policy(text, accepted=True).not_applied == (
        "KubeSchedulerConfiguration: profiles[0].pluginConfig[0] (NodeResourcesFit)",
    )


def test_several_profiles_of_a_policy_that_is_in_force_may_have_them() -> None:
    config = "{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {}}]}"
    text = f"{SCHEDULER}profiles: [{config}, {config}]"
    assert read_policy(text, accepted=True).balanced_allocation == Policy().balanced_allocation


def test_a_koordinator_descheduler_configuration_is_read() -> None:
    policy = read_policy(
        DESCHEDULER
        + "deschedulingInterval: 10s\ndryRun: true\nmaxNoOfPodsToEvictTotal: 9\n"
        + "nodeSelector: {matchLabels: {pool: batch}}\nmetricsBindAddress: 0.0.0.0:10251\n"
        + LOW_NODE_LOAD
        + """\
  - name: MigrationController
    args:
      kind: MigrationControllerArgs
      evictQPS: "10"
      defaultJobTTL: 5m0s
      maxConcurrentReconciles: 1
      objectLimiters: {workload: {duration: 5m0s}}
  plugins:
    balance: {enabled: [LowNodeLoad]}
    deschedule: {}
    evict: {enabled: [{name: MigrationController}]}
    filter: {enabled: [{name: MigrationController}]}
"""
    )
    assert policy.rebalance.high_thresholds == {"cpu": 75, "memory": 80}
    assert names(policy.plugins.balance) == ["LowNodeLoad"]
    assert policy.migration.evict_qps == 10
    assert policy.migration.default_job_ttl_ms == 300_000
    assert policy.descheduling.descheduling_interval_ms == 10_000
    assert policy.descheduling.max_no_of_pods_to_evict_total == 9
    assert policy.descheduling.node_selector is not None
    assert policy.descheduling.node_selector.matches({"pool": "batch"})
    assert policy.dry_run
    kind = "DeschedulerConfiguration: "
    assert policy.not_applied == (
        kind + "metricsBindAddress",
        kind + "profiles[0].name",
        kind + "profiles[0].pluginConfig[1].args.maxConcurrentReconciles",
    )


def test_a_policy_of_the_kubernetes_descheduler_is_read() -> None:
    policy = read_policy(
        POLICY
        + """\
nodeSelector: "pool in (batch),!spare"
maxNoOfPodsToEvictPerNode: 5
gracePeriodSeconds: 30
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args: {minReplicas: 2, podProtections: {extraEnabled: [PodsWithPVC]}}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 86400}
  plugins:
    deschedule: {enabled: [PodLifeTime]}
    filter: {enabled: [DefaultEvictor]}
"""
    )
    selector = policy.descheduling.node_selector
    assert selector is not None
    assert selector.matches({"pool": "batch"})
    assert not selector.matches({"pool": "batch", "spare": ""})
    assert policy.descheduling.max_no_of_pods_to_evict_per_node == 5
    assert policy.evictor.min_replicas == 2
    assert "PodsWithPVC" in policy.evictor.protections
    kind = "DeschedulerPolicy: "
    why = " (no pool has high thresholds, so no node is hot)"
    assert policy.not_applied == (
        kind + "nodeSelector" + why,
        kind + "maxNoOfPodsToEvictPerNode" + why,
        kind + "gracePeriodSeconds",
        kind + "metricsProviders",
        kind + "profiles[0].name",
        kind + "profiles[0].pluginConfig[1] (PodLifeTime)",
        kind + "profiles[0].plugins.deschedule.enabled[0] (PodLifeTime)",
    )


def test_pasted_documents_complete_a_policy_of_our_own() -> None:
    text = "mode: enforce\ndescheduling: {dryRun: false}\n---\n" + SCHEDULER + "---\n" + DESCHEDULER
    policy = read_policy(text + "deschedulingInterval: 30s\n")
    assert policy.mode == "enforce"
    assert not policy.dry_run
    assert policy.descheduling.descheduling_interval_ms == 30_000


def test_arguments_can_be_pasted_as_a_document_of_their_own() -> None:
    text = "kind: LoadAwareSchedulingArgs\nusageThresholds: {cpu: 55}\n---\nmode: enforce\n"
    policy = read_policy(text)
    assert policy.load_aware.usage_thresholds == {"cpu": 55}
    assert policy.mode == "enforce"


@pytest.mark.parametrize(
    ("pasted", "by_risk"),
    [
        ("kind: OverutilizationRiskArgs\n", True),
        ("kind: LoadAwareSchedulingArgs\n", True),
        (SCHEDULER, True),
        ("kind: LowNodeLoadArgs\n", False),
        ("kind: DefaultEvictorArgs\n", False),
        (DESCHEDULER + "deschedulingInterval: 30s\n", False),
    ],
)
def test_only_what_is_pasted_of_a_descheduler_turns_moves_by_risk_off(
    pasted: str, by_risk: bool
) -> None:
    policy = read_policy(pasted)
    assert policy.plugins.balances("OverutilizationRisk") is by_risk
    assert policy.plugins.balances("LowNodeLoad")


@pytest.mark.parametrize(
    ("plugins", "enabled"),
    [
        ("", False),
        ("  plugins: {balance: {}}\n", False),
        ("  plugins: {balance: {enabled: [LowNodeLoad]}}\n", True),
        ("  plugins: {balance: {disabled: ['*'], enabled: [{name: LowNodeLoad}]}}\n", True),
    ],
)
def test_pasted_low_node_load_moves_pods_only_where_it_is_enabled(
    plugins: str, enabled: bool
) -> None:
    policy = read_policy(DESCHEDULER + LOW_NODE_LOAD + plugins)
    assert bool(policy.plugins.balance) is enabled
    why = "(plugins.balance does not enable LowNodeLoad)"
    assert any(why in path for path in policy.not_applied) is not enabled


def test_a_pasted_descheduler_without_low_node_load_leaves_our_own_rebalancing_on() -> None:
    own = "rebalance: {lowThresholds: {cpu: 30}, highThresholds: {cpu: 60}}\n---\n"
    policy = read_policy(own + DESCHEDULER + "deschedulingInterval: 30s\n")
    assert names(policy.plugins.balance) == ["LowNodeLoad"]


@pytest.mark.parametrize(
    ("plugins", "filters", "scores"),
    [
        ({}, "ABL", "LR"),
        ({"filter": {"disabled": ["B"]}}, "AL", "LR"),
        ({"filter": {"disabled": ["*"]}}, "", "LR"),
        ({"filter": {"disabled": ["*"], "enabled": ["L", "A"]}}, "AL", "LR"),
        ({"filter": {"enabled": ["B"]}}, "BAL", "LR"),
        ({"filter": {"enabled": ["L"]}}, "ABL", "LR"),
        ({"filter": {"enabled": ["X"]}}, "ABL", "LR"),
        ({"multiPoint": {"disabled": ["*"], "enabled": ["L"]}}, "L", "L"),
        ({"multiPoint": {"enabled": ["L"]}, "filter": {"disabled": ["L"]}}, "AB", "LR"),
        ({"multiPoint": {"disabled": ["L"]}, "score": {"enabled": ["L"]}}, "AB", "RL"),
    ],
)
def test_enabled_and_disabled_plugins_merge_as_in_the_scheduler(
    plugins: dict[str, Any], filters: str, scores: str
) -> None:
    short = {"L": "LoadAwareScheduling", "R": "NodeResourceLimitsAware", "A": "A", "B": "B"}
    spelled = {
        point: {
            listing: [{"name": short.get(name, name)} for name in listed]
            for listing, listed in sets.items()
        }
        for point, sets in plugins.items()
    }
    for point, defaults, expected in (("filter", "ABL", filters), ("score", "LR", scores)):
        known = tuple(short[name] for name in defaults)
        entries = merged(spelled, point, (), known, known)
        assert [entry.name for entry in entries] == [short[name] for name in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SCHEDULER + "leaderElection: {leaderElekt: true}", 'did you mean "leaderElect"?'),
        (
            SCHEDULER + "paralellism: 5",
            'line 3: paralellism: unknown field; did you mean "parallelism"?',
        ),
        (SCHEDULER + "profiles: {}", "line 3: profiles: found an empty map; allowed is a list"),
        (SCHEDULER + "profiles: [{plugins: {filters: {}}}]", 'did you mean "filter"?'),
        (SCHEDULER + "podInitialBackoffSeconds: 0", "line 3: podInitialBackoffSeconds: found 0;"),
        (
            SCHEDULER
            + "profiles: [{plugins: {score: {enabled: [{name: LoadAwareScheduling, weight: -1}]}}}]",
            "profiles[0].plugins.score.enabled[0].weight: found -1; allowed is an integer from 1",
        ),
        ("kind: KubeSchedulerConfiguration", "apiVersion: required, but not given"),
        ("kind: KubeSchedulerConfiguration\napiVersion: v2", "line 2: apiVersion: found"),
        ("kind: KubeSchedulerConfigurations", 'did you mean "KubeSchedulerConfiguration"?'),
        ("kind: ConfigMap", "a policy of loadstream's own has no kind"),
        ("kind: [a]", "kind: found a list of 1"),
        (DESCHEDULER + "deschedulingInterval: 10", "line 3: deschedulingInterval: found 10;"),
        (POLICY + "nodeSelector: a in b", "line 3: nodeSelector: "),
        (POLICY + "deschedulingInterval: 10s", "line 3: deschedulingInterval: unknown field"),
        (
            DESCHEDULER + "nodeSelector: {}\nprofiles: [{nodeSelector: {}}]",
            "line 4: profiles[0].nodeSelector: given a second time, also in line 3",
        ),
        (
            DESCHEDULER + "profiles: [{plugins: {}}, {plugins: {}}]",
            "profiles[1].plugins: found a second profile with settings of its own, the first is "
            "profiles[0]; loadstream has one for all pods, keep one",
        ),
        (
            "loadAware: {}\n---\nkind: LoadAwareSchedulingArgs",
            "line 3: given a second time, also in line 1; allowed is once",
        ),
        (
            "plugins: {score: [LoadAwareScheduling]}\n---\n"
            + SCHEDULER
            + "profiles: [{plugins: {score: {disabled: ['*']}}}]",
            "line 5: profiles[0].plugins.score: given a second time, also in line 1",
        ),
        ("descheduling: 5\n---\n" + POLICY, "line 1: descheduling: found 5; allowed is a map"),
        (
            DESCHEDULER + "dryRun: true\n---\ndescheduling: {dryRun: true}",
            "descheduling.dryRun: given a second time, also in line 3",
        ),
    ],
)
def test_what_upstream_would_not_read_is_an_error_at_its_own_place(
    text: str, expected: str
) -> None:
    found = lines(text)
    assert len(found) == 1
    assert expected in found[0]


def _seed(extra: str = "") -> str:
    """Seed 004's second example, with its arguments where their names say that they belong."""
    return (
        DESCHEDULER
        + LOW_NODE_LOAD
        + extra
        + """\
  plugins:
    balance:
      enabled:
      - LowNodeLoad
    deschedule: {}
    evict:
      disabled:
      - name: "*"
      enabled:
      - name: DefaultEvictor
    filter:
      disabled:
      - name: "*"
"""
    )


@pytest.mark.parametrize("accepted", [False, True])
def test_default_evictor_in_place_of_migration_controller_evicts_directly_and_without_its_limits(
    accepted: bool,
) -> None:
    policy = read_policy(_seed(), accepted=accepted)
    assert names(policy.plugins.balance) == ["LowNodeLoad"]
    args = policy.migration
    assert args.default_job_mode == "EvictDirectly"
    assert {"MaxMigratingPerNode", "MaxMigratingPerWorkload"} <= set(args.skip_eviction_gates)
    assert args.object_limiters["workload"].duration_ms == 0
    assert [path for path in policy.not_applied if "Evictor" in path] == []
    assert any("filter.disabled" in path for path in policy.not_applied)


def test_arguments_of_migration_controller_beside_default_evictor_are_refused_by_name() -> None:
    args = "  - name: MigrationController\n    args: {evictQPS: 5}\n"
    (found,) = lines(_seed(args))
    assert "profiles[0].pluginConfig[1].args: found arguments of MigrationController" in found
    both = _seed(args).replace(
        "      - name: DefaultEvictor", "      - DefaultEvictor\n      - MigrationController"
    )
    assert read_policy(both).migration.evict_qps == 5
    assert read_policy(_seed(args), accepted=True).migration.evict_qps == 5


def test_a_part_of_a_configuration_says_that_its_kind_is_missing() -> None:
    (found,) = lines(LOW_NODE_LOAD)
    assert "profiles: stands in a pasted configuration, which needs its kind: one of " in found


@pytest.mark.parametrize(
    "second",
    [
        "pluginConfig: [{name: LowNodeLoad, args: {numberOfNodes: 5}}]",
        "pluginConfig: [{name: DefaultEvictor, args: {minReplicas: 5}}]",
        "plugins: {balance: {enabled: [LowNodeLoad]}}",
        "nodeSelector: {matchLabels: {pool: batch}}",
    ],
)
def test_a_second_profile_with_settings_of_its_own_is_refused_by_name(second: str) -> None:
    text = DESCHEDULER + LOW_NODE_LOAD + f"- {{name: other, {second}}}\n"
    (found,) = lines(text)
    assert "found a second profile with settings of its own, the first is profiles[0]" in found
    bare = DESCHEDULER + LOW_NODE_LOAD + "- {name: other}\n"
    assert any("profiles[1].name" in path for path in read_policy(bare).not_applied)


def test_profiles_of_a_policy_that_is_in_force_already_are_merged_as_before() -> None:
    text = (
        DESCHEDULER + LOW_NODE_LOAD + "- {name: b, plugins: {balance: {enabled: [LowNodeLoad]}}}\n"
    )
    policy = read_policy(text, accepted=True)
    assert names(policy.plugins.balance) == ["LowNodeLoad"]
    assert policy.rebalance.high_thresholds == {"cpu": 75, "memory": 80}


def test_problems_in_pasted_arguments_have_the_path_of_their_own_document() -> None:
    found = lines("mode: x\n---\n" + DESCHEDULER + LOW_NODE_LOAD.replace("cpu: 45", "cpu: 85"))
    assert found == [
        "line 1: mode: found \"x\" (text); allowed is 'observe' or 'enforce'",
        "line 12: profiles[0].pluginConfig[0].args.lowThresholds.cpu: lowThresholds is 85 and "
        "highThresholds is 75; allowed is at most as much",
    ]


@pytest.mark.parametrize("broken", ["5", "[5]", "[{plugins: 5}]", "[{pluginConfig: 5}]"])
def test_a_broken_profile_is_told_and_nothing_else_breaks(broken: str) -> None:
    for kind in (SCHEDULER, DESCHEDULER, POLICY):
        found = lines(f"{kind}profiles: {broken}")
        assert len(found) == 1
        assert "found 5" in found[0]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ("kind: LoadAwareSchedulingArgs\ncheckBoth: true\n", "checkBoth"),
        ("kind: LoadAwareSchedulingArgs\nestimateBy: requests\n", "estimateBy"),
        (
            """
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig: [{name: LoadAwareScheduling, args: {estimateMarginPercent: 5}}]
""",
            "profiles[0].pluginConfig[0].args.estimateMarginPercent",
        ),
        (
            """
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig: [{name: LoadAwareScheduling, args: {checkBoth: false}}]
""",
            "profiles[0].pluginConfig[0].args.checkBoth",
        ),
    ],
)
def test_arguments_that_only_loadstream_has_are_refused_in_pasted_documents(
    document: str, path: str
) -> None:
    found = str(refused(read_policy, document))
    name = path.rpartition(".")[2]
    assert f"{path}: loadstream's own; give it as loadAware.{name}" in found


def test_koordinators_mode_estimates_by_requests_alone() -> None:
    found = refused(read_policy, "compat: koordinator\nloadAware: {estimateBy: fleet}")
    assert 'line 2: loadAware.estimateBy: found "fleet", while compat is koordinator' in str(found)
    same = read_policy("compat: koordinator\nloadAware: {estimateBy: requests}")
    assert same.digest == read_policy("compat: koordinator").digest


def test_sections_that_came_later_change_no_digest_of_a_policy_that_does_not_give_them() -> None:
    assert not {"resourcesFit", "balancedAllocation"} & Policy().document().keys()
    given = read_policy("balancedAllocation: {resources: [{name: cpu}]}")
    assert given.digest != Policy().digest


def test_an_argument_of_our_own_changes_no_digest_of_a_policy_that_does_not_give_it() -> None:
    given = read_policy("loadAware: {checkBoth: false}")
    assert given.digest == read_policy("").digest
    assert "checkBoth" not in str(given.document())
    assert read_policy("loadAware: {checkBoth: true}").digest != given.digest
