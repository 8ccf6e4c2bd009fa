"""DeschedulerPolicy of the Kubernetes descheduler.

LowNodeUtilization becomes LowNodeLoad. It goes by requests unless `metricsUtilization` is given;
loadstream goes by real usage, so the report says which of the two the thresholds were made for.
"""

from collections.abc import Iterator
from typing import Any

from connectors.policy.imports.documents import Source
from connectors.policy.imports.profiles import Profile
from connectors.policy.imports.translation import (
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
from connectors.policy.imports.unsupported import UNSUPPORTED
from schemas.policy.errors import Path
from schemas.policy.selectors import parse_selector
from schemas.policy.wording import describe, nearest

_POINTS = ("balance", "deschedule", "evict", "filter", "sort", "presort", "preevictionfilter")
_EVICTOR = ("MigrationController", "DefaultEvictor")
LIMITS: dict[str, Rule] = {
    name: take("descheduling", name)
    for name in (
        "maxNoOfPodsToEvictPerNode",
        "maxNoOfPodsToEvictPerNamespace",
        "maxNoOfPodsToEvictTotal",
    )
}
SOURCES = say("handled elsewhere", "sources of usage: loadstream kubernetes collect, or its agent")
_METRICS_SOURCES = ("KubernetesMetrics", "Prometheus")


def _check_source(to: Translation, source: Source, path: Path, value: Any) -> None:
    if value not in _METRICS_SOURCES:
        hint = nearest(str(value), _METRICS_SOURCES)
        to.problem(source, path, f"found {describe(value)}{hint}")


def _refuse_include(to: Translation, source: Source, path: Path, value: Any) -> None:
    to.problem(source, path, "LowNodeUtilization refuses to include namespaces; give exclude")


_UTILIZATION: dict[str, Rule] = {
    "apiVersion": keep,
    "kind": keep,
    "thresholds": keep,
    "targetThresholds": keep,
    "metricsUtilization": {
        "metricsServer": keep,
        "source": _check_source,
        "prometheus": {"query": SOURCES},
    },
    "useDeviationThresholds": take("rebalance", "useDeviationThresholds"),
    "numberOfNodes": take("rebalance", "numberOfNodes"),
    "evictableNamespaces": {
        "include": _refuse_include,
        "exclude": take("rebalance", "evictableNamespaces", convert=lambda names: {"exclude": names}),
    },
    "evictionLimits": {"node": LIMITS["maxNoOfPodsToEvictPerNode"]},
}  # fmt: skip
BY_REQUESTS = (
    "rebalance; it went by requests, because metricsUtilization is not set: here the same thresholds "
    "hold for real usage, which is mostly lower"
)
_BY_USAGE = "rebalance; it went by usage, as here"
_RESOURCES = ("cpu", "memory", "pods")


def read_profiles(
    to: Translation, source: Source, balancer: str, selector: Rule
) -> Iterator[Profile]:
    """Yield the profiles whose settings count: the one that moves pods by load, or else all.

    Reports plugins that loadstream does not have, and takes over whether the balancer is enabled.
    """
    profiles: list[Profile] = []
    for index, value in items(to, source, ("profiles",), source.value.get("profiles")):
        profile, path = Profile(source, _POINTS), ("profiles", index)
        rules: dict[str, Rule] = {"name": keep, "nodeSelector": keep, **profile.rules}
        apply(to, source, path, value, rules)
        profiles.append(profile)
        profile.node_selector = as_map(value).get("nodeSelector"), (*path, "nodeSelector")
        profile.report_others(to, {balancer, *_EVICTOR})
    balancing = [(each, at) for each in profiles if (at := each.finds(balancer, "balance"))]
    for _, named in balancing[1:]:
        message = f"found {balancer} in a second profile; loadstream has one: keep one"
        to.problem(source, named.path, message)
    if balancing:
        profiles = [balancing[0][0]]
        to.put(("plugins", "balance"), ["LowNodeLoad"], Origin(source, balancing[0][1].path))
    else:
        note = f"the file does not enable {balancer}, so no pods are moved"
        to.put(("plugins", "balance"), [], Origin(source, ("profiles",), note))
    for profile in profiles:
        value, where = profile.node_selector
        apply(to, source, where, value, selector)
        yield profile


def translate(to: Translation, source: Source) -> None:
    """Translate a DeschedulerPolicy."""
    selector = take("descheduling", "nodeSelector", convert=_selector)
    rules: dict[str, Rule] = {
        "apiVersion": keep,
        "kind": keep,
        "profiles": keep,
        "nodeSelector": selector,
        **LIMITS,
        "gracePeriodSeconds": take(
            "migration", "defaultDeleteOptions", convert=lambda value: {"gracePeriodSeconds": value}
        ),
        "metricsCollector": SOURCES,
        "metricsProviders": SOURCES,
        "evictionFailureEventNotification": say("handled elsewhere", "topic command-outcomes"),
    }
    if "strategies" in source.value:
        rules |= {"strategies": _put_strategies, **_OLD_FLAGS}
        apply(to, source, (), source.value, rules)
        return
    apply(to, source, (), source.value, rules)
    for profile in read_profiles(to, source, "LowNodeUtilization", selector):
        profile.take_args(to, "DefaultEvictor")
        named = profile.finds("LowNodeUtilization", "balance")
        args, path = profile.args.get("LowNodeUtilization", ({}, named.path if named else ()))
        if named:
            _put_utilization(to, source, args, path)
        elif path:
            text = "it is not enabled, so its arguments have no effect"
            to.report("handled elsewhere", "LowNodeUtilization", text, source, path)


def _selector(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        raise ValueError(f"found {describe(text)}; allowed is a label selector as text")  # noqa: TRY004
    return parse_selector(text).model_dump(mode="json", exclude_defaults=True)


def _put_utilization(to: Translation, source: Source, args: Any, path: Path) -> None:
    """Take over LowNodeUtilization, which evicts directly."""
    apply(to, source, path, args, _UTILIZATION)
    args = as_map(args)
    metrics = as_map(args.get("metricsUtilization"))
    by_usage = bool(metrics.get("source") or metrics.get("metricsServer"))
    if not (args.get("thresholds") and args.get("targetThresholds")):
        text = "thresholds or targetThresholds are missing: give them in section rebalance"
        to.report("lost", "LowNodeUtilization", text, source, path)
        return
    query = str(as_map(metrics.get("prometheus")).get("query", ""))
    note = "of real usage" if by_usage else "made for requests; here they hold for real usage"
    for theirs, ours in (("thresholds", "lowThresholds"), ("targetThresholds", "highThresholds")):
        at = (*path, theirs)
        limits = _thresholds(to, source, at, args[theirs], query)
        if limits:
            to.put(("rebalance", ours), limits, Origin(source, at, note))
    text = _BY_USAGE if by_usage else BY_REQUESTS
    to.report("taken over", "LowNodeUtilization", text, source, path)
    evict_directly(to, source, path)


def evict_directly(to: Translation, source: Source, path: Path) -> None:
    """Take over that pods leave without a reservation, and report what is different here."""
    note = "the descheduler evicts without a reservation"
    to.put(("migration", "defaultJobMode"), "EvictDirectly", Origin(source, path, note))
    text = "rebalance.anomalyCondition: a node is hot in 5 rounds before a pod leaves, not in one"
    to.report("handled elsewhere", "rounds until a pod leaves", text, source, path)
    text = "section migration limits how many pods of a node or workload move at once"
    to.report("handled elsewhere", "limits of moves", text, source, path)


def _thresholds(
    to: Translation, source: Source, path: Path, value: Any, query: str
) -> dict[str, Any]:
    """Return the thresholds of resources that loadstream measures."""
    limits: dict[str, Any] = {}
    if not isinstance(value, dict):
        to.problem(source, path, f"found {describe(value)}; allowed is a map")
    for name, percent in as_map(value).items():
        at = (*path, name)
        if name in _RESOURCES:
            limits[name] = percent
        elif name == "MetricResource" and (resource := _measured(query)):
            limits[resource] = percent
            text = f"thresholds of {resource}, which the query {query!r} seems to measure"
            to.report("taken over", name, text, source, at)
        else:
            text = f"its usage is not known; use thresholds of {', '.join(_RESOURCES)}"
            to.report("lost", name, text, source, at)
    return limits


def _measured(query: str) -> str | None:
    """Return the resource that a query of Prometheus measures, by its text."""
    if "pressure" in query.lower():
        return None
    return next((name for name in ("cpu", "memory") if name[:3] in query.lower()), None)


OLD_PARAMS: dict[str, Rule] = {
    "nodeResourceUtilizationThresholds": keep,
    "nodeFit": take("evictor", "nodeFit"),
    "labelSelector": take("evictor", "labelSelector"),
    "namespaces": take("rebalance", "evictableNamespaces"),
    "thresholdPriority": take("evictor", "priorityThreshold", convert=lambda at: {"value": at}),
    "thresholdPriorityClassName": take(
        "evictor", "priorityThreshold", convert=lambda name: {"name": name}
    ),
}
_OLD_FLAGS: dict[str, Rule] = {
    name: take("evictor", name)
    for name in (
        "evictFailedBarePods",
        "evictLocalStoragePods",
        "evictSystemCriticalPods",
        "ignorePvcPods",
    )
}


def _put_strategies(to: Translation, source: Source, path: Path, value: Any) -> None:
    """Take over the strategies of a policy of v1alpha1."""
    enabled = ""
    for name, strategy in as_map(value).items():
        at = (*path, name)
        apply(to, source, at, strategy, {"enabled": keep, "weight": keep, "params": keep})
        if not as_map(strategy).get("enabled"):
            continue
        if name != "LowNodeUtilization":
            group, text = UNSUPPORTED.get(name, ("lost", "loadstream has no such strategy"))
            to.report(group, name, text, source, at)
            continue
        enabled = "LowNodeLoad"
        params = as_map(strategy.get("params"))
        apply(to, source, (*at, "params"), params, OLD_PARAMS)
        inner = "nodeResourceUtilizationThresholds"
        _put_utilization(to, source, params.get(inner) or {}, (*at, "params", inner))
    to.put(("plugins", "balance"), [enabled] if enabled else [], Origin(source, path))


def translate_values(to: Translation, source: Source) -> None:
    """Translate Helm values beside a DeschedulerPolicy: of these only the interval counts."""
    name = "deschedulingInterval"
    rule = take("descheduling", name)
    apply(to, source, (name,), source.value.get(name), rule)
