"""What of a policy changes nothing under the rest of it, so that nothing is accepted in silence.

A field may be without effect because of another one: arguments of a plugin that is not enabled, a
threshold whose place another takes, a check that a gate lifts. This is found here, from a policy
that has been read; the reader lists what the text gives of it, each with its reason. What cannot mean anything is refused instead (`contradictions`).
"""

from collections.abc import Iterator
from typing import Any

from schemas.policy.contradictions import Found
from schemas.policy.document import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.errors import Path
from schemas.policy.lifted import lifted
from schemas.policy.moves import MoveArgs
from schemas.policy.outweighed import outweighed
from schemas.policy.plugins import (
    BALANCED_ALLOCATION,
    LOAD_AWARE,
    LOW_NODE_LOAD,
    OVERUTILIZATION_RISK,
    RESOURCES_FIT,
)
from schemas.policy.roundcounts import unused_counts

_FILTER_FIELDS = (
    "filterExpiredNodeMetrics",
    "enableScheduleWhenNodeMetricsExpired",
    "usageThresholds",
    "prodUsageThresholds",
    "checkBoth",
)
_AGGREGATED_FILTER = ("usageThresholds", "usageAggregationType", "usageAggregatedDuration")
_SCORE_FIELDS = ("resourceWeights", "dominantResourceWeight", "scoreAccordingProdUsage")
_AGGREGATED_SCORE = ("scoreAggregationType", "scoreAggregatedDuration")
_ESTIMATION = (
    "estimateBy",
    "estimateMarginPercent",
    "estimatedScalingFactors",
    "estimatedSecondsAfterPodScheduled",
    "estimatedSecondsAfterInitialized",
    "allowCustomizeEstimation",
)
#: What is left of the age at which metrics expire, and of profiles, where no decision goes by them.
_STALE = "it only says which nodes are stale"
_LEARNED = "what pods use is learned all the same"
#: What only a pool that is held back for its verdicts looks at.
_OF_VERDICTS = ("verdicts", "initial_backoff_seconds", "max_backoff_seconds")
#: Arguments of LowNodeLoad by which rounds by risk go too.
_OF_ALL_ROUNDS = (
    "paused",
    "dry_run",
    "node_metric_expiration_seconds",
    "evictable_namespaces",
    "pod_selectors",
)


def without_effect(policy: Policy, given: Any) -> Iterator[Found]:
    """What of the values that a text gives has no effect, with the reason; nothing below a path
    that is listed.

    Args:
        policy: as it was read.
        given: the values as they were written, by the names of `Policy`.
    """
    listed: set[Path] = set()
    for path, why in (*_all(policy), *_replaced_weights(policy, given)):
        above = (path[:length] for length in range(1, len(path) + 1))
        if _is_given(given, path) and listed.isdisjoint(above):
            listed.add(path)
            yield path, why


def _replaced_weights(policy: Policy, given: Any) -> Iterator[Found]:
    """Weights of the top level that upstream's default takes the place of, of pools' own none."""
    section = given.get("rebalance") if isinstance(given, dict) else None
    weights = section.get("resourceWeights") if isinstance(section, dict) else None
    resolved = policy.rebalance.resource_weights or {}
    for resource, weight in weights.items() if isinstance(weights, dict) else ():
        if weight != resolved.get(resource, weight):
            path = ("rebalance", "resourceWeights", resource)
            yield path, f"{weight} is no weight here: 1 takes its place, as upstream"


def _is_given(given: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            known = isinstance(given, list) and step < len(given)
        else:
            known = isinstance(given, dict) and step in given
        if not known:
            return False
        given = given[step]
    return given is not None


def _all(policy: Policy) -> Iterator[Found]:
    yield from _of_placement(policy)
    yield from _of_rounds(policy)
    if policy.judges_by_thresholds:
        yield from unused_counts(policy)
    yield from _of_thresholds(policy)
    yield from lifted(policy)
    yield from outweighed(policy)


def _of_placement(policy: Policy) -> Iterator[Found]:
    """Arguments of filters and scores."""
    scores = {plugin.name for plugin in policy.plugins.score}
    filters = {plugin.name for plugin in policy.plugins.filter}
    if "NodeResourceLimitsAware" not in scores:
        yield ("resourceLimits",), "plugins.score does not enable NodeResourceLimitsAware"
    if RESOURCES_FIT not in scores:
        why = f"plugins.score does not enable {RESOURCES_FIT}"
        yield ("resourcesFit", "scoringStrategy"), why
    if BALANCED_ALLOCATION not in scores:
        yield ("balancedAllocation",), f"plugins.score does not enable {BALANCED_ALLOCATION}"
    by_risk = policy.plugins.balances(OVERUTILIZATION_RISK)
    if OVERUTILIZATION_RISK not in scores and not by_risk:
        why = f"plugins.score does not enable {OVERUTILIZATION_RISK}, nor does plugins.balance"
        yield from _of_profiles_alone(policy, why)
    if not by_risk:
        yield ("riskMoves",), f"plugins.balance does not enable {OVERUTILIZATION_RISK}"
    yield from _of_load_aware(policy, filters, scores)
    yield from _of_aggregated(policy)


def _of_load_aware(policy: Policy, filters: set[str], scores: set[str]) -> Iterator[Found]:
    """Arguments of the load-aware filter and score."""
    name, args = LOAD_AWARE, policy.load_aware
    here = ("loadAware",)
    for enabled, point, own, aggregated in (
        (name in filters, "filter", _FILTER_FIELDS, _AGGREGATED_FILTER),
        (name in scores, "score", _SCORE_FIELDS, _AGGREGATED_SCORE),
    ):
        if not enabled:
            why = f"plugins.{point} does not enable {name}"
            yield from (((*here, field), why) for field in own)
            yield from (((*here, "aggregated", field), why) for field in aggregated)
    if name not in filters:
        why = f"plugins.filter does not enable {name}"
        yield ("movingThresholds", "filter"), why
    if name not in filters | scores:
        why = f"neither plugins.filter nor plugins.score enables {name}"
        yield (*here, "prodUsageIncludeSys"), why
        yield (*here, "nodeMetricExpirationSeconds"), f"{why}; {_STALE}"
    elif name not in scores and not args.filter_expired_node_metrics:
        why = (
            f"filterExpiredNodeMetrics is false, and plugins.score does not enable {name}; {_STALE}"
        )
        yield (*here, "nodeMetricExpirationSeconds"), why
    if not args.filter_expired_node_metrics:
        why = "filterExpiredNodeMetrics is false: expired metrics are checked as they are"
        yield (*here, "enableScheduleWhenNodeMetricsExpired"), why
    yield from _of_estimates(policy)
    for field, seconds in (
        ("estimatedSecondsAfterPodScheduled", args.estimated_seconds_after_pod_scheduled),
        ("estimatedSecondsAfterInitialized", args.estimated_seconds_after_initialized),
    ):
        if seconds is not None and seconds <= 0:
            yield (*here, field), f"{seconds} is off, as it is by default"


def _of_profiles_alone(policy: Policy, why: str) -> Iterator[Found]:
    """Arguments of OverutilizationRisk where nothing asks for its risk: estimates may go by the
    same profiles."""
    here, args = "overutilizationRisk", policy.load_aware
    if not args.by_profiles:
        yield (here,), why
        return
    for field in (
        *("excessWeight", "meanPriorMinutes", "variancePriorMinutes", "recentMinutes"),
        "profiles",
    ):
        yield (here, field), why
    for index, resource in enumerate(policy.overutilization_risk.resources):
        if resource.name not in args.resources:
            yield (here, "resources", index), f"{why}, and loadAware names no {resource.name}"
        for field in ("weight", "hotPercent"):
            yield (here, "resources", index, field), why
    if not args.estimate_margin_percent:
        why = "loadAware.estimateMarginPercent is 0"
        for field in ("deviationPriorPercent", "spreadPriorPercent"):
            yield (here, field), why


def _of_estimates(policy: Policy) -> Iterator[Found]:
    """Who says what pods that are not measured use; rounds by thresholds go by that too."""
    args, here = policy.load_aware, ("loadAware",)
    plugins = {plugin.name for plugin in (*policy.plugins.filter, *policy.plugins.score)}
    by_rounds = policy.judges_by_thresholds and policy.compat == "loadstream"
    if LOAD_AWARE not in plugins and not by_rounds:
        rounds = "no node is hot"
        if policy.judges_by_thresholds:
            rounds = "rounds of compat: koordinator go by no estimates"
        why = f"neither plugins.filter nor plugins.score enables {LOAD_AWARE}, and {rounds}"
        yield from (((*here, field), why) for field in _ESTIMATION if field != "estimateBy")
        yield (*here, "estimateBy"), f"{why}; {_LEARNED}" if args.by_profiles else why
    elif not args.by_profiles:
        yield (*here, "estimateMarginPercent"), "estimateBy is requests"
    elif not {each.name for each in policy.overutilization_risk.resources} & {*args.resources}:
        why = "overutilizationRisk.resources names none that loadAware looks at"
        yield (*here, "estimateBy"), f"{why}; {_LEARNED}"
        yield (*here, "estimateMarginPercent"), why
    else:
        why = f"estimateBy: {args.estimate_by} takes its place"
        for resource in policy.overutilization_risk.resources:
            yield (*here, "estimatedScalingFactors", resource.name), why


def _of_aggregated(policy: Policy) -> Iterator[Found]:
    """Statistics of windows, and what they take the place of."""
    args = policy.load_aware.aggregated
    if args is None:
        return
    here = ("loadAware", "aggregated")
    if args.filters:
        why = "loadAware.aggregated takes its place"
        yield ("loadAware", "usageThresholds"), why
        yield ("movingThresholds", "filter", "recentPast"), why
        moving = policy.moving_thresholds.filter
        for index, _ in enumerate(() if moving is None else moving.windows):
            yield ("movingThresholds", "filter", "windows", index, "usageThresholds"), why
    else:
        why = "needs both usageThresholds and usageAggregationType"
        yield from (((*here, field), why) for field in _AGGREGATED_FILTER)
    if not args.score_aggregation_type:
        yield (*here, "scoreAggregatedDuration"), "needs scoreAggregationType"


def _of_rounds(policy: Policy) -> Iterator[Found]:
    """What only rounds of rebalancing look at, where none judges a node."""
    if not policy.judges_by_thresholds:
        why = "no pool has high thresholds, so no node is hot"
        enabled = policy.plugins.balances(LOW_NODE_LOAD)
        why = why if enabled else f"plugins.balance does not enable {LOW_NODE_LOAD}"
        if policy.plugins.balances(OVERUTILIZATION_RISK):
            yield from _without_thresholds(policy, why)
        else:
            yield from _without_rounds(policy, why)
    for index, selector in enumerate(policy.rebalance.pod_selectors):
        if selector.selector is None:
            yield ("rebalance", "podSelectors", index), "an entry without selector is ignored"
    if not policy.remembers_moves:
        why = "moves.enabled is false"
        if policy.compat == "koordinator":
            why = "compat: koordinator remembers no moves"
            yield ("moves", "enabled"), why
        for name, field in MoveArgs.model_fields.items():
            if name not in ("enabled", "follow_seconds"):
                yield ("moves", field.alias or name), why
        yield ("riskMoves", "restMinutes"), why
        return
    if not policy.moves.min_helped_percent:
        for name in _OF_VERDICTS:
            why = "minHelpedPercent is 0: no pool is held back"
            yield ("moves", MoveArgs.model_fields[name].alias or name), why
    least_ms = 2 * policy.descheduling.descheduling_interval_ms
    if policy.moves.cooling_seconds * 1_000 <= least_ms:
        why = f"a node is cooling for two intervals between rounds, {format_duration_ms(least_ms)}"
        yield ("moves", "coolingSeconds"), why


def _without_rounds(policy: Policy, why: str) -> Iterator[Found]:
    moving = policy.moving_thresholds.filter
    # Rounds still read usage for thresholds of the filter, and pools still have their windows.
    follows = moving is not None and moving.recent_past is not None
    if not follows and not policy.maintenance.pools:
        yield ("rebalance",), why
    for name, field in type(policy.rebalance).model_fields.items():
        windows = name == "node_pools" and policy.maintenance.pools
        if not windows and not (follows and name in ("node_metric_expiration_seconds", "paused")):
            yield ("rebalance", field.alias or name), why
    for name, field in type(policy.descheduling).model_fields.items():
        if name != "dry_run" and not (name == "descheduling_interval_ms" and follows):
            yield ("descheduling", field.alias or name), why
    yield ("moves",), why
    yield ("movingThresholds", "hotspots"), why
    if policy.evictor.no_eviction_policy == "Preferred" and policy.compat == "loadstream":
        yield ("evictor", "noEvictionPolicy"), why


def _without_thresholds(policy: Policy, why: str) -> Iterator[Found]:
    """What rounds by thresholds look at, and those by risk do not."""
    for name, field in type(policy.rebalance).model_fields.items():
        pools = name == "node_pools" and policy.maintenance.pools
        if name not in _OF_ALL_ROUNDS and not pools:
            yield ("rebalance", field.alias or name), why
    for name in ("initial_unmovable_seconds", "max_unmovable_seconds"):
        yield ("moves", MoveArgs.model_fields[name].alias or name), why
    yield ("movingThresholds", "hotspots"), why
    if policy.evictor.no_eviction_policy == "Preferred":
        yield ("evictor", "noEvictionPolicy"), f"moves by risk go by what they save, and {why}"


def _of_thresholds(policy: Policy) -> Iterator[Found]:
    """Windows that say nothing."""
    moving = policy.moving_thresholds
    why = "the window gives no threshold"
    for index, each in enumerate(() if moving.filter is None else moving.filter.windows):
        said = each.usage_thresholds, each.prod_usage_thresholds, each.aggregated_usage_thresholds
        if not any(said):
            yield ("movingThresholds", "filter", "windows", index), why
    for number, entry in enumerate(moving.hotspots):
        for index, window in enumerate(entry.windows):
            highs = window.high_thresholds, window.prod_high_thresholds
            lows = window.low_thresholds, window.prod_low_thresholds
            if not any((*highs, *lows, window.evict_without_target)):
                yield ("movingThresholds", "hotspots", number, "windows", index), why
