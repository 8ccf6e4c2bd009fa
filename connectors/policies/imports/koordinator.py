"""Configurations of Koordinator: its descheduler, and the ConfigMap of its manager."""

from typing import Any

from connectors.policies.imports.descheduler import LIMITS, read_profiles
from connectors.policies.imports.documents import COLOCATION, THRESHOLDS, DocumentNode
from connectors.policies.imports.translation import (
    PROCESS,
    TYPE,
    Rule,
    Translation,
    apply,
    copy_to,
    elsewhere,
    skip,
)

#: Section `migration` if DefaultEvictor evicts: the limits of MigrationController do not apply.
_EVICT_DIRECTLY: dict[str, Any] = {
    "defaultJobMode": "EvictDirectly",
    "objectLimiters": {"workload": {"duration": "0s"}},
    "skipEvictionGates": [
        "ExpectedReplicas",
        "MaxMigratingGlobally",
        "MaxMigratingPerNode",
        "MaxMigratingPerNamespace",
        "MaxMigratingPerWorkload",
        "MaxUnavailablePerWorkload",
    ],
}
_COLLECT = (
    "metricAggregateDurationSeconds",
    "metricReportIntervalSeconds",
    "metricAggregatePolicy",
    "metricMemoryCollectPolicy",
)
_MANAGER = elsewhere("Koordinator's manager and agent still use it")
_RECLAIM: dict[str, Rule] = dict.fromkeys(
    (
        "enable", "cpuReclaimThresholdPercent", "memoryReclaimThresholdPercent",
        "cpuCalculatePolicy", "memoryCalculatePolicy", "degradeTimeMinutes",
        "updateTimeThresholdSeconds", "resourceDiffThreshold", "midCPUThresholdPercent",
        "midMemoryThresholdPercent", "midUnallocatedPercent", "batchCPUThresholdPercent",
        "batchMemoryThresholdPercent", "allocationPolicy", "extensions",
    ),
    _MANAGER,
)  # fmt: skip


def translate(result: Translation, node: DocumentNode) -> None:
    """Translate a DeschedulerConfiguration."""
    result.compat = "koordinator"
    selector = copy_to("descheduling", "nodeSelector")
    rules: dict[str, Rule] = {
        **TYPE,
        "profiles": skip,
        "deschedulingInterval": copy_to("descheduling", "deschedulingInterval"),
        "dryRun": copy_to("descheduling", "dryRun"),
        "nodeSelector": selector,
        **LIMITS,
        **PROCESS,
    }
    apply(result, node, rules)
    for profile in read_profiles(result, node, "LowNodeLoad", selector):
        direct = profile.find_plugin("DefaultEvictor", "evict")
        if direct and not profile.find_plugin("MigrationController", "evict"):
            if "MigrationController" in profile.args:
                message = (
                    "found arguments of MigrationController, while plugins.evict enables "
                    "DefaultEvictor in its place; keep one of the two"
                )
                result.add_problem(profile.args["MigrationController"], message)
                continue
            for field, value in _EVICT_DIRECTLY.items():
                result.set_value(("migration", field), value, direct.node, "DefaultEvictor")
            text = "section migration without the limits of MigrationController, as upstream"
            result.report("taken over", direct.node, text, "DefaultEvictor")
        for name in ("LowNodeLoad", "MigrationController", "DefaultEvictor"):
            profile.copy_args(result, name)


def translate_slo(result: Translation, kind: str, node: DocumentNode) -> None:
    """Translate a key of the ConfigMap slo-controller-config."""
    if kind == COLOCATION:
        result.compat = "koordinator"
        collect: dict[str, Rule] = {name: copy_to("collect", name) for name in _COLLECT}
        apply(result, node, {**collect, **_RECLAIM, "nodeConfigs": _put_pools})
    else:
        result.report("handled elsewhere", node, "Koordinator's agent still uses it", kind)
    if kind == THRESHOLDS:
        percent = node.child("clusterStrategy", "memoryEvictThresholdPercent").value
        result.memory_eviction_percent = percent if isinstance(percent, int) else None


def find_eviction_conflict(result: Translation) -> str | None:
    """Return a warning if placement fills nodes until Koordinator's agent evicts pods from them."""
    percent = result.memory_eviction_percent
    thresholds = result.values.get("loadAware", {}).get("usageThresholds", {})
    placed_percent = thresholds.get("memory", 95)
    if percent is None or not isinstance(placed_percent, int) or placed_percent <= percent:
        return None
    return (
        f"Koordinator's agent evicts BE pods from {percent} % of a node's memory on "
        f"(memoryEvictThresholdPercent), and loadAware.usageThresholds.memory, {placed_percent}, lets them "
        f"return: give at most {percent}"
    )


def _put_pools(result: Translation, node: DocumentNode) -> None:
    """Take over the collect policies of node groups as collect policies of pools with the same names."""
    pools = []
    for _, item in node.children() if result.is_kind(node, list) else ():
        apply(
            result, item, {**dict.fromkeys(("name", "nodeSelector", *_COLLECT), skip), **_RECLAIM}
        )
        pool = {key: child.value for key, child in item.children() if key in ("name", *_COLLECT)}
        if pool.keys() - {"name"}:
            pools.append(pool)
            text = "samples name the pool of their node: field pool of node-usage"
            result.report("handled elsewhere", item.child("nodeSelector"), text)
    if pools:
        result.set_value(("collect", "pools"), pools, node)
        result.report("taken over", node, "collect.pools")
