"""OpenShift's KubeDescheduler, whose profiles stand for plugins of the Kubernetes descheduler."""

from typing import Any

from connectors.policy.imports.descheduler import (
    BY_REQUESTS,
    LIMITS,
    OLD_PARAMS,
    SOURCES,
    evict_directly,
)
from connectors.policy.imports.documents import Source
from connectors.policy.imports.translation import (
    Origin,
    Rule,
    Translation,
    apply,
    as_map,
    items,
    keep,
    say,
    seconds,
    take,
)
from connectors.policy.imports.unsupported import UNSUPPORTED
from schemas.policy.errors import Path
from schemas.policy.wording import describe, nearest

_DEVIATIONS = {
    "Low": (10, 10),
    "Medium": (20, 20),
    "High": (30, 30),
    "AsymmetricLow": (0, 10),
    "AsymmetricMedium": (0, 20),
    "AsymmetricHigh": (0, 30),
}
_BY_CPU = "rebalance (LowNodeLoad), by real cpu usage and not by cpu pressure"
_THRESHOLDS = {"Low": (10, 30), "Medium": (20, 50), "High": (40, 70)}
_NOT_LOAD = (
    "it is not about load: keep the operator for it, without profiles that move pods for load"
)
#: OpenShift's profiles that do not become settings of a policy.
_LOST = {
    "AffinityAndTaints": _NOT_LOAD,
    "TopologyAndDuplicates": _NOT_LOAD,
    "SoftTopologyAndDuplicates": _NOT_LOAD,
    "CompactAndScale": UNSUPPORTED["HighNodeUtilization"][1],
    "DevPreviewCompactAndScale": UNSUPPORTED["HighNodeUtilization"][1],
}
#: Profiles that move pods for load: by requests, or by usage as a distance from the mean.
_LOAD = {
    "LifecycleAndUtilization": False,
    "LongLifecycle": False,
    "DevPreviewLongLifecycle": False,
    "KubeVirtRelieveAndMigrate": True,
    "DevKubeVirtRelieveAndMigrate": True,
}
_CUSTOM: dict[str, Rule] = {
    "devDeviationThresholds": keep,
    "devLowNodeUtilizationThresholds": keep,
    "devActualUtilizationProfile": SOURCES,
    "devEnableSoftTainter": say(
        "handled elsewhere",
        "the score OverutilizationRisk keeps pods off hot nodes, without taints",
    ),
    "devEnableEvictionsInBackground": say(
        "handled elsewhere", "an eviction that goes on in the background counts as done"
    ),
    "devHighNodeUtilizationThresholds": say("lost", UNSUPPORTED["HighNodeUtilization"][1]),
    "podLifetime": say("lost", UNSUPPORTED["PodLifeTime"][1]),
    "thresholdPriority": OLD_PARAMS["thresholdPriority"],
    "thresholdPriorityClassName": OLD_PARAMS["thresholdPriorityClassName"],
    "namespaces": {
        "included": take(
            "rebalance", "evictableNamespaces", convert=lambda each: {"include": each}
        ),
        "excluded": take(
            "rebalance", "evictableNamespaces", convert=lambda each: {"exclude": each}
        ),
    },
}
_OPERATOR = say("handled elsewhere", "it is about the operator")


def translate(to: Translation, source: Source) -> None:
    """Translate a KubeDescheduler, whose profiles stand for plugins."""
    spec: dict[str, Rule] = {
        "deschedulingIntervalSeconds": take(
            "descheduling", "deschedulingInterval", convert=seconds
        ),
        "mode": say("handled elsewhere", "mode: observe at first, enforce carries evictions out"),
        "evictionLimits": {
            "total": LIMITS["maxNoOfPodsToEvictTotal"],
            "node": LIMITS["maxNoOfPodsToEvictPerNode"],
        },
        "profiles": keep,
        "profileCustomizations": _CUSTOM,
        **dict.fromkeys(
            ("managementState", "logLevel", "operatorLogLevel", "observedConfig",
             "unsupportedConfigOverrides"),
            _OPERATOR,
        ),
    }  # fmt: skip
    rules: dict[str, Rule] = dict.fromkeys(("apiVersion", "kind", "metadata", "status"), keep)
    apply(to, source, (), source.value, {**rules, "spec": spec})
    given = as_map(source.value.get("spec"))
    custom = as_map(given.get("profileCustomizations"))
    loads = []
    for index, item in items(to, source, ("spec", "profiles"), given.get("profiles")):
        path, name = ("spec", "profiles", index), str(item)
        if name in _LOAD:
            loads.append(name)
            if len(loads) == 1:
                _put_profile(to, source, path, name, custom)
        elif name in _LOST:
            to.report("lost", name, _LOST[name], source, path)
        elif name == "EvictPodsWithLocalStorage":
            take("evictor", "evictLocalStoragePods", convert=bool)(to, source, path, name)
        elif name != "EvictPodsWithPVC":
            known = (*_LOAD, *_LOST, "EvictPodsWithLocalStorage")
            to.problem(source, path, f"found {describe(item)}{nearest(name, known)}")
    profiles = Origin(source, ("spec", "profiles"))
    to.put(("plugins", "balance"), ["LowNodeLoad"] if loads else [], profiles)
    if "EvictPodsWithPVC" not in (given.get("profiles") or ()):
        note = "without the profile EvictPodsWithPVC pods with claims stay"
        to.put(("evictor", "ignorePvcPods"), True, Origin(source, profiles.path, note))
    if loads:
        text = "name kube-system and each openshift-* in rebalance.evictableNamespaces.exclude"
        to.report("lost", "protected namespaces", text, source, profiles.path)


def _put_profile(
    to: Translation, source: Source, path: Path, name: str, custom: dict[str, Any]
) -> None:
    """Take over a profile of OpenShift that moves pods for load."""
    deviates = _LOAD[name]
    field = "devDeviationThresholds" if deviates or "devDeviationThresholds" in custom else ""
    field = field or "devLowNodeUtilizationThresholds"
    known = _DEVIATIONS if field == "devDeviationThresholds" else _THRESHOLDS
    level = str(custom.get(field) or ("Low" if known is _DEVIATIONS else "Medium"))
    if level not in known:
        at = ("spec", "profileCustomizations", field)
        to.problem(source, at, f"found {describe(level)}{nearest(level, known)}")
        return
    low, high = known[level]
    resources = ("cpu",) if deviates else ("cpu", "memory", "pods")
    note = f"profile {name}, thresholds {level}"
    for map_name, percent in (("lowThresholds", low), ("highThresholds", high)):
        limits = dict.fromkeys(resources, percent)
        to.put(("rebalance", map_name), limits, Origin(source, path, note))
    if known is _DEVIATIONS:
        to.put(("rebalance", "useDeviationThresholds"), True, Origin(source, path, note))
    how = _BY_CPU if deviates else BY_REQUESTS
    to.report("taken over", name, f"it moves pods for load: {how}", source, path)
    if not deviates:
        text = UNSUPPORTED["PodLifeTime"][1]
        to.report("lost", f"{name}: old pods, and pods that restart often", text, source, path)
    evict_directly(to, source, path)
