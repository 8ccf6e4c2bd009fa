"""No accepted field changes nothing in silence: each has a test of its effect, or is listed.

`field_effects` names for every field of the policy the test that sees what it does. What has no
effect because of another field is listed with that as its reason.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.policy import Policy, PolicyError, read_policy
from schemas.policy.parts import inner_model
from tests.schemas.policy.field_effects import EFFECTS

ROOT = Path(__file__).parents[3]


def _models(model: type[BaseModel], seen: dict[str, type[BaseModel]]) -> dict[str, type[BaseModel]]:
    """A model and all models inside it, by name."""
    if model.__name__ not in seen:
        seen[model.__name__] = model
        for info in model.model_fields.values():
            inner = inner_model(info.annotation)
            if inner is not None:
                _models(inner, seen)
    return seen


def _fields() -> dict[str, tuple[str, str]]:
    """Name in Python and in a document, by `Model.field`; a selector's name only documents it."""
    return {
        f"{title}.{info.alias or name}": (name, info.alias or name)
        for title, model in _models(Policy, {}).items()
        for name, info in model.model_fields.items()
        if (title, name) != ("PodSelector", "name")
    }


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def test_every_field_has_a_test_that_sees_its_effect() -> None:
    known = [field for fields in EFFECTS.values() for field in fields.split()]
    assert sorted(known) == sorted(_fields()), "name the test in field_effects.py"


@pytest.mark.parametrize("test", EFFECTS, ids=lambda test: test.rpartition("::")[2])
def test_the_test_that_is_named_is_there_and_its_file_gives_the_field(test: str) -> None:
    file, _, name = test.partition("::")
    text = _text(file)
    assert f"def {name}(" in text
    names = _fields()
    for field in EFFECTS[test].split():
        assert any(re.search(rf"\b{re.escape(each)}\b", text) for each in names[field]), field


_HOT = "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}}\n"
_WINDOW = "from: '01:00', to: '02:00'"
_DEFAULT = "__default_node_pool__"
_KOORDINATOR = """\
compat: koordinator
rebalance:
  highThresholds: {{cpu: 70}}
  lowThresholds: {{cpu: 40}}
  detectorCacheTimeout: 9m
  anomalyCondition: {{timeout: 9m, consecutiveAbnormalities: {}, consecutiveNormalities: 2}}
"""


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("resourceLimits: {defaultLimit: {cpu: '1'}}",
         ["resourceLimits (plugins.score does not enable NodeResourceLimitsAware)"]),
        ("{overutilizationRisk: {excessWeight: 1}, plugins: {score: [], balance: []}}",
         ["overutilizationRisk (plugins.score does not enable OverutilizationRisk, nor does "
          "plugins.balance)"]),
        ("{riskMoves: {gain: 1}, plugins: {balance: []}}",
         ["riskMoves (plugins.balance does not enable OverutilizationRisk)"]),
        ("{overutilizationRisk: {excessWeight: 1}, riskMoves: {gain: 1}, moves: {verdicts: 5}, "
         "plugins: {balance: [OverutilizationRisk]}, descheduling: {deschedulingInterval: 2m}, "
         "rebalance: {paused: true, numberOfNodes: 1}}",
         ["rebalance.numberOfNodes (plugins.balance does not enable LowNodeLoad)"]),
        ("{evictor: {noEvictionPolicy: Preferred}}",
         ["evictor.noEvictionPolicy (moves by risk go by what they save, and no pool has high "
          "thresholds, so no node is hot)"]),
        (f"{_HOT}evictor: {{noEvictionPolicy: Preferred}}", []),
        ("evictor: {minReplicas: 1}",
         ["evictor.minReplicas (it is off: no workload has fewer than 1 replica)"]),
        ("evictor: {minReplicas: 2}", []),
        ("evictor: {labelSelector: {}, namespaceLabelSelector: {matchLabels: {}}}\n"
         "migration: {labelSelector: {matchLabels: {app: web}}, namespaces: {include: []}}",
         ["migration.namespaces (it names no namespace, so it leaves no pod out)",
          "evictor.labelSelector (it asks for no label, so it leaves no pod out)",
          "evictor.namespaceLabelSelector (it asks for no label, so it leaves no pod out)"]),
        ("moves: {minHelpedPercent: 0, verdicts: 20, initialBackoffSeconds: 60, maxFreezeSeconds: 900}",
         ["moves.verdicts (minHelpedPercent is 0: no pool is held back)",
          "moves.initialBackoffSeconds (minHelpedPercent is 0: no pool is held back)"]),
        ("{moves: {coolingSeconds: 240}, descheduling: {deschedulingInterval: 2m}}",
         ["moves.coolingSeconds (a node is cooling for two intervals between rounds, 4m)"]),
        ("{moves: {coolingSeconds: 241}, descheduling: {deschedulingInterval: 2m}}", []),
        ("{moves: {enabled: false}, riskMoves: {restMinutes: 120}}",
         ["riskMoves.restMinutes (moves.enabled is false)"]),
        ("migration: {maxMigratingGlobally: 0, maxMigratingPerNode: 0, maxMigratingPerNamespace: 0}",
         ["migration.maxMigratingGlobally (0 is off, as it is by default)",
          "migration.maxMigratingPerNamespace (0 is off, as it is by default)"]),
        ("{loadAware: {estimatedScalingFactors: {cpu: 1}, allowCustomizeEstimation: true}, "
         "plugins: {filter: [NodeResourcesFit]}}",
         ["loadAware.estimatedScalingFactors (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling, and no node is hot)",
          "loadAware.allowCustomizeEstimation (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling, and no node is hot)"]),
        ("{resourceLimits: {}, plugins: {score: [NodeResourceLimitsAware]}}", []),
        ("{resourcesFit: {scoringStrategy: {type: MostAllocated}}, balancedAllocation: {}}",
         ["resourcesFit.scoringStrategy (plugins.score does not enable NodeResourcesFit)",
          "balancedAllocation (plugins.score does not enable NodeResourcesBalancedAllocation)"]),
        ("{resourcesFit: {scoringStrategy: {resources: [{name: cpu}]}}, balancedAllocation: {}, "
         "plugins: {score: [NodeResourcesFit, NodeResourcesBalancedAllocation]}}", []),
        ("{loadAware: {usageThresholds: {cpu: 50}, resourceWeights: {cpu: 2}, checkBoth: true, "
         "estimatedScalingFactors: {cpu: 50}}, plugins: {filter: [], score: [LoadAwareScheduling]}}",
         ["loadAware.usageThresholds (plugins.filter does not enable LoadAwareScheduling)",
          "loadAware.checkBoth (plugins.filter does not enable LoadAwareScheduling)"]),
        ("{loadAware: {resourceWeights: {cpu: 2}, usageThresholds: {cpu: 50}, aggregated: "
         "{scoreAggregationType: p95}}, plugins: {score: []}}",
         ["loadAware.resourceWeights (plugins.score does not enable LoadAwareScheduling)",
          "loadAware.aggregated.scoreAggregationType (plugins.score does not enable "
          "LoadAwareScheduling)"]),
        ("{loadAware: {nodeMetricExpirationSeconds: 50}, plugins: {score: [], filter: []}}",
         ["loadAware.nodeMetricExpirationSeconds (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling; it only says which nodes are stale)"]),
        ("loadAware: {nodeMetricExpirationSeconds: 50, filterExpiredNodeMetrics: false}",
         ["loadAware.nodeMetricExpirationSeconds (filterExpiredNodeMetrics is false, and plugins.score "
          "does not enable LoadAwareScheduling; it only says which nodes are stale)"]),
        ("{loadAware: {nodeMetricExpirationSeconds: 50, filterExpiredNodeMetrics: false}, "
         "plugins: {score: [LoadAwareScheduling], balance: [LowNodeLoad]}}", []),
        (_HOT + "compat: koordinator\nloadAware: {estimatedScalingFactors: {cpu: 50}}\n"
         "plugins: {score: [], filter: []}",
         ["loadAware.estimatedScalingFactors (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling, and rounds of compat: koordinator go by no estimates)"]),
        (_HOT + "loadAware: {estimatedScalingFactors: {cpu: 50}}\nplugins: {score: [], filter: []}", []),
        ("{loadAware: {estimateBy: owner, estimateMarginPercent: 5}, plugins: {score: [], filter: []}}",
         ["loadAware.estimateBy (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling, and no node is hot; what pods use is learned all the same)",
          "loadAware.estimateMarginPercent (neither plugins.filter nor plugins.score enables "
          "LoadAwareScheduling, and no node is hot)"]),
        ("loadAware: {estimatedSecondsAfterPodScheduled: 0, estimatedSecondsAfterInitialized: -1}",
         ["loadAware.estimatedSecondsAfterPodScheduled (0 is off, as it is by default)",
          "loadAware.estimatedSecondsAfterInitialized (-1 is off, as it is by default)"]),
        ("loadAware: {estimatedSecondsAfterPodScheduled: 1, estimatedSecondsAfterInitialized: 1}", []),
        ("loadAware: {estimateMarginPercent: 5}",
         ["loadAware.estimateMarginPercent (estimateBy is requests)"]),
        ("loadAware: {estimateBy: fleet, estimateMarginPercent: 5, estimatedScalingFactors: "
         "{cpu: 9, pods: 9}}",
         ["loadAware.estimatedScalingFactors.cpu (estimateBy: fleet takes its place)"]),
        ("{loadAware: {estimateBy: fleet}, overutilizationRisk: {recentMinutes: 9, resources: "
         "[{name: cpu}, {name: pods}]}, plugins: {score: [LoadAwareScheduling], balance: []}}",
         ["overutilizationRisk.recentMinutes (plugins.score does not enable OverutilizationRisk, nor "
          "does plugins.balance)",
          "overutilizationRisk.resources[1] (plugins.score does not enable OverutilizationRisk, nor "
          "does plugins.balance, and loadAware names no pods)"]),
        ("{loadAware: {estimateBy: owner, estimateMarginPercent: 5}, "
         "overutilizationRisk: {resources: [{name: pods}]}}",
         ["loadAware.estimateBy (overutilizationRisk.resources names none that loadAware looks at; "
          "what pods use is learned all the same)",
          "loadAware.estimateMarginPercent (overutilizationRisk.resources names none that loadAware "
          "looks at)"]),
        ("{loadAware: {estimateBy: owner, supportedResources: [pods]}, "
         "overutilizationRisk: {resources: [{name: pods}]}}", []),
        ("{loadAware: {estimateBy: fleet, estimateMarginPercent: 0}, overutilizationRisk: {profiles: owner, usagePriorPods: 9, "
         "spreadPriorPercent: 9, resources: [{name: cpu, weight: 2}]}, "
         "plugins: {score: [LoadAwareScheduling], balance: []}}",
         ["overutilizationRisk.profiles (plugins.score does not enable OverutilizationRisk, nor does "
          "plugins.balance)",
          "overutilizationRisk.resources[0].weight (plugins.score does not enable "
          "OverutilizationRisk, nor does plugins.balance)",
          "overutilizationRisk.spreadPriorPercent (loadAware.estimateMarginPercent is 0)"]),
        ("loadAware: {filterExpiredNodeMetrics: false, enableScheduleWhenNodeMetricsExpired: true}",
         ["loadAware.enableScheduleWhenNodeMetricsExpired (filterExpiredNodeMetrics is false: "
          "expired metrics are checked as they are)"]),
        ("loadAware: {usageThresholds: {cpu: 50}, aggregated: {usageThresholds: {cpu: 60}, "
         "usageAggregationType: p95}}",
         ["loadAware.usageThresholds (loadAware.aggregated takes its place)"]),
        ("{loadAware: {aggregated: {usageThresholds: {cpu: 60}, scoreAggregatedDuration: 5m}}, "
         "plugins: {score: [LoadAwareScheduling]}}",
         ["loadAware.aggregated.usageThresholds (needs both usageThresholds and "
          "usageAggregationType)",
          "loadAware.aggregated.scoreAggregatedDuration (needs scoreAggregationType)"]),
        ("{rebalance: {numberOfNodes: 3}, plugins: {balance: [LowNodeLoad]}}",
         ["rebalance (no pool has high thresholds, so no node is hot)"]),
        (_HOT + "plugins: {balance: []}\nmoves: {verdicts: 3}\ndescheduling: {dryRun: true, "
         "deschedulingInterval: 5m}",
         ["rebalance (plugins.balance does not enable LowNodeLoad)",
          "moves (plugins.balance does not enable LowNodeLoad)",
          "descheduling.deschedulingInterval (plugins.balance does not enable LowNodeLoad)"]),
        ("maintenance: {pools: [{name: a, windows: [{}]}]}\nrebalance: {paused: true, nodePools: "
         "[{name: a, nodeSelector: {matchLabels: {a: b}}}]}\n"
         "plugins: {balance: [LowNodeLoad]}",
         ["rebalance.paused (no pool has high thresholds, so no node is hot)"]),
        (_HOT + "moves: {enabled: false, verdicts: 3, followSeconds: 9}",
         ["moves.verdicts (moves.enabled is false)"]),
        (_HOT + "compat: koordinator\nmoves: {enabled: true, followSeconds: 9}\n"
         "evictor: {noEvictionPolicy: Preferred}",
         ["moves.enabled (compat: koordinator remembers no moves)",
          "evictor.noEvictionPolicy (compat: koordinator orders pods as Koordinator does)"]),
        ("{rebalance: {podSelectors: [{}], highThresholds: {cpu: 9}, lowThresholds: {cpu: 9}}}",
         ["rebalance.podSelectors[0] (an entry without selector is ignored)"]),
        (_HOT + f"movingThresholds: {{hotspots: [{{windows: [{{{_WINDOW}}}]}}], "
         f"filter: {{windows: [{{{_WINDOW}}}]}}}}",
         ["movingThresholds.hotspots[0].windows[0] (the window gives no threshold)",
          "movingThresholds.filter.windows[0] (the window gives no threshold)"]),
        (_HOT + f"movingThresholds: {{filter: {{}}, hotspots: [{{}}, {{pool: {_DEFAULT}, windows: "
         f"[{{highThresholds: {{cpu: 80}}}}, {{{_WINDOW}, highThresholds: {{cpu: 90}}}}]}}]}}",
         ["movingThresholds.filter (it gives neither windows nor recentPast)",
          "movingThresholds.hotspots[0] (every pool has an entry of its own)",
          "movingThresholds.hotspots[1].windows[1] (an earlier window is open whenever this one is, "
          "and the first that is open holds)"]),
        (_HOT + f"movingThresholds: {{hotspots: [{{pool: {_DEFAULT}}}], filter: {{windows: ["
         "{days: [sun], to: '12:00', usageThresholds: {cpu: 50}}, {from: '12:00', usageThresholds: {cpu: 60}}, "
         "{days: [sun], from: '03:00', to: '20:00', usageThresholds: {cpu: 70}}, "
         "{days: [sun, mon], from: '03:00', to: '20:00', usageThresholds: {cpu: 80}}]}}",
         ["movingThresholds.hotspots[0] (it gives neither windows nor recentPast)",
          "movingThresholds.filter.windows[2] (an earlier window is open whenever this one is, "
          "and the first that is open holds)"]),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, nodePools: "
         "[{name: a, nodeSelector: {matchLabels: {a: b}}}]}\nmovingThresholds: {hotspots: "
         "[{windows: [{highThresholds: {cpu: 80}}]}, {pool: a}]}", []),
        (f"maintenance: {{pools: [{{name: {_DEFAULT}}}], namespaces: [{{name: a, windows: [{{}}]}}, "
         "{name: b}]}",
         ["maintenance.pools[0] (it names no window, so it is always open)",
          "maintenance.namespaces[1] (it names no window, so it is always open)"]),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, resourceWeights: "
         "{cpu: 2, memory: 2, pods: 3}, nodePools: [{name: a, nodeSelector: {matchLabels: {a: b}}, "
         "resourceWeights: {cpu: 1, pods: 1}}, {name: b, nodeSelector: {matchLabels: {b: b}}, "
         "highThresholds: {memory: 80}, lowThresholds: {memory: 50}}]}",
         ["rebalance.resourceWeights.pods (it has no threshold, so that neither "
          "nodes nor pods are ordered by it)",
          "rebalance.nodePools[0].resourceWeights.pods (it has no threshold, so that neither "
          "nodes nor pods are ordered by it)"]),
        ("compat: koordinator\nrebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, "
         "resourceWeights: {pods: 3}}", []),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, resourceWeights: "
         "{cpu: 0}, nodePools: [{name: a, nodeSelector: {matchLabels: {a: b}}, resourceWeights: "
         "{cpu: 0}}]}",
         ["rebalance.resourceWeights.cpu (0 is no weight here: 1 takes its place, as upstream)"]),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, detectorCacheTimeout: 5m, "
         "anomalyCondition: {timeout: 4m, consecutiveNormalities: 2}, nodePools: [{name: a, "
         "nodeSelector: {matchLabels: {a: b}}, anomalyCondition: {timeout: 240001ms}}]}\n"
         "descheduling: {deschedulingInterval: 2m}",
         ["rebalance.anomalyCondition.timeout (nothing is forgotten before two intervals between "
          "rounds, 4m)"]),
        (_HOT.replace("{h", "{detectorCacheTimeout: 2m, h"),
         ["rebalance.detectorCacheTimeout (nothing is forgotten before two intervals between "
          "rounds, 2m)"]),
        (_HOT.replace("{h", "{detectorCacheTimeout: 9m, anomalyCondition: {timeout: 9m, "
                            "consecutiveAbnormalities: 1, consecutiveNormalities: 2}, h"),
         ["rebalance.detectorCacheTimeout (consecutiveAbnormalities is 1: nodes act in their first "
          "hot round)"]),
        (_KOORDINATOR.format(1),
         ["rebalance.detectorCacheTimeout (consecutiveAbnormalities is 1: nodes act in their first "
          "hot round)",
          "rebalance.anomalyCondition.timeout (consecutiveAbnormalities is 1: nodes act in their "
          "first hot round)",
          "rebalance.anomalyCondition.consecutiveNormalities (consecutiveAbnormalities is 1: nodes "
          "act in their first hot round)"]),
        (_KOORDINATOR.format(2),
         ["rebalance.anomalyCondition.consecutiveNormalities (compat: koordinator counts one calm "
          "round at most)"]),
        (_KOORDINATOR.format(1) + "  nodePools: [{name: a, anomalyCondition: "
         "{consecutiveAbnormalities: 3, consecutiveNormalities: 2}}]",
         ["rebalance.anomalyCondition.timeout (consecutiveAbnormalities is 1: nodes act in their "
          "first hot round)"]),
        ("{migration: {defaultJobMode: EvictDirectly, schedulerNames: [a]}, "
         "otherSchedulers: evictDirectly}",
         ["otherSchedulers (migration.defaultJobMode is EvictDirectly; only migrations asked for as "
          "ReservationFirst go by it)",
          "migration.schedulerNames (migration.defaultJobMode is EvictDirectly; only migrations "
          "asked for as ReservationFirst go by it)"]),
        ("{migration: {skipEvictionGates: [PVCPods, LocalStoragePods]}, evictor: {podProtections: "
         "{extraEnabled: [PodsWithoutPDB, PodsWithPVC], defaultDisabled: [PodsWithLocalStorage]}}}",
         ["evictor.podProtections.extraEnabled[1] (skipEvictionGates lifts it (PVCPods))",
          "evictor.podProtections.defaultDisabled[0] (skipEvictionGates lifts it "
          "(LocalStoragePods))"]),
        ("{migration: {skipEvictionGates: [NodeFit], nodeFit: true}, evictor: {nodeFit: true}}",
         ["migration.nodeFit (skipEvictionGates lifts it (NodeFit))",
          "evictor.nodeFit (skipEvictionGates lifts it (NodeFit))"]),
        ("{migration: {evictSystemCriticalPods: true, priorityThreshold: {value: 5}}}",
         ["migration.priorityThreshold (no threshold holds where system critical pods may be "
          "evicted)"]),
        ("evictor: {priorityThreshold: {}}",
         ["evictor.priorityThreshold (gives neither value nor name)"]),
        ("{compat: koordinator, migration: {priorityThreshold: {name: high}}}",
         ["migration.priorityThreshold.name (compat: koordinator passes over a name, as upstream)"]),
        ("migration: {evictAllBarePods: true, evictFailedBarePods: true}",
         ["migration.evictFailedBarePods (a pod that has failed runs no more, so there is none to "
          "evict)"]),
        ("evictor: {podProtections: {defaultDisabled: [DaemonSetPods, FailedBarePods]}}",
         ["evictor.podProtections.defaultDisabled[1] (a pod that has failed runs no more, so there "
          "is none to evict)"]),
        ("{migration: {maxUnavailablePerWorkload: 1, maxMigratingPerWorkload: 1, "
         "skipCheckExpectedReplicas: true, "
         "skipEvictionGates: [MaxUnavailablePerWorkload, MaxMigratingPerWorkload]}}",
         ["migration.maxUnavailablePerWorkload (lifted by skipEvictionGates, and workloads of any "
          "size may move)"]),
        ("{migration: {maxUnavailablePerWorkload: 1, maxMigratingPerWorkload: 1, "
         "objectLimiters: {workload: {duration: 0s}}, "
         "skipEvictionGates: [ExpectedReplicas, MaxMigratingPerWorkload]}}",
         ["migration.maxMigratingPerWorkload (lifted by skipEvictionGates, and workloads of any size "
          "may move, and no limiter goes by it)"]),
        ("evictor: {podProtections: {config: {PodsWithPVC: {protectedStorageClasses: []}}}}",
         ["evictor.podProtections.config.PodsWithPVC (podProtections.extraEnabled does not name "
          "PodsWithPVC)"]),
        ("{evictor: {ignorePvcPods: true, podProtections: {config: {PodsWithPVC: {}}}}}",
         ["evictor.podProtections.config.PodsWithPVC (ignorePvcPods protects pods with any claim)"]),
        ("migration: {objectLimiters: {workload: {duration: 0s, burst: 5}}}",
         ["migration.objectLimiters.workload.burst (the limiter is off: its duration is 0)"]),
        ("migration: {objectLimiters: {namespace: {duration: 5m, burst: 5}}}",
         ["migration.objectLimiters.namespace (the limiter is off: maxMigrating is not above 0)"]),
        ("{compat: koordinator, migration: {objectLimiters: {namespace: {duration: 5m, "
         "maxMigrating: 5%}}}}",
         ["migration.objectLimiters.namespace (compat: koordinator takes a percentage for 0, which "
          "is off, as upstream)"]),
        ("{plugins: {balance: []}, evictor: {noEvictionPolicy: Preferred}}",
         ["evictor.noEvictionPolicy (plugins.balance does not enable LowNodeLoad)"]),
        ("{riskMoves: {restMinutes: 90}, moves: {loopWindowSeconds: 5400}}", []),
        ("compat: koordinator\nrebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, "
         "detectorCacheTimeout: 1m, anomalyCondition: {timeout: 1m, consecutiveAbnormalities: 2}, "
         "resourceWeights: {gpu: 2}}", []),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, "
         "resourceWeights: {cpu: 2, gpu: 2}, nodePools: [{name: a, resourceWeights: {gpu: 1}, "
         "nodeSelector: {matchLabels: {a: b}}}]}",
         ["rebalance.resourceWeights.gpu (it has no threshold, so that neither nodes nor pods are "
          "ordered by it)",
          "rebalance.nodePools[0].resourceWeights.gpu (it has no threshold, so that neither nodes "
          "nor pods are ordered by it)"]),
        ("rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, nodeSelector: {}, "
         "anomalyCondition: {consecutiveAbnormalities: 2}, "
         "nodePools: [{name: a, highThresholds: {cpu: 60}}]}",
         ["rebalance.nodeSelector ('a' takes all nodes that other pools leave)",
          "rebalance.highThresholds ('a' takes all nodes that other pools leave, and no pool "
          "inherits it)"]),
        ("rebalance: {nodeSelector: {}, useDeviationThresholds: true, nodePools: [{name: a, "
         "nodeSelector: {matchLabels: {a: b}}, highThresholds: {cpu: 60}, lowThresholds: {cpu: 9}}]}",
         ["rebalance.nodeSelector (the pool of the top level has no high thresholds)",
          "rebalance.useDeviationThresholds (the pool of the top level has no high thresholds)"]),
        ("collect: {pools: [{name: a}, {name: b, metricReportIntervalSeconds: 30}]}",
         ["collect.pools[0] (it gives nothing that the pool does not inherit)"]),
        ("maintenance: {namespaces: [{name: a}, {name: b, windows: [{}]}]}",
         ["maintenance.namespaces[0] (it names no window, so it is always open)"]),
        ("movingThresholds: {filter: {windows: [{days: [mon], from: '22:00', to: '06:00', "
         "usageThresholds: {cpu: 70}}, {days: [tue], from: '02:00', to: '06:00', utcOffset: '+00:00', "
         "usageThresholds: {cpu: 60}}, {days: [tue], from: '02:00', to: '06:01', "
         "usageThresholds: {cpu: 60}}]}}",
         ["movingThresholds.filter.windows[1] (an earlier window is open whenever this one is, and "
          "the first that is open holds)"]),
        (_HOT + "movingThresholds: {filter: {}, hotspots: [{windows: [{highThresholds: {cpu: 60}}]}, "
         "{pool: __default_node_pool__}]}",
         ["movingThresholds.filter (it gives neither windows nor recentPast)",
          "movingThresholds.hotspots[0] (every pool has an entry of its own)"]),
    ],
)  # fmt: skip
def test_what_has_no_effect_because_of_another_field_is_listed_with_the_reason(
    text: str, listed: list[str]
) -> None:
    assert sorted(read_policy(text).not_applied) == sorted(listed)


def test_a_percentage_of_a_namespace_is_refused_and_stays_where_it_is_in_force() -> None:
    text = "migration: {objectLimiters: {namespace: {duration: 5m, maxMigrating: 5%}}}"
    with pytest.raises(PolicyError, match="a namespace has no number of replicas") as caught:
        read_policy(text)
    (problem,) = caught.value.problems
    assert problem.path == "migration.objectLimiters.namespace.maxMigrating"
    assert problem.line == 1
    read_policy(text, accepted=True)


@pytest.mark.parametrize(
    ("options", "field", "found"),
    [
        ("propagationPolicy: Foreground, orphanDependents: true", "orphanDependents",
         "found beside propagationPolicy"),
        ("ignoreStoreReadErrorWithClusterBreakingPotential: true",
         "ignoreStoreReadErrorWithClusterBreakingPotential", "allowed is false"),
    ],
)  # fmt: skip
def test_delete_options_with_which_kubernetes_refuses_every_eviction_are_refused(
    options: str, field: str, found: str
) -> None:
    text = f"migration: {{defaultDeleteOptions: {{{options}}}}}"
    with pytest.raises(PolicyError, match=found) as caught:
        read_policy(text)
    (problem,) = caught.value.problems
    assert problem.path == f"migration.defaultDeleteOptions.{field}"
    read_policy(text, accepted=True)
    for allowed in ("propagationPolicy: Foreground", "orphanDependents: true",
                    "ignoreStoreReadErrorWithClusterBreakingPotential: false"):  # fmt: skip
        read_policy(f"migration: {{defaultDeleteOptions: {{{allowed}}}}}")


def test_a_strategy_that_there_is_not_is_refused_where_its_score_is_enabled() -> None:
    text = (
        "plugins: {score: [NodeResourcesFit]}\n"
        "resourcesFit: {scoringStrategy: {type: MostAllocated}}"
    )
    with pytest.raises(PolicyError, match='allowed is "LeastAllocated"') as caught:
        read_policy(text)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("resourcesFit.scoringStrategy.type", 2)
    read_policy(text, accepted=True)


@pytest.mark.parametrize("section", ["migration", "descheduling"])
def test_each_switch_marks_evictions_dry(section: str) -> None:
    enforce: dict[str, Any] = {"mode: enforce\n": False, f"mode: enforce\n{section}: {{dryRun: true}}": True}  # fmt: skip
    for text, dry in enforce.items():
        policy = read_policy(text)
        assert policy.dry_for("rebalance") is policy.dry_for("request") is dry
