"""Configurations of Koordinator: of its descheduler, and of the manager that collects metrics."""

from typing import Any

from connectors.policy.imports.descheduler import LIMITS, read_profiles
from connectors.policy.imports.documents import COLOCATION, Source
from connectors.policy.imports.translation import (
    PROCESS,
    Origin,
    Rule,
    Translation,
    apply,
    as_map,
    items,
    keep,
    say,
    take,
)
from schemas.policy.errors import Path

#: What holds of MigrationController where DefaultEvictor evicts in its place: nothing but that pods
#: leave one by one.
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
_MANAGER = say("handled elsewhere", "Koordinator's manager and agent go on with it")
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


def translate(to: Translation, source: Source) -> None:
    """Translate a DeschedulerConfiguration."""
    to.compat = "koordinator"
    rules: dict[str, Rule] = {
        "apiVersion": keep,
        "kind": keep,
        "profiles": keep,
        "deschedulingInterval": take("descheduling", "deschedulingInterval"),
        "dryRun": take("descheduling", "dryRun"),
        "nodeSelector": take("descheduling", "nodeSelector"),
        **LIMITS,
        **PROCESS,
    }
    apply(to, source, (), source.value, rules)
    node_selector = take("descheduling", "nodeSelector")
    for profile in read_profiles(to, source, "LowNodeLoad", node_selector):
        direct = profile.finds("DefaultEvictor", "evict")
        if direct and not profile.finds("MigrationController", "evict"):
            if "MigrationController" in profile.args:
                message = (
                    "found arguments of MigrationController, while plugins.evict enables "
                    "DefaultEvictor in its place; keep one of the two"
                )
                to.problem(source, profile.args["MigrationController"][1], message)
                continue
            for field, value in _EVICT_DIRECTLY.items():
                to.put(("migration", field), value, Origin(source, direct.path, "DefaultEvictor"))
            text = "section migration without the limits of MigrationController, as upstream"
            to.report("taken over", "DefaultEvictor", text, source, direct.path)
        for name in ("LowNodeLoad", "MigrationController", "DefaultEvictor"):
            profile.take_args(to, name)


def translate_slo(to: Translation, source: Source) -> None:
    """Translate a key of the ConfigMap slo-controller-config."""
    if source.kind != COLOCATION:
        _MANAGER(to, source, (source.kind,), source.value)
        return
    to.compat = "koordinator"
    rules: dict[str, Rule] = {name: take("collect", name) for name in _COLLECT}
    apply(to, source, (), source.value, {**rules, **_RECLAIM, "nodeConfigs": _put_pools})


def _put_pools(to: Translation, source: Source, path: Path, value: Any) -> None:
    """Take over collect policies of certain nodes as those of pools with the same names."""
    pools = []
    for index, item in items(to, source, path, value):
        at = (*path, index)
        apply(
            to, source, at, item, {"name": keep, "nodeSelector": keep, **dict.fromkeys(_COLLECT, keep),
                                   **_RECLAIM}
        )  # fmt: skip
        given = {name: item[name] for name in _COLLECT if name in as_map(item)}
        if given:
            pools.append({"name": item.get("name"), **given})
            text = "samples name the pool of their node: field pool of node-usage"
            to.report("handled elsewhere", f"nodeConfigs[{index}].nodeSelector", text, source, at)
    if pools:
        to.put(("collect", "pools"), pools, Origin(source, path))
        to.report("taken over", "nodeConfigs", "collect.pools", source, path)
