"""Policies that the clusters of traces begin with and change to; rounds are frequent, limits low."""

_MOVES = """
rebalance:
  highThresholds: {cpu: 45}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1}
"""
_LOOSE = """
migration:
  schedulerNames: [loadstream]
  maxMigratingPerWorkload: 100%
  maxUnavailablePerWorkload: 100%
  skipCheckExpectedReplicas: true
"""
_BACKOFF = "maxBackoffSeconds: 30\n"

DOCUMENTS: dict[str, str] = {
    "defaults": "mode: enforce\n" + _BACKOFF,
    "observe": "mode: observe\n" + _BACKOFF + _MOVES + _LOOSE,
    "moves": "mode: enforce\n" + _BACKOFF + _MOVES + _LOOSE,
    "limited": "mode: enforce\n"
    + _BACKOFF
    + _MOVES
    + """
migration:
  schedulerNames: [loadstream]
  maxMigratingGlobally: 2
  maxMigratingPerNode: 1
  maxMigratingPerNamespace: 2
  maxMigratingPerWorkload: 1
  skipCheckExpectedReplicas: true
""",
    "slow": "mode: enforce\n" + _BACKOFF + _MOVES + _LOOSE + "  evictQPS: '0.02'\n",
    "direct": "mode: enforce\n"
    + _BACKOFF
    + _MOVES
    + _LOOSE
    + """
  defaultJobMode: EvictDirectly
  defaultJobTTL: 2m
""",
    "risk": "mode: enforce\n"
    + _BACKOFF
    + _MOVES
    + _LOOSE
    + """
plugins:
  score: [OverutilizationRisk]
""",
    "tight": "mode: enforce\n"
    + """
maxBackoffSeconds: 16
reservationSeconds: 300
loadAware:
  usageThresholds: {cpu: 50, memory: 60}
  aggregated: {usageThresholds: {cpu: 60}, usageAggregationType: p95}
"""
    + _MOVES
    + _LOOSE,
    "koordinator": "mode: enforce\ncompat: koordinator\n"
    + _BACKOFF
    + """
plugins:
  score: [LoadAwareScheduling]
  balance: [LowNodeLoad]
rebalance:
  lowThresholds: {cpu: 40, memory: 55}
  highThresholds: {cpu: 50, memory: 80}
migration:
  schedulerNames: [loadstream]
""",
    "requests": "mode: enforce\n"
    + _BACKOFF
    + """
plugins:
  filter: [NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, NodePorts, NodeResourcesFit]
  score: [NodeResourcesFit, NodeResourcesBalancedAllocation]
  balance: []
""",
}
NAMES = tuple(DOCUMENTS)

#: In the end: pods that wait are tried often, nothing moves.
QUIET = """
mode: enforce
maxBackoffSeconds: 16
plugins:
  balance: []
"""
