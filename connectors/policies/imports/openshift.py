"""OpenShift's KubeDescheduler. Each profile enables plugins of the Kubernetes descheduler."""

from typing import Any

from connectors.policies.imports.descheduler import (
    LIMITS,
    evict_directly,
    exclude_namespaces,
)
from connectors.policies.imports.documents import DocumentNode
from connectors.policies.imports.translation import (
    SOURCES,
    TYPE,
    Rule,
    Translation,
    apply,
    apply_to_items,
    copy_to,
    elsewhere,
    lost,
    skip,
)
from connectors.policies.imports.unsupported import UNSUPPORTED
from schemas.policy.wording import describe, nearest

#: Low and high thresholds by name: distances from the mean in percentage points.
_DEVIATIONS = {
    "Low": (10, 10),
    "Medium": (20, 20),
    "High": (30, 30),
    "AsymmetricLow": (0, 10),
    "AsymmetricMedium": (0, 20),
    "AsymmetricHigh": (0, 30),
}
#: Low and high thresholds by name: percentages of the node.
_THRESHOLDS = {"Low": (10, 30), "Medium": (20, 50), "High": (40, 70)}
_BY_CPU = "rebalance (LowNodeLoad), by real cpu usage and not by cpu pressure"
_BY_REQUESTS = (
    "rebalance; the thresholds were for requests, because devActualUtilizationProfile is not set: here the "
    "same thresholds apply to real usage, which is usually lower"
)
_BY_USAGE = "rebalance; the thresholds were for usage (devActualUtilizationProfile), as here"
_NOT_LOAD = (
    "it is not about load: keep the operator for it, without profiles that move pods for load"
)
_FILLS = UNSUPPORTED["HighNodeUtilization"][1]
_OLD_PODS = UNSUPPORTED["PodLifeTime"][1]
_LOST = {
    "AffinityAndTaints": _NOT_LOAD,
    "TopologyAndDuplicates": _NOT_LOAD,
    "SoftTopologyAndDuplicates": _NOT_LOAD,
    "CompactAndScale": _FILLS,
    "DevPreviewCompactAndScale": _FILLS,
}
#: Profiles that move pods for load. True: by usage, with thresholds relative to the mean.
_LOAD = {
    "LifecycleAndUtilization": False,
    "LongLifecycle": False,
    "DevPreviewLongLifecycle": False,
    "KubeVirtRelieveAndMigrate": True,
    "DevKubeVirtRelieveAndMigrate": True,
}
_WITH_CLAIMS, _WITH_LOCAL_STORAGE = "EvictPodsWithPVC", "EvictPodsWithLocalStorage"
_OPERATOR = elsewhere("it is about the operator")
_CUSTOM: dict[str, Rule] = {
    "devDeviationThresholds": skip,
    "devLowNodeUtilizationThresholds": skip,
    "devActualUtilizationProfile": SOURCES,
    "devEnableSoftTainter": elsewhere(
        "the score OverutilizationRisk keeps pods off hot nodes, without taints"
    ),
    "devEnableEvictionsInBackground": elsewhere(
        "an eviction that goes on in the background counts as done"
    ),
    "devHighNodeUtilizationThresholds": lost(_FILLS),
    "podLifetime": lost(_OLD_PODS),
    "namespaces": {
        "included": copy_to(
            "rebalance", "evictableNamespaces", convert=lambda names: {"include": names}
        ),
        "excluded": copy_to("rebalance", "evictableNamespaces", convert=exclude_namespaces),
    },
    "thresholdPriority": copy_to("evictor", "priorityThreshold", convert=lambda at: {"value": at}),
    "thresholdPriorityClassName": copy_to(
        "evictor", "priorityThreshold", convert=lambda name: {"name": name}
    ),
}


def _read_seconds(value: Any) -> str:
    if type(value) is not int or value < 1:
        raise ValueError(f"found {describe(value)}; allowed is a number of seconds above 0")
    return f"{value}s"


_SPEC: dict[str, Rule] = {
    "deschedulingIntervalSeconds": copy_to(
        "descheduling", "deschedulingInterval", convert=_read_seconds
    ),
    "mode": elsewhere("mode: observe at first, enforce carries evictions out"),
    "evictionLimits": {
        "total": LIMITS["maxNoOfPodsToEvictTotal"],
        "node": LIMITS["maxNoOfPodsToEvictPerNode"],
    },
    "profiles": apply_to_items(skip),
    "profileCustomizations": _CUSTOM,
    "managementState": _OPERATOR,
    "logLevel": _OPERATOR,
    "operatorLogLevel": _OPERATOR,
    "observedConfig": _OPERATOR,
    "unsupportedConfigOverrides": _OPERATOR,
}


def translate(result: Translation, node: DocumentNode) -> None:
    """Translate a KubeDescheduler."""
    apply(result, node, {**TYPE, "metadata": skip, "status": skip, "spec": _SPEC})
    profiles = node.child("spec", "profiles")
    names = {str(item.value): item for _, item in profiles.children()}
    loads = [name for name in names if name in _LOAD]
    for name, item in names.items():
        if name in _LOST:
            result.report("lost", item, _LOST[name], name)
        elif name == _WITH_LOCAL_STORAGE:
            copy_to("evictor", "evictLocalStoragePods", convert=bool)(result, item)
        elif name not in (*_LOAD, _WITH_CLAIMS):
            allowed = (*_LOAD, *_LOST, _WITH_CLAIMS, _WITH_LOCAL_STORAGE)
            result.add_problem(item, f"found {describe(item.value)}{nearest(name, allowed)}")
    result.set_value(("plugins", "balance"), ["LowNodeLoad"] if loads else [], profiles)
    if _WITH_CLAIMS not in names:
        note = f"without the profile {_WITH_CLAIMS} pods with claims stay"
        result.set_value(("evictor", "ignorePvcPods"), True, profiles, note)
    if loads:
        custom = node.child("spec", "profileCustomizations")
        _put_profile(result, names[loads[0]], loads[0], custom)
        text = "name kube-system and each openshift-* in rebalance.evictableNamespaces.exclude"
        result.report("lost", profiles, text, "protected namespaces")


def _put_profile(result: Translation, node: DocumentNode, name: str, custom: DocumentNode) -> None:
    """Take over a profile that moves pods for load."""
    deviation = custom.child("devDeviationThresholds")
    deviates = _LOAD[name] or deviation.value is not None
    level_node = deviation if deviates else custom.child("devLowNodeUtilizationThresholds")
    levels, default = (_DEVIATIONS, "Low") if deviates else (_THRESHOLDS, "Medium")
    level = str(level_node.value or default)
    if level not in levels:
        message = f"found {describe(level_node.value)}{nearest(level, levels)}"
        result.add_problem(level_node, message)
        return
    resources = ("cpu",) if _LOAD[name] else ("cpu", "memory", "pods")
    note = f"profile {name}, thresholds {level}"
    for thresholds, percent in zip(("lowThresholds", "highThresholds"), levels[level], strict=True):
        result.set_value(("rebalance", thresholds), dict.fromkeys(resources, percent), node, note)
    if deviates:
        result.set_value(("rebalance", "useDeviationThresholds"), True, node, note)
    by_usage = custom.child("devActualUtilizationProfile").value is not None
    how = _BY_CPU if _LOAD[name] else _BY_USAGE if by_usage else _BY_REQUESTS
    result.report("taken over", node, f"it moves pods for load: {how}", name)
    if not _LOAD[name]:
        result.report("lost", node, _OLD_PODS, f"{name}: old pods, and pods that restart often")
    evict_directly(result, node)
