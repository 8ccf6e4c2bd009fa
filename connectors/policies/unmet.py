"""What a policy needs of a cluster and does not find: its schedulers, labels, priority classes.

Until it is there the pods concerned stay, and every round says so; the command that checks or
applies the policy warns at once.
"""

from collections import Counter
from collections.abc import Iterator

from connectors.kafka.backwards import Looked, Past
from connectors.kafka.client import Connection
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.pods import PodLifecycle
from schemas.policy import Policy
from schemas.policy.sections.migration import BUILT_IN_CLASSES
from schemas.policy.sections.plugins import LOW_NODE_LOAD, OVERUTILIZATION_RISK

#: Records of `pod-lifecycle` that are looked at, newest first.
RECORDS_MAX = 20_000
#: Schedulers that a warning names.
_NAMED_MAX = 5
#: What Kubernetes takes if a pod names none.
_DEFAULT = "default-scheduler"


def unmet(connection: Connection, cluster: str, policy: Policy) -> Iterator[str]:
    """A warning for everything that the policy needs and the newest records lack.

    Raises BrokerUnavailable.
    """
    schedulers: dict[str, str | None] = {}
    classes: dict[str, bool] = {}
    namespaces: dict[str, bool] = {}
    looked = Looked()
    for message in Past(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest(looked):
        if isinstance(message, PodLifecycle):
            gone = message.event in ("finished", "deleted")
            named = None if gone else message.pod.scheduler or _DEFAULT
            schedulers.setdefault(message.pod.uid, named)
        elif isinstance(message, NamespaceState):
            namespaces.setdefault(message.name, not message.removed)
        elif isinstance(message, PriorityClassState):
            classes.setdefault(message.name, not message.removed)
    yield from _schedulers(policy, Counter(each for each in schedulers.values() if each))
    where, unless = "on pod-lifecycle", ""
    if not looked.whole:
        where = f"among the newest {looked.records} on pod-lifecycle"
        unless = "unless sent before these, "
    selector = policy.evictor.namespace_label_selector
    by_labels = selector is not None and (selector.match_labels or selector.match_expressions)
    if by_labels and not any(namespaces.values()):
        yield (
            f"evictor.namespaceLabelSelector needs labels of namespaces, and no record of kind "
            f"namespace {where} names any: {unless}no pod is evicted until they are sent"
        )
    for section, name in _classes(policy):
        if not classes.get(name):
            yield (
                f"{section}.priorityThreshold names class {name}, and no record of kind priority-class "
                f"{where} names it as one that is there: {unless}no pod is evicted until it is sent; "
                "or give value instead"
            )


def _schedulers(policy: Policy, found: Counter[str]) -> Iterator[str]:
    """That rebalancing leaves all pods alone for their scheduler."""
    names = policy.migration.scheduler_names
    by_thresholds = policy.plugins.balances(LOW_NODE_LOAD) and any(
        pool.high_thresholds or pool.prod_high_thresholds
        for pool in policy.rebalance.pools(policy.compat)
    )
    rebalances = by_thresholds or policy.plugins.balances(OVERUTILIZATION_RISK)
    direct = (
        policy.other_schedulers == "evictDirectly"
        or policy.migration.default_job_mode == "EvictDirectly"
    )
    if rebalances and not direct and found and not any(name in found for name in names):
        theirs = ", ".join(f"{name} ({count})" for name, count in found.most_common(_NAMED_MAX))
        yield (
            f"none of {found.total()} pods is of a scheduler of migration.schedulerNames "
            f"({', '.join(names)}); theirs: {theirs}. Rebalancing leaves all of them alone but those that "
            "loadstream placed: name their scheduler, or set otherSchedulers: evictDirectly"
        )


def _classes(policy: Policy) -> Iterator[tuple[str, str]]:
    """Sections that name a priority class whose value the cluster must send, and the class.

    None where no threshold holds.
    """
    args = policy.migration
    critical = "SystemCriticalPods" in policy.evictor.protections
    if args.evict_system_critical_pods or not critical:
        return
    if "PriorityThreshold" in args.skip_eviction_gates:
        return
    sections = [("evictor", policy.evictor.priority_threshold)]
    if policy.compat == "loadstream":
        sections.append(("migration", policy.migration.priority_threshold))
    for section, threshold in sections:
        if threshold is not None and threshold.name and threshold.name not in BUILT_IN_CLASSES:
            yield section, threshold.name
