"""Rules between sections of a policy that has been read.

An error refuses the policy. A warning is shown by `policy check` and `policy apply`. Each rule is a
function that yields the path of a value and a sentence; the lists at the end name all rules. Rules
within one section are in the section (`PolicyPart.conflicts`).
"""

import re
from collections.abc import Callable, Iterator, Sequence

from schemas.policy.document import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.errors import Finding, Path
from schemas.policy.parts import RESOURCES_MAX, get_alias, is_default
from schemas.policy.resource_maps import (
    find_equal_thresholds,
    find_lows_of_no_node,
    find_thresholds_above_100,
    find_unknown_resources,
)
from schemas.policy.sections.plugins import (
    BALANCED_ALLOCATION,
    BUILT_IN,
    LIMITS_AWARE,
    LOAD_AWARE,
    LOW_NODE_LOAD,
    OVERUTILIZATION_RISK,
    RESOURCES_FIT,
)
from schemas.policy.sections.rebalance import THRESHOLD_MAPS
from schemas.policy.sections.resources_fit import LEAST_ALLOCATED
from schemas.policy.windows import EVERY_MINUTE, open_minutes

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
#: Sections with arguments of a plugin, and the plugin lists that make them effective.
_SECTIONS = (
    ("load_aware", LOAD_AWARE, ("filter", "score")),
    ("resource_limits", LIMITS_AWARE, ("score",)),
    ("resources_fit", RESOURCES_FIT, ("score",)),
    ("balanced_allocation", BALANCED_ALLOCATION, ("score",)),
    ("overutilization_risk", OVERUTILIZATION_RISK, ("score", "balance")),
    ("risk_moves", OVERUTILIZATION_RISK, ("balance",)),
    ("rebalance", LOW_NODE_LOAD, ("balance",)),
)


def find_errors(policy: Policy) -> Iterator[Finding]:
    """Yield the reasons to refuse the policy."""
    rules = _ERRORS if policy.follows_koordinator else (*_ERRORS, *_OWN_ERRORS)
    for rule in rules:
        yield from rule(policy)


def find_warnings(policy: Policy) -> Iterator[Finding]:
    """Yield values that the author probably did not intend."""
    is_upstream = policy.follows_koordinator
    for rule in (*_WARNINGS, *(_UPSTREAM_WARNINGS if is_upstream else _OWN_WARNINGS)):
        yield from rule(policy)


def _check_moves_by_risk(policy: Policy) -> Iterator[Finding]:
    if not policy.plugins.balances(OVERUTILIZATION_RISK):
        return
    if policy.follows_koordinator:
        message = (
            f'found "{OVERUTILIZATION_RISK}", which compat: koordinator does not have; '
            f'allowed is "{LOW_NODE_LOAD}"'
        )
        yield ("plugins", "balance"), message
    for index, pool in enumerate(policy.rebalance.node_pools):
        if pool.name == OVERUTILIZATION_RISK:
            message = (
                f'found "{OVERUTILIZATION_RISK}", the name of a plugin that plugins.balance enables; '
                "allowed is another name"
            )
            yield ("rebalance", "nodePools", index, "name"), message


def _check_namespace_limiter(policy: Policy) -> Iterator[Finding]:
    limiter = policy.migration.object_limiters.get("namespace")
    if policy.follows_koordinator or limiter is None:
        return
    if isinstance(limiter.max_migrating, str):
        message = (
            f'found "{limiter.max_migrating}"; a namespace has no number of replicas; '
            "allowed is an integer from 0"
        )
        yield ("migration", "objectLimiters", "namespace", "maxMigrating"), message


def _check_scoring_strategy(policy: Policy) -> Iterator[Finding]:
    strategy = policy.resources_fit.scoring_strategy.type
    if policy.plugins.scores(RESOURCES_FIT) and strategy != LEAST_ALLOCATED:
        message = (
            f'found "{strategy}", while plugins.score enables {RESOURCES_FIT}; '
            f'allowed is "{LEAST_ALLOCATED}"'
        )
        yield ("resourcesFit", "scoringStrategy", "type"), message


def _check_resource_count(policy: Policy) -> Iterator[Finding]:
    """Yield an error if thresholds name more resources than a metric and a round can contain."""
    # Koordinator's pools add their resources, and memory, to each other's maps.
    names = {"memory"} if policy.follows_koordinator else set()
    for pool in policy.rebalance.pools(policy.compat):
        for field in THRESHOLD_MAPS:
            names.update(getattr(pool, field) or {})
    if len(names) > RESOURCES_MAX:
        message = (
            f"found thresholds of {len(names)} resources in all pools together; allowed are at most "
            f"{RESOURCES_MAX}"
        )
        yield ("rebalance",), message


def _find_unused_sections(policy: Policy) -> Iterator[Finding]:
    for field, plugin, lists in _SECTIONS:
        # A printed policy has every section, so a section with default values is not reported.
        is_given = field in policy.model_fields_set and not is_default(getattr(policy, field))
        enabled = any(
            entry.name == plugin for name in lists for entry in getattr(policy.plugins, name)
        )
        if is_given and not enabled:
            where = " or ".join(f"plugins.{name}" for name in lists)
            yield (
                (get_alias(Policy, field),),
                f"the section has no effect, because {plugin} is not enabled in {where}",
            )


def _find_arguments_without_effect(policy: Policy) -> Iterator[Finding]:
    args = policy.load_aware
    aggregated = args.aggregated
    if aggregated is not None:
        for alias, value, partner, partner_value in (
            ("usageThresholds", aggregated.usage_thresholds, "usageAggregationType", aggregated.usage_aggregation_type),
            ("usageAggregationType", aggregated.usage_aggregation_type, "usageThresholds", aggregated.usage_thresholds),
        ):  # fmt: skip
            if value and not partner_value:
                yield ("loadAware", "aggregated", alias), f"has no effect without {partner}"
    if policy.plugins.scores(LOAD_AWARE) or not policy.plugins.filters(LOAD_AWARE):
        return
    for alias, used in (
        ("dominantResourceWeight", args.dominant_resource_weight > 0),
        ("scoreAccordingProdUsage", args.score_according_prod_usage),
    ):
        if used:
            text = f"has no effect, because {LOAD_AWARE} is not enabled in plugins.score"
            yield ("loadAware", alias), text


def _find_filters_left_out(policy: Policy) -> Iterator[Finding]:
    enabled = {plugin.name for plugin in policy.plugins.filter}
    left_out = [name for name in BUILT_IN.filter if name != LOAD_AWARE and name not in enabled]
    if left_out:
        yield (
            ("plugins", "filter"),
            f"leaves out {', '.join(left_out)}: pods may be placed on nodes that reject them",
        )


def list_needed_windows(policy: Policy) -> list[tuple[str, str, int]]:
    """Return the aggregates that `loadAware.aggregated` needs: field, statistic, window in ms.

    A window of 0 stands for any window.
    """
    args = policy.load_aware.aggregated
    needed: list[tuple[str, str, int]] = []
    if args is not None and args.filters and policy.plugins.filters(LOAD_AWARE):
        window_ms = args.usage_aggregated_duration_ms
        needed.append(("usageAggregatedDuration", args.usage_aggregation_type, window_ms))
    if args is not None and args.score_aggregation_type and policy.plugins.scores(LOAD_AWARE):
        window_ms = args.score_aggregated_duration_ms
        needed.append(("scoreAggregatedDuration", args.score_aggregation_type, window_ms))
    return needed


def _find_missing_windows(policy: Policy) -> Iterator[Finding]:
    needed = list_needed_windows(policy)
    for section, collect in policy.collect.by_section.items():
        recorded = collect.metric_aggregate_policy.durations_ms
        for field, _, duration_ms in needed:
            if duration_ms not in recorded if duration_ms else not recorded:
                message = (
                    f"found {format_duration_ms(duration_ms)}, which "
                    f"{section}.metricAggregatePolicy.durations does not record; recorded: "
                    f"{', '.join(map(format_duration_ms, recorded)) or 'none'}"
                )
                yield ("loadAware", "aggregated", field), message


def _find_metrics_that_expire(policy: Policy) -> Iterator[Finding]:
    args, limits = policy.load_aware, []
    filters = args.filter_expired_node_metrics and policy.plugins.filters(LOAD_AWARE)
    if filters or policy.plugins.scores(LOAD_AWARE):
        limits.append(("loadAware", args.node_metric_expiration_seconds))
    if policy.judges_by_thresholds or policy.plugins.balances(OVERUTILIZATION_RISK):
        limits.append(("rebalance", policy.rebalance.node_metric_expiration_seconds))
    for section, collect in policy.collect.by_section.items():
        interval_s = collect.metric_report_interval_seconds
        for reader, seconds in limits:
            if interval_s >= seconds:
                message = (
                    f"found {seconds}; {section}.metricReportIntervalSeconds is {interval_s}, "
                    "so each metric expires before the next arrives"
                )
                yield (reader, "nodeMetricExpirationSeconds"), message


def _find_windows_that_never_open(policy: Policy) -> Iterator[Finding]:
    maintenance = policy.maintenance
    open_always = open_minutes(maintenance.windows) if maintenance.windows else EVERY_MINUTE
    for index, entry in enumerate(maintenance.namespaces):
        if entry.windows and not open_minutes(entry.windows) & open_always:
            message = (
                f"no window of {entry.name!r} overlaps with maintenance.windows, and both must be "
                "open: its pods are never evicted"
            )
            yield ("maintenance", "namespaces", index), message


def _find_patterns_of_namespaces(policy: Policy) -> Iterator[Finding]:
    lists: list[tuple[Path, Sequence[str]]] = [
        ((*at, field), getattr(names, field))
        for at, names in (
            (("rebalance", "evictableNamespaces"), policy.rebalance.evictable_namespaces),
            (("migration", "namespaces"), policy.migration.namespaces),
        )
        if names is not None
        for field in ("include", "exclude")
    ]
    lists.append(
        (("maintenance", "namespaces"), [entry.name for entry in policy.maintenance.namespaces])
    )
    for at, names in lists:
        for index, name in enumerate(names):
            if not _NAMESPACE.fullmatch(name):
                yield (
                    (*at, index),
                    f"found {name!r}, which is not a valid name of a namespace; patterns are not supported here",
                )


def _find_hot_below_placement(policy: Policy) -> Iterator[Finding]:
    if not policy.plugins.filters(LOAD_AWARE):
        return
    args, aggregated = policy.load_aware, policy.load_aware.aggregated
    by_window = aggregated is not None and aggregated.filters
    if not by_window and "usage_thresholds" not in args.model_fields_set:
        return
    limits = aggregated.usage_thresholds if aggregated and by_window else args.usage_thresholds
    section = "loadAware.aggregated" if by_window else "loadAware"
    for at, name, percent in _list_hot_percentages(policy):
        if percent < limits.get(name, 0):
            message = (
                f"found {percent:g}, but {section}.usageThresholds.{name} is {limits[name]}: hot nodes "
                "still accept pods; lower the threshold of the filter"
            )
            yield at, message


def _list_hot_percentages(policy: Policy) -> Iterator[tuple[Path, str, float]]:
    """Yield path, resource and value of each percentage above which a node is hot."""
    if policy.judges_by_thresholds:
        for at, part in policy.rebalance.list_written():
            if not part.use_deviation_thresholds:
                for name, percent in (part.high_thresholds or {}).items():
                    yield (*at, "highThresholds", name), name, percent
    if policy.plugins.balances(OVERUTILIZATION_RISK):
        for index, resource in enumerate(policy.overutilization_risk.resources):
            at = ("overutilizationRisk", "resources", index, "hotPercent")
            if resource.hot_percent is not None:
                yield at, resource.name, resource.hot_percent


def _find_forgotten_counts(policy: Policy) -> Iterator[Finding]:
    interval_ms = policy.descheduling.descheduling_interval_ms
    cache_ms = policy.rebalance.detector_cache_timeout_ms
    if policy.judges_by_thresholds and interval_ms > cache_ms:
        message = (
            f"found {format_duration_ms(interval_ms)}, but rebalance.detectorCacheTimeout is "
            f"{format_duration_ms(cache_ms)}: counts of hot rounds would expire before the next "
            "round, so the interval is used as timeout; raise detectorCacheTimeout"
        )
        yield ("descheduling", "deschedulingInterval"), message


def _find_limits_of_all_replicas(policy: Policy) -> Iterator[Finding]:
    args = policy.migration
    if args.skip_check_expected_replicas or "ExpectedReplicas" in args.skip_eviction_gates:
        return
    for alias, share in (
        ("maxMigratingPerWorkload", args.max_migrating_per_workload),
        ("maxUnavailablePerWorkload", args.max_unavailable_per_workload),
    ):
        if isinstance(share, str) and int(share[:-1]) >= 100:
            message = (
                f'found "{share}", which allows all replicas of a workload to move at once. The check '
                "ExpectedReplicas protects such workloads, so nothing moves; give a smaller share, or "
                "set skipCheckExpectedReplicas: true"
            )
            yield ("migration", alias), message


_Rules = tuple[Callable[[Policy], Iterator[Finding]], ...]

_ERRORS: _Rules = (
    _check_moves_by_risk,
    _check_namespace_limiter,
    _check_scoring_strategy,
    _check_resource_count,
)
#: Errors that Koordinator accepts.
_OWN_ERRORS: _Rules = (
    find_unknown_resources,
    find_thresholds_above_100,
)
_OWN_WARNINGS: _Rules = (
    find_equal_thresholds,
    find_lows_of_no_node,
    _find_filters_left_out,
)
_UPSTREAM_WARNINGS: _Rules = (find_unknown_resources,)
_WARNINGS: _Rules = (
    _find_unused_sections,
    _find_arguments_without_effect,
    _find_missing_windows,
    _find_metrics_that_expire,
    _find_windows_that_never_open,
    _find_patterns_of_namespaces,
    _find_hot_below_placement,
    _find_forgotten_counts,
    _find_limits_of_all_replicas,
)
