"""Warnings about requirements of a policy that its cluster does not meet: schedulers, namespaces, priority
classes, disruption budgets that allow evictions, an evictor.

Pods stay on their nodes until the requirements are met.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from connectors.kafka.admin import read_groups
from connectors.kafka.client import Connection
from connectors.kafka.cluster_records import PastMessages, SearchProgress
from connectors.units import count_text, names_text
from schemas.messages.commands import CommandOutcome
from schemas.messages.objects import DisruptionBudget, NamespaceState, PriorityClassState
from schemas.messages.pods import PodLifecycle
from schemas.policy import Policy
from schemas.policy.sections.migration import BUILT_IN_CLASSES, DEFAULT_SCHEDULERS
from schemas.policy.sections.plugins import OVERUTILIZATION_RISK
from schemas.settings.connection import name_duty_group

#: Records of `pod-lifecycle` that are read, newest first.
RECORDS_MAX = 20_000
#: Records of `command-outcomes` that are searched for an outcome of an evictor.
OUTCOMES_MAX = 5_000
#: Schedulers, namespaces or budgets that a warning names.
_NAMED_MAX = 5
#: Events of pods that exist no more.
_ENDED = ("finished", "deleted")
#: Scheduler of a pod without `schedulerName`.
_DEFAULT = "default-scheduler"


def find_unmet_requirements(connection: Connection, cluster: str, policy: Policy) -> Iterator[str]:
    """Yield a warning for each requirement that the newest records do not meet. Raises BrokerUnavailable."""
    progress = SearchProgress()
    objects = PastMessages(connection, "pod-lifecycle", cluster, RECORDS_MAX).newest(progress)
    needs_evictor = not policy.is_dry_for("request") and not _has_evictor(connection, cluster)
    yield from list_unmet_requirements(policy, objects, progress, needs_evictor=needs_evictor)


def _has_evictor(connection: Connection, cluster: str) -> bool:
    """Tell whether an evictor runs, or has reported an outcome if the broker does not list members."""
    (group,) = read_groups(connection, [name_duty_group("evict", cluster)]).values()
    if group.members is not None:
        return bool(group.members)
    past = PastMessages(connection, "command-outcomes", cluster, OUTCOMES_MAX)
    outcomes = (record for record in past.newest() if isinstance(record, CommandOutcome))
    return any(outcome.command == "evict" for outcome in outcomes)


def list_unmet_requirements(
    policy: Policy, objects: Iterable[Any], progress: SearchProgress, *, needs_evictor: bool = False
) -> Iterator[str]:
    """See `find_unmet_requirements`. Objects are newest first; `progress` is that of reading them."""
    newest: dict[tuple[type[Any], str], Any] = {}
    for message in objects:
        if isinstance(message, PodLifecycle):
            newest.setdefault((PodLifecycle, message.pod.uid), message)
        elif isinstance(message, NamespaceState | PriorityClassState):
            newest.setdefault((type(message), message.name), message)
        elif isinstance(message, DisruptionBudget):
            newest.setdefault((DisruptionBudget, f"{message.namespace}/{message.name}"), message)
    existing: dict[type[Any], dict[str, Any]] = defaultdict(dict)
    for (kind, name), message in newest.items():
        has_ended = message.event in _ENDED if kind is PodLifecycle else message.removed
        if not has_ended:
            existing[kind][name] = message
    pods, budgets = existing[PodLifecycle].values(), existing[DisruptionBudget]
    namespaces, classes = existing[NamespaceState], existing[PriorityClassState]
    yield from _check_schedulers(policy, Counter(pod.pod.scheduler or _DEFAULT for pod in pods))
    yield from _check_namespaces(policy, list(namespaces))
    blocking = [name for name, budget in budgets.items() if _never_allows(budget)]
    yield from _check_budgets(policy, sorted(blocking))
    if needs_evictor:
        yield (
            "mode is enforce, but no evictor is known to run: pods are evicted only while `loadstream "
            "kubernetes evict` runs"
        )
    where, unless = "on pod-lifecycle", ""
    if not progress.whole:
        where = f"among the newest {progress.records} on pod-lifecycle"
        unless = "unless sent before these, "
    selector = policy.evictor.namespace_label_selector
    by_labels = selector is not None and (selector.match_labels or selector.match_expressions)
    if by_labels and not namespaces:
        yield (
            f"evictor.namespaceLabelSelector needs labels of namespaces, and there is no record of kind "
            f"namespace {where}: {unless}no pod is evicted until they are sent"
        )
    for section, name in _list_required_classes(policy):
        if name not in classes:
            yield (
                f"{section}.priorityThreshold names class {name}, and no record of kind priority-class "
                f"{where} says that it exists: {unless}no pod is evicted until it is sent; "
                "or give value instead"
            )


def _rebalances(policy: Policy) -> bool:
    return policy.judges_by_thresholds or policy.plugins.balances(OVERUTILIZATION_RISK)


def _never_allows(budget: DisruptionBudget) -> bool:
    return budget.desired_healthy >= budget.expected_pods > 0


def _check_namespaces(policy: Policy, existing: list[str]) -> Iterator[str]:
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
    names = [namespace.name for namespace in policy.maintenance.namespaces]
    lists.append(("maintenance.namespaces", names))
    for where, names in lists:
        missing = [name for name in names if name not in existing]
        if existing and missing:
            yield f"{where} names {names_text(missing, _NAMED_MAX)}, and the cluster has no namespace of that name"


def _check_budgets(policy: Policy, blocking: list[str]) -> Iterator[str]:
    if blocking and _rebalances(policy):
        yield (
            f"evictions are forbidden by {count_text(len(blocking), 'disruption budget')}, because all pods "
            f"must be healthy: {names_text(blocking, _NAMED_MAX)}; pods that they cover stay on hot nodes"
        )


def _check_schedulers(policy: Policy, counts: Counter[str]) -> Iterator[str]:
    """Yield a warning if rebalancing ignores all pods, or if no pod has one of the named schedulers."""
    names = policy.migration.scheduler_names
    rebalances = _rebalances(policy)
    direct = (
        policy.other_schedulers == "evictDirectly"
        or policy.migration.default_job_mode == "EvictDirectly"
    )
    if rebalances and not direct and counts and not any(name in counts for name in names):
        theirs = ", ".join(f"{name} ({count})" for name, count in counts.most_common(_NAMED_MAX))
        yield (
            f"none of {counts.total()} pods has a scheduler of migration.schedulerNames "
            f"({', '.join(names)}); their schedulers: {theirs}. Rebalancing moves only those that "
            "loadstream placed: name their scheduler, or set otherSchedulers: evictDirectly"
        )
        return
    unseen = [name for name in names if name not in counts]
    if counts and unseen and names != DEFAULT_SCHEDULERS:
        yield f"migration.schedulerNames names {names_text(unseen, _NAMED_MAX)}, and no pod has this scheduler"


def _list_required_classes(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each priority class that the cluster must report, with the section that names it."""
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
