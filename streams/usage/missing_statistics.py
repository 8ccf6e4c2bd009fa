"""Statistics that the filter and the score by load use and a node's metric lacks.

Expected usage is then the sum of the estimates of all pods (docs/upstream.md X9).
"""

from typing import NamedTuple

from streams.usage.node_usage import ExpectedNodeUsage

#: Pods that a statistic may be needed for, as bits: pods of DaemonSets pass the filter unasked, and
#: prod pods may be judged by their own usage, of which no statistic but the mean is known.
JUDGED, JUDGED_PROD, DAEMONS, DAEMONS_PROD = 1, 2, 4, 8


class MissingStatistic(NamedTuple):
    """A statistic of a node that its metric lacks."""

    aggregation: str
    duration_ms: int
    pods: int
    """For which pods it is needed, as bits."""


def get_pods_bit(*, prod: bool, daemon: bool) -> int:
    """Return the bit of a kind of pods."""
    if daemon:
        return DAEMONS_PROD if prod else DAEMONS
    return JUDGED_PROD if prod else JUDGED


def find_missing_statistics(
    usage: ExpectedNodeUsage, *, filtered: bool, scored: bool
) -> tuple[MissingStatistic, ...]:
    """Return the statistics that the metric of a node lacks.

    Args:
        usage: of the node.
        filtered: the filter is enabled.
        scored: the score is.
    """
    vectors = usage.vectors
    if vectors is None or vectors.node is None:
        return ()
    args, profile = usage.estimator.args, usage.profile
    needed: list[tuple[str | None, int, int]] = []
    if filtered and profile.most is not None:
        of_prod_too = profile.most_prod is None or args.check_both
        pods = JUDGED | (JUDGED_PROD if of_prod_too else 0)
        needed.append((profile.aggregation, profile.aggregated_ms, pods))
    if scored and args.aggregated is not None:
        pods = JUDGED | DAEMONS
        if not args.score_according_prod_usage:
            pods |= JUDGED_PROD | DAEMONS_PROD
        aggregated = args.aggregated
        aggregation = aggregated.score_aggregation_type or None
        needed.append((aggregation, aggregated.score_aggregated_duration_ms, pods))
    missing: dict[tuple[str, int], int] = {}
    for kind, duration_ms, pods in needed:
        if kind is not None and vectors.usage(kind, duration_ms) is None:
            missing[kind, duration_ms] = missing.get((kind, duration_ms), 0) | pods
    return tuple([MissingStatistic(*statistic, pods) for statistic, pods in missing.items()])
