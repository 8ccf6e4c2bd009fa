"""Values of a policy that others leave nothing to say: the top level of `rebalance` where pools
take all nodes, a weight without a threshold, a window that is open only while an earlier one is, an
entry that gives nothing.

Part of what `effects` lists.
"""

from collections.abc import Iterator

from schemas.policy.contradictions import Found
from schemas.policy.document import Policy
from schemas.policy.lownodeload import (
    DEFAULT_POOL,
    THRESHOLD_MAPS,
    NodePool,
    PoolThresholds,
)
from schemas.policy.selectors import LabelSelector
from schemas.policy.windows import shadowed


def outweighed(policy: Policy) -> Iterator[Found]:
    """Path and reason of each."""
    if policy.judges_by_thresholds and policy.compat == "loadstream":
        yield from _top_level(policy)
        yield from _weights(policy)
    yield from _windows(policy)
    yield from _entries(policy)


def _judges(pool: PoolThresholds) -> bool:
    return bool(pool.high_thresholds or pool.prod_high_thresholds)


def _takes_rest(policy: Policy) -> bool:
    """Whether the last pool leaves no node to the top level's."""
    pools = policy.rebalance.node_pools
    return bool(pools) and pools[-1].node_selector in (None, LabelSelector())


def _top_level(policy: Policy) -> Iterator[Found]:
    """What the top level gives to its own pool alone, where that judges no node."""
    args = policy.rebalance
    takes_rest = _takes_rest(policy)
    if not takes_rest and _judges(args):
        return
    why = "the pool of the top level has no high thresholds"
    if takes_rest:
        why = f"{args.node_pools[-1].name!r} takes all nodes that other pools leave"
    windows = any(pool.name == DEFAULT_POOL for pool in policy.maintenance.pools)
    if takes_rest or not windows:
        yield ("rebalance", "nodeSelector"), why
    yield ("rebalance", "useDeviationThresholds"), why
    why += ", and no pool inherits it"
    for field in (*THRESHOLD_MAPS, "resource_weights"):
        if all(getattr(pool, field) is not None for pool in args.node_pools):
            yield ("rebalance", PoolThresholds.model_fields[field].alias or field), why
    if not any(_inherits_condition(pool) for pool in args.node_pools):
        yield ("rebalance", "anomalyCondition"), why


def _inherits_condition(pool: NodePool) -> bool:
    own = pool.anomaly_condition
    return own is None or not (own.consecutive_abnormalities and own.consecutive_normalities)


def _weights(policy: Policy) -> Iterator[Found]:
    """Weights of resources by which no node is judged."""
    args = policy.rebalance
    why = "it has no threshold, so that neither nodes nor pods are ordered by it"
    inherited = set() if _takes_rest(policy) else _resources(args)
    for index, pool in enumerate(args.node_pools):
        named = _resources(args.inherited_by(pool))
        if pool.resource_weights is None:
            inherited |= named
        else:
            for resource in sorted(pool.resource_weights.keys() - named):
                yield ("rebalance", "nodePools", index, "resourceWeights", resource), why
    for resource in sorted((args.resource_weights or {}).keys() - inherited):
        yield ("rebalance", "resourceWeights", resource), why


def _resources(pool: PoolThresholds) -> set[str]:
    return {name for field in THRESHOLD_MAPS for name in getattr(pool, field) or {}}


def _windows(policy: Policy) -> Iterator[Found]:
    """Windows of which an earlier one always holds in their place."""
    moving = policy.moving_thresholds
    why = "an earlier window is open whenever this one is, and the first that is open holds"
    if moving.filter is not None:
        for index in shadowed(moving.filter.windows):
            yield ("movingThresholds", "filter", "windows", index), why
    for number, entry in enumerate(moving.hotspots):
        for index in shadowed(entry.windows):
            yield ("movingThresholds", "hotspots", number, "windows", index), why


def _entries(policy: Policy) -> Iterator[Found]:
    """Entries that give nothing, or are of no pool."""
    for index, pool in enumerate(policy.collect.pools):
        given = pool.model_dump(exclude_none=True, by_alias=False)
        if not given.keys() - {"name"}:
            yield ("collect", "pools", index), "it gives nothing that the pool does not inherit"
    maintenance = policy.maintenance
    lists = {
        "pools": [each.windows for each in maintenance.pools],
        "namespaces": [each.windows for each in maintenance.namespaces],
    }
    for alias, entries in lists.items():
        for index, windows in enumerate(entries):
            if not windows:
                yield ("maintenance", alias, index), "it names no window, so it is always open"
    moving = policy.moving_thresholds
    if moving.filter is not None and not moving.filter.windows and not moving.filter.recent_past:
        yield ("movingThresholds", "filter"), "it gives neither windows nor recentPast"
    named = {entry.pool for entry in moving.hotspots}
    unnamed = {pool.name for pool in policy.rebalance.pools(policy.compat)} - named
    for index, hotspots in enumerate(moving.hotspots):
        if not hotspots.pool and not unnamed:
            why = "every pool has an entry of its own"
        elif (
            not hotspots.windows
            and not hotspots.recent_past
            and not (hotspots.pool and "" in named)
        ):
            # An empty entry keeps the one of all pools from its own.
            why = "it gives neither windows nor recentPast"
        else:
            continue
        yield ("movingThresholds", "hotspots", index), why
