"""Values of a policy that are well-formed each, and mean nothing beside the others: refused."""

from collections.abc import Iterator

from schemas.policy.document import Policy
from schemas.policy.errors import Path
from schemas.policy.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK, RESOURCES_FIT
from schemas.policy.resourcesfit import LEAST_ALLOCATED

#: Path and reason.
Found = tuple[Path, str]


def contradictions(policy: Policy) -> Iterator[Found]:
    """Each with what was found and what is allowed."""
    by_risk = policy.plugins.balances(OVERUTILIZATION_RISK)
    if by_risk and policy.compat == "koordinator":
        message = (
            f'found "{OVERUTILIZATION_RISK}", while compat is koordinator, which has no such strategy; '
            f'allowed is "{LOW_NODE_LOAD}"'
        )
        yield ("plugins", "balance"), message
    elif by_risk and OVERUTILIZATION_RISK in (pool.name for pool in policy.rebalance.node_pools):
        message = f'found a pool "{OVERUTILIZATION_RISK}", which is the name of a strategy of plugins.balance'
        yield ("rebalance", "nodePools"), message
    if policy.compat == "koordinator" and policy.load_aware.by_fleet:
        message = (
            f'found "{policy.load_aware.estimate_by}", while compat is koordinator, which estimates '
            'by requests alone; allowed is "requests"'
        )
        yield ("loadAware", "estimateBy"), message
    limiter = policy.migration.object_limiters.get("namespace")
    if (
        policy.compat == "loadstream"
        and limiter is not None
        and isinstance(limiter.max_migrating, str)
    ):
        message = (
            f'found "{limiter.max_migrating}"; a namespace has no number of replicas to take a share of; '
            "allowed is an integer from 0"
        )
        yield ("migration", "objectLimiters", "namespace", "maxMigrating"), message
    yield from _of_delete_options(policy)
    strategy = policy.resources_fit.scoring_strategy.type
    scored = policy.plugins.scores(RESOURCES_FIT)
    if scored and strategy != LEAST_ALLOCATED:
        message = (
            f'found "{strategy}", while plugins.score enables {RESOURCES_FIT}; '
            f'allowed is "{LEAST_ALLOCATED}"'
        )
        yield ("resourcesFit", "scoringStrategy", "type"), message


def _of_delete_options(policy: Policy) -> Iterator[Found]:
    """Options with which Kubernetes refuses every eviction and every deletion."""
    options, here = policy.migration.default_delete_options, ("migration", "defaultDeleteOptions")
    if options is None:
        return
    if options.propagation_policy is not None and options.orphan_dependents is not None:
        message = (
            "found beside propagationPolicy, which says the same in the newer form; Kubernetes refuses "
            "both at once; allowed is one of them"
        )
        yield (*here, "orphanDependents"), message
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        # A command always names the pod's uid, and that is a precondition.
        message = (
            "found true, which Kubernetes allows for no eviction, and for no deletion that names the "
            "pod's uid, as every command does; allowed is false"
        )
        yield (*here, "ignoreStoreReadErrorWithClusterBreakingPotential"), message
