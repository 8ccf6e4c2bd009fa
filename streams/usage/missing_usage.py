"""Usage that the filter and the scores need and a node's metric lacks.

By Koordinator's rules, the sum of the estimates of all pods replaces a missing statistic
(docs/reference/upstream.md X9). By loadstream's rules, another statistic replaces it, and a resource of
unknown usage counts as on a node without a metric (X9, X23). Decisions name what is missing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from streams.usage.metric import name_statistic
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.rounding import UNBOUNDED

#: Kinds of pods whose decisions need the usage, as bits. Pods of DaemonSets are apart, because the filter does
#: not apply to them. Prod pods are apart, because their thresholds may be for the mean usage of prod pods.
OTHER_PODS, PROD_PODS, OTHER_DAEMONS, PROD_DAEMONS = 1, 2, 4, 8
ALL_PODS = OTHER_PODS | PROD_PODS | OTHER_DAEMONS | PROD_DAEMONS

#: What replaces a statistic by Koordinator's rules.
ESTIMATES = "estimates"


class MissingUsage(NamedTuple):
    """Usage of a node that its metric lacks."""

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
    usage: ExpectedNodeUsage, *, filtered: bool, scored: bool, at_risk: Sequence[str] = ()
) -> tuple[MissingUsage, ...]:
    """Return what the metric of a node lacks for a policy that filters or scores by load, or by risk."""
    vectors, metric = usage.vectors, usage.metric
    if vectors is None or vectors.node is None or metric is None or metric.usage is None:
        return ()
    missing: dict[tuple[str, str], int] = {}
    resources, aggregated = usage.estimator.resources, usage.estimator.args.aggregated
    needed: list[_Needed] = []
    if vectors.unknown or aggregated is not None or usage.profile.aggregation is not None:
        needed = _list_needed(usage, filtered=filtered, scored=scored)
    for kind, duration_ms, pods, positions in needed:
        reading = vectors.read(kind, duration_ms)
        unknown = () if reading is None else reading.unknown
        lacks = [(resources[position], "") for position in unknown if position in positions]
        if kind is not None:
            replaced = (
                [(position, ESTIMATES) for position in positions]
                if reading is None
                else reading.replacements
            )
            name = name_statistic(kind, duration_ms)
            lacks += [
                (name, replacement) for position, replacement in replaced if position in positions
            ]
        for lack in lacks:
            missing[lack] = missing.get(lack, 0) | pods
    for name in at_risk:
        if name not in metric.usage and not any(name in pod.usage for pod in metric.pods):
            missing[name, ""] = ALL_PODS
    return tuple([MissingUsage(*lack, pods) for lack, pods in missing.items()])


class _Needed(NamedTuple):
    """A statistic that a plugin uses."""

    aggregation: str | None
    duration_ms: int
    pods: int
    positions: set[int]
    """Positions of the resources."""


def _list_needed(usage: ExpectedNodeUsage, *, filtered: bool, scored: bool) -> list[_Needed]:
    args, profile = usage.estimator.args, usage.profile
    needed: list[_Needed] = []
    if filtered and profile.usage_max is not None:
        of_prod_too = profile.prod_usage_max is None or args.check_both
        pods = OTHER_PODS | (PROD_PODS if of_prod_too else 0)
        positions = {i for i, most in enumerate(profile.usage_max) if most != UNBOUNDED}
        needed.append(_Needed(profile.aggregation, profile.aggregated_ms, pods, positions))
    if filtered and profile.prod_usage_max is not None:
        positions = {i for i, most in enumerate(profile.prod_usage_max) if most != UNBOUNDED}
        needed.append(_Needed(None, 0, PROD_PODS, positions))
    if scored:
        prod = PROD_PODS | PROD_DAEMONS
        weights, total = args.resource_weights, profile.total
        positions = {
            i
            for i, name in enumerate(usage.estimator.resources)
            if total[i] > 0 and (args.dominant_resource_weight or weights.get(name))
        }
        aggregated = args.aggregated
        kind = (aggregated.score_aggregation_type or None) if aggregated else None
        duration_ms = aggregated.score_aggregated_duration_ms if aggregated else 0
        if args.score_according_prod_usage:
            needed.append(_Needed(None, 0, prod, positions))
            prod = 0
        needed.append(_Needed(kind, duration_ms, OTHER_PODS | OTHER_DAEMONS | prod, positions))
    return needed
