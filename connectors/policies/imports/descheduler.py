"""DeschedulerPolicy of the Kubernetes descheduler.

LowNodeUtilization becomes LowNodeLoad. LowNodeUtilization compares requests unless `metricsUtilization`
is given; loadstream compares real usage. So the report says whether the thresholds were written for
requests or for usage.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.policies.imports.documents import DocumentNode
from connectors.policies.imports.profiles import Profile
from connectors.policies.imports.translation import (
    SOURCES,
    TYPE,
    Rule,
    Translation,
    apply,
    copy_to,
    elsewhere,
    skip,
)
from schemas.policy.parts import field_names
from schemas.policy.sections.evictor import DefaultEvictorArgs
from schemas.policy.selectors import parse_selector
from schemas.policy.wording import describe, nearest

_BALANCER = "LowNodeUtilization"
_POINTS = ("balance", "deschedule", "evict", "filter", "sort", "presort", "preevictionfilter")
_EVICTORS = ("MigrationController", "DefaultEvictor")
LIMITS: dict[str, Rule] = {
    name: copy_to("descheduling", name)
    for name in (
        "maxNoOfPodsToEvictPerNode",
        "maxNoOfPodsToEvictPerNamespace",
        "maxNoOfPodsToEvictTotal",
    )
}
_BY_REQUESTS = (
    "rebalance; the thresholds were for requests, because metricsUtilization is not set: here the same "
    "thresholds apply to real usage, which is usually lower"
)
_BY_USAGE = "rebalance; the thresholds were for usage, as here"
_RESOURCES = ("cpu", "memory", "pods")
_METRICS_SOURCES = ("KubernetesMetrics", "Prometheus")


def _check_source(result: Translation, node: DocumentNode) -> None:
    if node.value not in _METRICS_SOURCES:
        hint = nearest(str(node.value), _METRICS_SOURCES)
        result.add_problem(node, f"found {describe(node.value)}{hint}")


def _refuse_include(result: Translation, node: DocumentNode) -> None:
    result.add_problem(node, f"{_BALANCER} refuses to include namespaces; give exclude")


def exclude_namespaces(names: Any) -> dict[str, Any]:
    """Return the policy's form of a list of excluded namespaces."""
    return {"exclude": names}


_ARGUMENTS: dict[str, Rule] = {
    **TYPE,
    "thresholds": skip,
    "targetThresholds": skip,
    "metricsUtilization": {
        "metricsServer": skip,
        "source": _check_source,
        "prometheus": {"query": SOURCES},
    },
    "useDeviationThresholds": copy_to("rebalance", "useDeviationThresholds"),
    "numberOfNodes": copy_to("rebalance", "numberOfNodes"),
    "evictableNamespaces": {
        "include": _refuse_include,
        "exclude": copy_to("rebalance", "evictableNamespaces", convert=exclude_namespaces),
    },
    "evictionLimits": {"node": LIMITS["maxNoOfPodsToEvictPerNode"]},
}


def read_profiles(
    result: Translation, node: DocumentNode, balancer: str, selector: Rule
) -> Iterator[Profile]:
    """Yield the profile that enables the balancer, or all profiles if no profile enables it.

    Also reports plugins that loadstream does not have, and enables or disables LowNodeLoad.
    """
    profiles: list[tuple[Profile, DocumentNode]] = []
    items = node.child("profiles")
    for _, item in items.children() if items.value is None or result.is_kind(items, list) else ():
        profile = Profile(_POINTS)
        apply(result, item, {"name": skip, "nodeSelector": skip, **profile.rules})
        profile.report_others(result, {balancer, *_EVICTORS})
        profiles.append((profile, item.child("nodeSelector")))
    balancing = [pair for pair in profiles if pair[0].find_plugin(balancer, "balance")]
    plugins = [
        p.node for profile, _ in balancing if (p := profile.find_plugin(balancer, "balance"))
    ]
    for plugin in plugins[1:]:
        message = f"found {balancer} in a second profile; loadstream has one: keep one"
        result.add_problem(plugin, message)
    if plugins:
        result.set_value(("plugins", "balance"), ["LowNodeLoad"], plugins[0])
    else:
        note = f"the file does not enable {balancer}, so no pods are moved"
        result.set_value(("plugins", "balance"), [], items, note)
    for profile, node_selector in balancing[:1] or profiles:
        apply(result, node_selector, selector)
        yield profile


def translate(result: Translation, node: DocumentNode) -> None:
    """Translate a DeschedulerPolicy."""
    selector = copy_to("descheduling", "nodeSelector", convert=_read_selector)
    rules: dict[str, Rule] = {
        **TYPE,
        "profiles": skip,
        "nodeSelector": selector,
        **LIMITS,
        "gracePeriodSeconds": copy_to(
            "migration", "defaultDeleteOptions", convert=lambda value: {"gracePeriodSeconds": value}
        ),
        "metricsCollector": SOURCES,
        "metricsProviders": SOURCES,
        "evictionFailureEventNotification": elsewhere("topic command-outcomes"),
    }
    apply(result, node, {**rules, **_find_misplaced(result, node, rules)})
    for profile in read_profiles(result, node, _BALANCER, selector):
        profile.copy_args(result, "DefaultEvictor")
        plugin, args = profile.find_plugin(_BALANCER, "balance"), profile.args.get(_BALANCER)
        if plugin:
            _put_balancer(result, args or plugin.node.child("args"))
        elif args:
            text = "it is not enabled, so its arguments have no effect"
            result.report("handled elsewhere", args, text, _BALANCER)


def _find_misplaced(
    result: Translation, node: DocumentNode, rules: Mapping[str, Rule]
) -> dict[str, Rule]:
    """Report arguments of DefaultEvictor at the top level, where they have no effect."""
    misplaced = {*field_names(DefaultEvictorArgs)}.difference(rules)
    for step, child in node.children():
        if step in misplaced:
            text = "it belongs in the profile's pluginConfig, in the args of DefaultEvictor"
            result.add_problem(child, f"unknown field here; {text}")
    return dict.fromkeys(misplaced, skip)


def _read_selector(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        raise ValueError(f"found {describe(text)}; allowed is a label selector as text")  # noqa: TRY004
    return parse_selector(text).model_dump(mode="json", exclude_defaults=True)


def _put_balancer(result: Translation, args: DocumentNode) -> None:
    """Take over the arguments of LowNodeUtilization, which evicts directly."""
    apply(result, args, _ARGUMENTS)
    metrics = args.child("metricsUtilization")
    by_usage = bool(metrics.child("source").value or metrics.child("metricsServer").value)
    note = "for real usage" if by_usage else "made for requests; here they apply to real usage"
    query = str(metrics.child("prometheus", "query").value)
    for theirs, ours in (("thresholds", "lowThresholds"), ("targetThresholds", "highThresholds")):
        thresholds = args.child(theirs)
        if thresholds.value is None:
            text = f"{theirs} are missing: give {ours} in section rebalance"
            result.report("lost", args, text, _BALANCER)
        elif limits := _read_thresholds(result, thresholds, query):
            result.set_value(("rebalance", ours), limits, thresholds, note)
    result.report("taken over", args, _BY_USAGE if by_usage else _BY_REQUESTS, _BALANCER)
    evict_directly(result, args)


def evict_directly(result: Translation, node: DocumentNode) -> None:
    """Make pods leave without a reservation, and report what loadstream does differently."""
    note = "the descheduler evicts without a reservation"
    result.set_value(("migration", "defaultJobMode"), "EvictDirectly", node, note)
    text = "rebalance.anomalyCondition: a node is hot in 5 rounds before a pod leaves, not in one"
    result.report("handled elsewhere", node, text, "rounds until a pod leaves")
    text = "section migration limits how many pods of a node or workload move at once"
    result.report("handled elsewhere", node, text, "limits of moves")


def _read_thresholds(result: Translation, node: DocumentNode, query: str) -> dict[str, Any]:
    """Return the thresholds of resources that loadstream measures; report all others."""
    limits: dict[str, Any] = {}
    for key, child in node.children() if result.is_kind(node, dict) else ():
        name = str(key)
        if name in _RESOURCES:
            limits[name] = child.value
        elif name == "MetricResource" and (resource := _find_resource(query)):
            limits[resource] = child.value
            text = f"thresholds of {resource}, which the query {query!r} seems to measure"
            result.report("taken over", child, text, name)
        else:
            text = f"its usage is not known; use thresholds of {', '.join(_RESOURCES)}"
            result.report("lost", child, text, name)
    return limits


def _find_resource(query: str) -> str | None:
    """Return the resource that a query of Prometheus measures, by its text."""
    if "pressure" in query.lower():
        return None
    return next((name for name in ("cpu", "memory") if name[:3] in query.lower()), None)


def translate_values(result: Translation, node: DocumentNode) -> None:
    """Translate the Helm values next to a DeschedulerPolicy; only the interval matters."""
    name = "deschedulingInterval"
    apply(result, node.child(name), copy_to("descheduling", name))
