"""Usage that the filter and the scores need, but that is missing in a node's metric.

By Koordinator's rules, the sum of the estimates of all pods replaces a missing statistic
(docs/reference/compat.md X9). By loadstream's rules, another statistic replaces it, and a resource of
unknown usage counts as on a node without a metric (X9, X23). Decisions name the missing usage.
"""

from collections.abc import Sequence
from typing import NamedTuple

from streams.usage.metric import name_statistic
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.rounding import UNBOUNDED

#: Pods whose decisions need the usage, as bits. Pods of DaemonSets are separate, because the filter does not
#: apply to them. Prod pods are separate, because their thresholds may be for the mean usage of prod pods.
OTHER_PODS, PROD_PODS, OTHER_DAEMONS, PROD_DAEMONS = 1, 2, 4, 8
ALL_PODS = OTHER_PODS | PROD_PODS | OTHER_DAEMONS | PROD_DAEMONS

#: Replacement of a statistic by Koordinator's rules.
ESTIMATES = "estimates"


class MissingUsage(NamedTuple):
    subject: str
    """A resource, or a statistic such as "p95 over 30m"."""
    replacement: str
    """The replacement; empty if the usage of the resource is unknown."""
    pods: int
    """Pods whose decisions need the usage, as bits."""


def get_pods_bit(*, prod: bool, daemon: bool) -> int:
    if daemon:
        return PROD_DAEMONS if prod else OTHER_DAEMONS
    return PROD_PODS if prod else OTHER_PODS


def find_missing_usage(
    usage: ExpectedNodeUsage,
    *,
    filters_by_load: bool,
    scores_by_load: bool,
    risk_resources: Sequence[str],
) -> tuple[MissingUsage, ...]:
    """Return what is missing in a node's metric for a policy; `risk_resources` are those of the risk score."""
    vectors, metric = usage.vectors, usage.metric
    if vectors is None or vectors.node is None or metric is None or metric.usage is None:
        return ()
    missing: dict[tuple[str, str], int] = {}
    resources, aggregated = usage.estimator.resources, usage.estimator.args.aggregated
    needed: list[_Needed] = []
    if vectors.unknown or aggregated is not None or usage.profile.aggregation is not None:
        needed = _list_needed(usage, filters_by_load=filters_by_load, scores_by_load=scores_by_load)
    for aggregation, duration_ms, pods, positions in needed:
        reading = vectors.read(aggregation, duration_ms)
        unknown = () if reading is None else reading.unknown
        gaps = [(resources[position], "") for position in unknown if position in positions]
        if aggregation is not None:
            replaced = (
                [(position, ESTIMATES) for position in positions]
                if reading is None
                else reading.replacements
            )
            name = name_statistic(aggregation, duration_ms)
            gaps += [
                (name, replacement) for position, replacement in replaced if position in positions
            ]
        for gap in gaps:
            missing[gap] = missing.get(gap, 0) | pods
    for name in risk_resources:
        if name not in metric.usage and not any(name in pod.usage for pod in metric.pods):
            missing[name, ""] = ALL_PODS
    return tuple([MissingUsage(*gap, pods) for gap, pods in missing.items()])


class _Needed(NamedTuple):
    """A statistic that a plugin uses."""

    aggregation: str | None
    duration_ms: int
    pods: int
    positions: set[int]
    """Positions of the resources."""


def _list_needed(
    usage: ExpectedNodeUsage, *, filters_by_load: bool, scores_by_load: bool
) -> list[_Needed]:
    args, profile = usage.estimator.args, usage.profile
    needed: list[_Needed] = []
    if filters_by_load and profile.usage_max is not None:
        checks_prod_pods = profile.prod_usage_max is None or args.check_both
        pods = OTHER_PODS | (PROD_PODS if checks_prod_pods else 0)
        positions = {i for i, limit in enumerate(profile.usage_max) if limit != UNBOUNDED}
        needed.append(_Needed(profile.aggregation, profile.aggregated_ms, pods, positions))
    if filters_by_load and profile.prod_usage_max is not None:
        positions = {i for i, limit in enumerate(profile.prod_usage_max) if limit != UNBOUNDED}
        needed.append(_Needed(None, 0, PROD_PODS, positions))
    if scores_by_load:
        prod = PROD_PODS | PROD_DAEMONS
        weights, total = args.resource_weights, profile.total
        positions = {
            i
            for i, name in enumerate(usage.estimator.resources)
            if total[i] > 0 and (args.dominant_resource_weight or weights.get(name))
        }
        aggregated = args.aggregated
        aggregation = (aggregated.score_aggregation_type or None) if aggregated else None
        duration_ms = aggregated.score_aggregated_duration_ms if aggregated else 0
        if args.score_according_prod_usage:
            needed.append(_Needed(None, 0, prod, positions))
            prod = 0
        needed.append(
            _Needed(aggregation, duration_ms, OTHER_PODS | OTHER_DAEMONS | prod, positions)
        )
    return needed
