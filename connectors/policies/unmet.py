"""Warnings about requirements of a policy that its cluster does not meet: schedulers, namespaces, priority
classes, disruption budgets that allow evictions, an evictor.

Until they are met, the pods concerned stay on their nodes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.units import count_text, names_text
from schemas.messages.commands import CommandOutcome
from schemas.messages.objects import DisruptionBudget, NamespaceState, PriorityClassState
from schemas.messages.pods import PodLifecycle
from schemas.policy import Policy
from schemas.policy.sections.migration import BUILT_IN_CLASSES, DEFAULT_SCHEDULERS
from schemas.policy.sections.plugins import OVERUTILIZATION_RISK

#: Records of `pod-lifecycle` that are read, newest first.
RECORDS_MAX = 20_000
#: Records of `command-outcomes` among which an outcome of an evictor is searched.
OUTCOMES_MAX = 5_000
#: Schedulers, namespaces or budgets that a warning names.
_NAMED_MAX = 5
#: Scheduler of a pod that names none.
_DEFAULT = "default-scheduler"


def find_unmet_requirements(connection: Connection, cluster: str, policy: Policy) -> Iterator[str]:
    """Yield a warning for each requirement that the newest records do not meet. Raises BrokerUnavailable."""
    looked = SearchProgress()
    objects = PastMessages(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest(looked)
    outcomes = PastMessages(connection, "command-outcomes", cluster, OUTCOMES_MAX)
    yield from list_unmet_requirements(policy, objects, outcomes.newest(), looked)


def list_unmet_requirements(
    policy: Policy, objects: Iterable[Any], outcomes: Iterable[Any], looked: SearchProgress
) -> Iterator[str]:
    """See `find_unmet_requirements`. Messages are newest first; `looked` is the search of `objects`."""
    schedulers: dict[str, str | None] = {}
    classes: dict[str, bool] = {}
    namespaces: dict[str, bool] = {}
    budgets: dict[str, bool] = {}
    for message in objects:
        if isinstance(message, PodLifecycle):
            gone = message.event in ("finished", "deleted")
            named = None if gone else message.pod.scheduler or _DEFAULT
            schedulers.setdefault(message.pod.uid, named)
        elif isinstance(message, NamespaceState):
            namespaces.setdefault(message.name, not message.removed)
        elif isinstance(message, PriorityClassState):
            classes.setdefault(message.name, not message.removed)
        elif isinstance(message, DisruptionBudget):
            name = f"{message.namespace}/{message.name}"
            budgets.setdefault(name, not message.removed and _never_allows(message))
    yield from _schedulers(policy, Counter(each for each in schedulers.values() if each))
    yield from _namespaces(policy, [name for name, is_there in namespaces.items() if is_there])
    yield from _budgets(policy, sorted(name for name, blocks in budgets.items() if blocks))
    yield from _evictor(policy, outcomes)
    where, unless = "on pod-lifecycle", ""
    if not looked.whole:
        where = f"among the newest {looked.records} on pod-lifecycle"
        unless = "unless sent before these, "
    selector = policy.evictor.namespace_label_selector
    by_labels = selector is not None and (selector.match_labels or selector.match_expressions)
    if by_labels and not any(namespaces.values()):
        yield (
            f"evictor.namespaceLabelSelector needs labels of namespaces, and there is no record of kind "
            f"namespace {where}: {unless}no pod is evicted until they are sent"
        )
    for section, name in _classes(policy):
        if not classes.get(name):
            yield (
                f"{section}.priorityThreshold names class {name}, and no record of kind priority-class "
                f"{where} says that it exists: {unless}no pod is evicted until it is sent; "
                "or give value instead"
            )


def _rebalances(policy: Policy) -> bool:
    return policy.judges_by_thresholds or policy.plugins.balances(OVERUTILIZATION_RISK)


def _never_allows(budget: DisruptionBudget) -> bool:
    return budget.desired_healthy >= budget.expected_pods > 0


def _namespaces(policy: Policy, there: list[str]) -> Iterator[str]:
    """Yield unknown namespaces, unless the cluster has reported no namespace at all."""
    lists = [
        (f"{section}.{field}", getattr(names, field))
        for section, names in (
            ("rebalance.evictableNamespaces", policy.rebalance.evictable_namespaces),
            ("migration.namespaces", policy.migration.namespaces),
        )
        if names is not None
        for field in ("include", "exclude")
    ]
    lists.append(("maintenance.namespaces", [each.name for each in policy.maintenance.namespaces]))
    for where, names in lists:
        missing = [name for name in names if name not in there]
        if there and missing:
            yield f"{where} names {names_text(missing, _NAMED_MAX)}, and the cluster has no namespace of that name"


def _budgets(policy: Policy, blocking: list[str]) -> Iterator[str]:
    if blocking and _rebalances(policy):
        yield (
            f"evictions are forbidden by {count_text(len(blocking), 'disruption budget')}, because all pods "
            f"must be healthy: {names_text(blocking, _NAMED_MAX)}; pods that they cover stay on hot nodes"
        )


def _evictor(policy: Policy, outcomes: Iterable[Any]) -> Iterator[str]:
    """Yield a warning if no evictor seems to run; an evictor also reports on dry commands."""
    if policy.is_dry_for("request"):
        return
    if not any(isinstance(each, CommandOutcome) and each.command == "evict" for each in outcomes):
        yield (
            "mode is enforce, but no evictor has reported on a command so far: pods are evicted only "
            "while `loadstream kubernetes evict` runs"
        )


def _schedulers(policy: Policy, found: Counter[str]) -> Iterator[str]:
    """Yield a warning if rebalancing ignores all pods, or if no pod has one of the named schedulers."""
    names = policy.migration.scheduler_names
    rebalances = _rebalances(policy)
    direct = (
        policy.other_schedulers == "evictDirectly"
        or policy.migration.default_job_mode == "EvictDirectly"
    )
    if rebalances and not direct and found and not any(name in found for name in names):
        theirs = ", ".join(f"{name} ({count})" for name, count in found.most_common(_NAMED_MAX))
        yield (
            f"none of {found.total()} pods has a scheduler of migration.schedulerNames "
            f"({', '.join(names)}); their schedulers: {theirs}. Rebalancing moves only those that "
            "loadstream placed: name their scheduler, or set otherSchedulers: evictDirectly"
        )
        return
    unseen = [name for name in names if name not in found]
    if found and unseen and names != DEFAULT_SCHEDULERS:
        yield f"migration.schedulerNames names {names_text(unseen, _NAMED_MAX)}, and no pod has this scheduler"


def _classes(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each section with a priority class whose value the cluster must report, and the class."""
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
