"""Random policy documents under which small clusters do much: most are valid, a few are not.

Thresholds are low and rounds frequent, so that a handful of records makes a node hot and a pod
leave it.
"""

import json
from random import Random
from typing import Any

Document = dict[str, Any]

_PERCENTS = (0, 10, 20, 30, 40, 50, 65, 80, 100)
_GATES = (
    "MaxMigratingPerNode",
    "MaxMigratingPerWorkload",
    "MaxUnavailablePerWorkload",
    "ExpectedReplicas",
    "NodeFit",
)
_FILTERS = (
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "LoadAwareScheduling",
)
#: What is no policy, or one at a limit.
_ODD = (
    "",
    "null",
    "mode: enforced",
    "loadAware: {usageThresholds: {cpu: 101}}",
    "rebalance: {highThresholds: {cpu: 5}}",
    "movingThresholds: {filter: {recentPast: {rounds: 361}}}",
    "a: &a [*a]",
    "[" * 40,
    "mode: observe\nmode: enforce",
    "\ufeffmode: observe",
    "mode: \x00",
    "x: " + "y" * 262_140,
    "- " * 20_000,
)


def document(random: Random) -> str:
    """A policy's text."""
    if random.random() < 0.06:
        return random.choice(_ODD)
    raw: Document = {"mode": random.choice(("enforce", "enforce", "enforce", "observe"))}
    compat = random.random() < 0.2
    if compat:
        raw["compat"] = "koordinator"
    for name, make in _SECTIONS.items():
        if random.random() < 0.7:
            raw[name] = make(random)
    raw["rebalance"] = _rebalance(random)
    raw["migration"] = _migration(random)
    raw["descheduling"] = _descheduling(random)
    if not compat and random.random() < 0.5:
        raw["movingThresholds"] = _moving(random, raw["rebalance"])
    if random.random() < 0.2:
        raw["plugins"] = _plugins(random)
    for name, most in (("reservationSeconds", 400), ("maxBackoffSeconds", 60)):
        if random.random() < 0.5:
            raw[name] = random.randint(1, most)
    if random.random() < 0.2:
        raw["maxPendingRequests"] = random.choice((1, 3, 10))
    if random.random() < 0.2:
        raw["metricFutureSeconds"] = random.choice((0, 5, 86_400))
    if random.random() < 0.3:
        raw["otherSchedulers"] = random.choice(("refuse", "evictDirectly"))
    return json.dumps(raw)


def _some(random: Random, fields: Document, share: float = 0.5) -> Document:
    return {name: value for name, value in fields.items() if random.random() < share}


def _percents(random: Random) -> dict[str, int]:
    names = random.sample(("cpu", "memory", "example.com/gpu"), random.randint(0, 2))
    return {name: random.choice(_PERCENTS) for name in names}


def _load_aware(random: Random) -> Document:
    return _some(
        random,
        {
            "filterExpiredNodeMetrics": random.random() < 0.5,
            "enableScheduleWhenNodeMetricsExpired": random.random() < 0.5,
            "nodeMetricExpirationSeconds": random.choice((1, 60, 2**63 - 1)),
            "usageThresholds": _percents(random),
            "prodUsageThresholds": _percents(random),
            "prodUsageIncludeSys": random.random() < 0.5,
            "scoreAccordingProdUsage": random.random() < 0.5,
            "dominantResourceWeight": random.choice((0, 1)),
            "allowCustomizeEstimation": random.random() < 0.5,
            "estimatedSecondsAfterPodScheduled": random.choice((0, 30, 600)),
            "aggregated": {
                "usageThresholds": _percents(random),
                "usageAggregationType": random.choice(("p50", "p95", "p99")),
                "usageAggregatedDuration": random.choice(("5m", "0s")),
            },
        },
        0.4,
    )


def _limits(random: Random) -> Document:
    return {
        "resources": [{"name": "cpu", "weight": random.choice((1, 100))}, {"name": "memory"}],
        "defaultLimit": {"cpu": random.choice(("allocatable", "request", "500m", "0"))},
    }


def _thresholds(random: Random) -> Document:
    low, high = random.choice(((10, 30), (20, 50), (45.5, 60), (0, 1)))
    raw: Document = {"lowThresholds": {"cpu": low}, "highThresholds": {"cpu": high}}
    if random.random() < 0.4:
        raw["lowThresholds"]["memory"] = low
        raw["highThresholds"]["memory"] = high
    if random.random() < 0.3:
        raw["prodLowThresholds"] = {"cpu": low / 2}
        raw["prodHighThresholds"] = {"cpu": high - 0.5}
    return raw


def _rebalance(random: Random) -> Document:
    raw = _thresholds(random) | {
        "anomalyCondition": {
            "consecutiveAbnormalities": random.choice((1, 1, 2, 3)),
            "consecutiveNormalities": random.choice((1, 2)),
            "timeout": random.choice(("10s", "1m")),
        }
    }
    raw |= _some(
        random,
        {
            "paused": random.random() < 0.1,
            "dryRun": random.random() < 0.2,
            "nodeFit": random.random() < 0.7,
            "numberOfNodes": random.choice((0, 0, 1)),
            "detectorCacheTimeout": random.choice(("5s", "5m")),
            "useDeviationThresholds": random.random() < 0.2,
            "evictableNamespaces": {"exclude": ["kube-system"]},
            "nodeMetricExpirationSeconds": random.choice((30, 180)),
            "podSelectors": [{"name": "web", "selector": {"matchLabels": {"app": "web"}}}],
        },
        0.2,
    )
    if random.random() < 0.4:
        pool = {"name": "warm", "nodeSelector": {"matchLabels": {"pool": "warm"}}}
        raw["nodePools"] = [pool | (_thresholds(random) if random.random() < 0.7 else {})]
    return raw


def _migration(random: Random) -> Document:
    raw: Document = {"skipCheckExpectedReplicas": random.random() < 0.8}
    raw |= _some(
        random,
        {
            "defaultJobMode": random.choice(("ReservationFirst", "EvictDirectly")),
            "defaultJobTTL": random.choice(("5s", "30s", "5m")),
            "maxMigratingGlobally": random.choice((0, 1, 3)),
            "maxMigratingPerNode": random.choice((0, 1, 2)),
            "maxMigratingPerNamespace": random.choice((0, 1, 2)),
            "maxMigratingPerWorkload": random.choice((1, 3, "10%", "50%")),
            "maxUnavailablePerWorkload": random.choice((1, 3, "80%")),
            "skipEvictionGates": random.sample(_GATES, random.randint(0, 5)),
            "objectLimiters": {
                "workload": {"duration": random.choice(("0s", "30s", "5m")), "burst": 2},
                "namespace": {"duration": "60s", "maxMigrating": 2},
            },
            "evictQPS": random.choice((0.5, 1, 10, 1000)),
            "evictBurst": random.choice((1, 2, 100)),
            "evictionPolicy": random.choice(("Eviction", "Delete", "SoftEviction")),
            "defaultDeleteOptions": {"gracePeriodSeconds": 30, "propagationPolicy": "Background"},
            "evictAllBarePods": random.random() < 0.7,
            "evictLocalStoragePods": random.random() < 0.5,
            "evictSystemCriticalPods": random.random() < 0.3,
            "priorityThreshold": {"value": random.choice((1000, 2_000_000_000))},
            "nodeFit": random.random() < 0.5,
            "dryRun": random.random() < 0.2,
            "schedulerNames": ["koord-scheduler", "default-scheduler"],
            "arbitrationArgs": {"interval": random.choice(("500ms", "5s"))},
        },
        0.45,
    )
    return raw


def _descheduling(random: Random) -> Document:
    return {"deschedulingInterval": random.choice(("1s", "2s", "5s", "1m"))} | _some(
        random,
        {
            "maxNoOfPodsToEvictPerNode": random.choice((0, 1, 3)),
            "maxNoOfPodsToEvictPerNamespace": random.choice((1, 3)),
            "maxNoOfPodsToEvictTotal": random.choice((1, 2, 10)),
            "dryRun": random.random() < 0.2,
            "nodeSelector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        },
        0.3,
    )


def _evictor(random: Random) -> Document:
    return _some(
        random,
        {
            "minReplicas": random.choice((0, 1, 3)),
            "minPodAge": random.choice(("0s", "10s")),
            "nodeFit": random.random() < 0.5,
            "evictDaemonSetPods": random.random() < 0.5,
            "ignorePodsWithoutPDB": random.random() < 0.3,
            "priorityThreshold": random.choice(({"value": 10_000}, {"name": "high"})),
            "namespaceLabelSelector": {"matchLabels": {"team": "shop"}},
            "noEvictionPolicy": random.choice(("Preferred", "Mandatory")),
        },
        0.25,
    )


def _window(random: Random) -> Document:
    hour = random.randint(0, 23)
    return {"from": f"{hour:02}:00", "to": f"{(hour + random.randint(8, 23)) % 24:02}:00"}


def _maintenance(random: Random) -> Document:
    raw: Document = {}
    if random.random() < 0.2:
        raw["windows"] = [_window(random)]
    if random.random() < 0.2:
        raw["namespaces"] = [{"name": "default", "windows": [_window(random)]}]
    return raw


def _moves(random: Random) -> Document:
    return _some(
        random,
        {
            "enabled": random.random() < 0.8,
            "coolingSeconds": random.choice((0, 10, 300)),
            "coolingMetrics": random.choice((0, 1, 2)),
            "loopWindowSeconds": random.choice((60, 3_600)),
            "maxMovesPerOwner": random.choice((1, 2, 4)),
            "initialFreezeSeconds": 5,
            "followSeconds": random.choice((2, 20, 600)),
        },
        0.5,
    )


def _moving(random: Random, rebalance: Document) -> Document:
    raw: Document = {}
    past = {
        "deviations": random.choice((0, 1.5, 3)),
        "rounds": random.choice((2, 3, 10)),
        "atLeast": {"cpu": 5},
        "atMost": {"cpu": 90},
    }
    raw["filter"] = {"recentPast": past}
    if random.random() < 0.4:
        raw["filter"] = {"windows": [_window(random) | {"usageThresholds": {"cpu": 75}}]}
    if not rebalance.get("useDeviationThresholds"):
        raw["hotspots"] = [{"recentPast": past}]
    return raw


def _plugins(random: Random) -> Document:
    names = list(_FILTERS)
    random.shuffle(names)
    filters = names if random.random() < 0.6 else names[: random.randint(0, len(names))]
    scores = [{"name": "LoadAwareScheduling", "weight": random.choice((1, 1_000_000))}]
    if random.random() < 0.5:
        scores.append({"name": "OverutilizationRisk", "weight": random.choice((1, 1_000))})
    return {"filter": filters, "score": scores}


def _risk(random: Random) -> Document:
    return {
        "resources": [{"name": "cpu", "hotPercent": random.choice((1, 75))}, {"name": "memory"}],
        "meanPriorMinutes": random.choice((1, 3, 10_080)),
        "excessWeight": random.choice((0, 4, 1_000)),
        "recentMinutes": random.choice((0, 1, 30, 1_440)),
    }


_SECTIONS = {
    "loadAware": _load_aware,
    "resourceLimits": _limits,
    "overutilizationRisk": _risk,
    "evictor": _evictor,
    "maintenance": _maintenance,
    "moves": _moves,
}
