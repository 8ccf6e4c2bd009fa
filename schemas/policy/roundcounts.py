"""Arguments of the counting of hot rounds that change nothing beside the others.

A count is never forgotten before two intervals between rounds have passed; with
`compat: koordinator` one calm round is the most that is ever counted (docs/upstream.md X12), and a
node that acts in its first hot round has no count.
"""

from collections.abc import Iterator

from schemas.policy.contradictions import Found
from schemas.policy.document import Policy
from schemas.policy.durations import format_duration_ms
from schemas.policy.errors import Path
from schemas.policy.lownodeload import AnomalyCondition

_TIMEOUT_OF_COUNTS: Path = ("rebalance", "detectorCacheTimeout")
_AT_ONCE = "consecutiveAbnormalities is 1: nodes act in their first hot round"


def unused_counts(policy: Policy) -> Iterator[Found]:
    """Each field of the top level or of a pool, with the reason."""
    at_once = [each.consecutive_abnormalities == 1 for _, each in _given(policy)]
    if all(at_once):
        yield _TIMEOUT_OF_COUNTS, _AT_ONCE
    if policy.compat == "loadstream":
        yield from _not_before_two_intervals(policy)
        return
    for path, condition in _given(policy):
        if condition.consecutive_abnormalities == 1:
            yield (*path, "timeout"), _AT_ONCE
        # A node of both kinds of pools may be calm twice in the count of one.
        if all(at_once) or not any(at_once):
            why = _AT_ONCE if all(at_once) else "compat: koordinator counts one calm round at most"
            yield (*path, "consecutiveNormalities"), why


def _not_before_two_intervals(policy: Policy) -> Iterator[Found]:
    least_ms = 2 * policy.descheduling.descheduling_interval_ms
    why = (
        f"nothing is forgotten before two intervals between rounds, {format_duration_ms(least_ms)}"
    )
    if policy.rebalance.detector_cache_timeout_ms <= least_ms:
        yield _TIMEOUT_OF_COUNTS, why
    for path, condition in _given(policy):
        if condition.timeout_ms <= least_ms:
            yield (*path, "timeout"), why


def _given(policy: Policy) -> Iterator[tuple[Path, AnomalyCondition]]:
    """Paths of the top level's condition and of pools' own, and what holds by each."""
    args = policy.rebalance
    top = args.anomaly_condition or AnomalyCondition()
    yield ("rebalance", "anomalyCondition"), top
    for index, pool in enumerate(args.node_pools):
        own = args.inherited_by(pool).anomaly_condition
        if pool.anomaly_condition is not None and own is not None:
            yield ("rebalance", "nodePools", index, "anomalyCondition"), own
