"""Random policies under which small clusters do much.

Thresholds are low and rounds are frequent, so that few records make a node hot and a pod leave it.
Each field of a section has a few values. A document that contradicts itself is drawn again.
"""

import json
from random import Random
from typing import Any

from schemas.policy import PolicyError, read_policy
from streams.placement.registry import KNOWN

Document = dict[str, Any]
Values = tuple[Any, ...]

#: For the end of a history: waiting pods are tried often, and nothing moves.
QUIET_POLICY = """
mode: enforce
maxBackoffSeconds: 16
plugins:
  balance: []
"""
#: Texts that are no policy, or that are at a limit.
INVALID_POLICIES = (
    "", "null", "mode: enforced", "loadAware: {usageThresholds: {cpu: 101}}",
    "rebalance: {highThresholds: {cpu: 5}}", "movingThresholds: {hotspots: [{}, {}]}",
    "a: &a [*a]", "[" * 40, "mode: observe\nmode: enforce", "\ufeffmode: observe", "mode: \x00",
    "x: " + "y" * 262_140, "- " * 20_000,
)  # fmt: skip

_BOOLEANS = (False, True)
_MOSTLY = (True, True, True, False)
_RARELY = (False, False, False, False, True)
_PERCENTS: Values = (
    {},
    {"cpu": 40},
    {"cpu": 65, "memory": 80},
    {"memory": 30},
    {"example.com/gpu": 50},
)
_GATES = ("MaxMigratingPerNode", "MaxMigratingPerWorkload", "MaxUnavailablePerWorkload",
          "ExpectedReplicas", "NodeFit")  # fmt: skip
_FILTERS = ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts",
            "NodeResourcesFit", "LoadAwareScheduling")  # fmt: skip
_WINDOWS = ({"from": "00:00", "to": "12:00"}, {"from": "10:00", "to": "09:00"})
_THRESHOLDS: tuple[Document, ...] = (
    {"lowThresholds": {"cpu": 0}, "highThresholds": {"cpu": 1}},
    {"lowThresholds": {"cpu": 10}, "highThresholds": {"cpu": 30}},
    {"lowThresholds": {"cpu": 20, "memory": 20}, "highThresholds": {"cpu": 50, "memory": 50}},
    {"lowThresholds": {"cpu": 45.5}, "highThresholds": {"cpu": 60}}
    | {"prodLowThresholds": {"cpu": 20}, "prodHighThresholds": {"cpu": 59.5}},
)
_POOL = {"name": "warm", "nodeSelector": {"matchLabels": {"pool": "warm"}}}

#: By section: the share of its fields that a policy gives, and the values of each field. The section
#: "" has the fields outside of sections.
_SECTIONS: dict[str, tuple[float, dict[str, Values]]] = {
    "": (0.5, {
        "compat": ("loadstream", "koordinator"),
        "reservationSeconds": (1, 20, 60),
        "maxBackoffSeconds": (1, 10, 60),
        "maxPendingRequests": (1, 3, 10),
        "metricFutureSeconds": (0, 5, 86_400),
        "otherSchedulers": ("refuse", "evictDirectly"),
        "movingThresholds": (
            {"filter": {"windows": [_WINDOWS[0] | {"usageThresholds": {"cpu": 75}}]}},
            {"hotspots": [{"windows": [_WINDOWS[1] | {"evictWithoutTarget": True}]}]},
        ),
    }),
    "collect": (0.8, {
        "metricAggregateDurationSeconds": (60, 120),
        "metricReportIntervalSeconds": (30,),
        "metricAggregatePolicy": ({"durations": ["1m"]}, {"durations": ["1m", "5m"]}),
        "pools": ([{"name": "slow", "metricReportIntervalSeconds": 90}],),
    }),
    "loadAware": (0.4, {
        "filterExpiredNodeMetrics": _BOOLEANS,
        "enableScheduleWhenNodeMetricsExpired": _BOOLEANS,
        "nodeMetricExpirationSeconds": (1, 60, 2**63 - 1),
        "usageThresholds": _PERCENTS,
        "prodUsageThresholds": _PERCENTS,
        "prodUsageIncludeSys": _BOOLEANS,
        "scoreAccordingProdUsage": _BOOLEANS,
        "dominantResourceWeight": (0, 1),
        "allowCustomizeEstimation": _BOOLEANS,
        "estimatedSecondsAfterPodScheduled": (0, 30, 600),
        "aggregated": (
            {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m"},
            {"usageThresholds": {"cpu": 80}, "usageAggregationType": "p50", "usageAggregatedDuration": "0s"},
        ),
    }),
    "resourceLimits": (0.7, {
        "resources": ([{"name": "cpu", "weight": 1}, {"name": "memory"}], [{"name": "cpu", "weight": 100}]),
        "defaultLimit": ({"cpu": "allocatable"}, {"cpu": "request"}, {"cpu": "500m"}, {"cpu": "0"}),
    }),
    "overutilizationRisk": (0.5, {
        "resources": ([{"name": "cpu", "hotPercent": 1}, {"name": "memory"}], [{"name": "cpu", "hotPercent": 75}]),
        "recentMinutes": (0, 1, 30, 1_440),
    }),
    "rebalance": (0.2, {
        "nodePools": ([_POOL], *([_POOL | thresholds] for thresholds in _THRESHOLDS)),
        "paused": _RARELY,
        "nodeFit": _BOOLEANS,
        "numberOfNodes": (0, 0, 1),
        "detectorCacheTimeout": ("5s", "5m"),
        "useDeviationThresholds": _RARELY,
        "evictableNamespaces": ({"exclude": ["kube-system"]},),
        "nodeMetricExpirationSeconds": (30, 180),
        "podSelectors": ([{"name": "web", "selector": {"matchLabels": {"app": "web"}}}],),
    }),
    "migration": (0.45, {
        "defaultJobMode": ("ReservationFirst", "EvictDirectly"),
        "defaultJobTTL": ("10s", "1m", "5m"),
        "maxMigratingGlobally": (0, 1, 3),
        "maxMigratingPerNode": (0, 1, 2),
        "maxMigratingPerNamespace": (0, 1, 2),
        "maxMigratingPerWorkload": (1, 3, "10%", "50%"),
        "maxUnavailablePerWorkload": (3, "80%", "100%"),
        "skipCheckExpectedReplicas": _MOSTLY,
        "skipEvictionGates": (_GATES[:2], _GATES[2:], _GATES, _GATES),
        "objectLimiters": (
            {"workload": {"duration": "30s", "burst": 2}, "namespace": {"duration": "60s", "maxMigrating": 2}},
            *[{"workload": {"duration": "0s"}}] * 3,
        ),
        "evictQPS": (0.5, 1, 10, 1_000),
        "evictBurst": (1, 2, 100),
        "evictionPolicy": ("Eviction", "Delete", "SoftEviction"),
        "defaultDeleteOptions": ({"gracePeriodSeconds": 30},),
        "evictAllBarePods": _MOSTLY,
        "evictLocalStoragePods": _BOOLEANS,
        "evictSystemCriticalPods": _RARELY,
        "priorityThreshold": ({"value": 1_000}, {"value": 2_000_000_000}),
        "nodeFit": _BOOLEANS,
        "dryRun": _RARELY,
        "schedulerNames": (["koord-scheduler", "default-scheduler"],),
        "arbitrationArgs": ({"interval": "500ms"}, {"interval": "5s"}),
    }),
    "descheduling": (0.3, {
        "maxNoOfPodsToEvictPerNode": (0, 1, 3),
        "maxNoOfPodsToEvictPerNamespace": (1, 3),
        "maxNoOfPodsToEvictTotal": (1, 2, 10),
        "nodeSelector": ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]},),
    }),
    "evictor": (0.2, {
        "minReplicas": (0, 1, 3),
        "minPodAge": ("0s", "10s"),
        "nodeFit": _BOOLEANS,
        "evictDaemonSetPods": _BOOLEANS,
        "ignorePodsWithoutPDB": _RARELY,
        "priorityThreshold": ({"value": 10_000}, {"name": "high"}),
        "namespaceLabelSelector": ({"matchLabels": {"team": "shop"}},),
        "noEvictionPolicy": ("Preferred", "Mandatory"),
    }),
    "maintenance": (0.15, {
        "windows": ([_WINDOWS[0]], [_WINDOWS[1]]),
        "namespaces": ([{"name": "default", "windows": [_WINDOWS[1]]}],),
    }),
    "moves": (0.4, {
        "enabled": _MOSTLY,
        "coolingSeconds": (1, 10, 300),
        "coolingMetrics": (0, 1, 2),
        "loopWindowSeconds": (60, 3_600),
        "maxMovesPerOwner": (1, 2, 4),
        "initialFreezeSeconds": (5,),
        "followSeconds": (2, 20, 600),
    }),
    "riskMoves": (0.8, {
        "minSavedMinutes": (0.1, 1),
        "minPodAgeMinutes": (0, 1),
        "maxMovesPerRound": (1, 3),
    }),
    "plugins": (0.3, {
        "balance": (["LowNodeLoad"], ["LowNodeLoad", "OverutilizationRisk"]),
        "filter": (_FILTERS, _FILTERS[::-1], _FILTERS[:5], ()),
        "score": (["LoadAwareScheduling"], [{"name": "LoadAwareScheduling", "weight": 1_000_000}],
                  ["LoadAwareScheduling", "OverutilizationRisk"], ["OverutilizationRisk"]),
    }),
}  # fmt: skip


def draw_policy(random: Random) -> str:
    """Return the text of a valid policy."""
    while True:
        text = json.dumps(_draw_document(random))
        try:
            read_policy(text, KNOWN)
        except PolicyError:
            continue
        return text


def _draw_document(random: Random) -> Document:
    document: Document = {
        name: {field: random.choice(of) for field, of in fields.items() if random.random() < share}
        for name, (share, fields) in _SECTIONS.items()
        if random.random() < 0.7
    }
    document |= document.pop("", {})
    document = {name: section for name, section in document.items() if section != {}}
    document["mode"] = random.choice((*["enforce"] * 7, "observe"))
    interval = random.choice(("1s", "2s", "5s", "1m"))
    document["descheduling"] = {"deschedulingInterval": interval} | document.get("descheduling", {})
    condition = {
        "consecutiveAbnormalities": random.choice((1, 1, 2, 3)),
        "consecutiveNormalities": random.choice((1, 2)),
        "timeout": random.choice(("10s", "1m")),
    }
    rebalance = random.choice(_THRESHOLDS) | {"anomalyCondition": condition}
    document["rebalance"] = rebalance | document.get("rebalance", {})
    return document
