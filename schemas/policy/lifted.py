"""Checks, shares and limits of evictions that change nothing: a gate lifts them, another field
takes their place, or they are off.

Part of what `effects` lists.
"""

from collections.abc import Iterator

from schemas.policy.contradictions import Found
from schemas.policy.document import Policy
from schemas.policy.errors import Path
from schemas.policy.gates import EvictionGate
from schemas.policy.selectors import LabelSelector, Namespaces

#: What a gate lifts whole, by its name.
_LIFTED: dict[EvictionGate, tuple[Path, ...]] = {
    "Namespaces": (("migration", "namespaces"),),
    "LabelSelector": (("migration", "labelSelector"), ("evictor", "labelSelector")),
    "NodeSelector": (("migration", "nodeSelector"), ("evictor", "nodeSelector")),
    "NodeFit": (("migration", "nodeFit"), ("evictor", "nodeFit")),
    "BarePods": (
        ("migration", "evictFailedBarePods"),
        ("migration", "evictAllBarePods"),
        ("evictor", "evictFailedBarePods"),
    ),
    "LocalStoragePods": (
        ("migration", "evictLocalStoragePods"),
        ("evictor", "evictLocalStoragePods"),
    ),
    "PVCPods": (
        ("migration", "ignorePvcPods"),
        ("evictor", "ignorePvcPods"),
        ("evictor", "podProtections", "config"),
    ),
    "PriorityThreshold": (("migration", "priorityThreshold"), ("evictor", "priorityThreshold")),
    "ExpectedReplicas": (("migration", "skipCheckExpectedReplicas"),),
    "MaxMigratingGlobally": (("migration", "maxMigratingGlobally"),),
    "MaxMigratingPerNode": (("migration", "maxMigratingPerNode"),),
    "MaxMigratingPerNamespace": (("migration", "maxMigratingPerNamespace"),),
}


def lifted(policy: Policy) -> Iterator[Found]:
    """Path and reason of each."""
    yield from _of_checks(policy)
    yield from _of_limiters(policy)


def _of_checks(policy: Policy) -> Iterator[Found]:
    """Checks of a pod before its eviction."""
    args, evictor = policy.migration, policy.evictor
    for gate in args.skip_eviction_gates:
        for path in _LIFTED.get(gate, ()):
            yield path, f"skipEvictionGates lifts it ({gate})"
    thresholds = ("migration", args.priority_threshold), ("evictor", evictor.priority_threshold)
    for whose, threshold in thresholds:
        path = (whose, "priorityThreshold")
        if args.evict_system_critical_pods or "SystemCriticalPods" not in evictor.protections:
            yield path, "no threshold holds where system critical pods may be evicted"
        elif threshold is not None and threshold.value is None and not threshold.name:
            yield path, "gives neither value nor name"
        elif whose == "migration" and policy.compat == "koordinator":
            yield (*path, "name"), "compat: koordinator passes over a name, as upstream"
    if args.default_job_mode == "EvictDirectly":
        why = (
            "migration.defaultJobMode is EvictDirectly; only migrations asked for as ReservationFirst "
            "go by it"
        )
        yield ("otherSchedulers",), why
        yield ("migration", "schedulerNames"), why
    yield from _of_empty_choices(policy)
    yield from _of_lifted_protections(policy)
    yield from _of_failed_pods(policy)
    yield from _of_lifted_shares(policy)
    if evictor.min_replicas <= 1:
        yield ("evictor", "minReplicas"), "it is off: no workload has fewer than 1 replica"
    if "PodsWithPVC" not in evictor.protections:
        why = "podProtections.extraEnabled does not name PodsWithPVC"
        yield ("evictor", "podProtections", "config", "PodsWithPVC"), why
    elif args.ignore_pvc_pods or evictor.ignore_pvc_pods:
        why = "ignorePvcPods protects pods with any claim"
        yield ("evictor", "podProtections", "config", "PodsWithPVC"), why
    if evictor.no_eviction_policy == "Preferred" and policy.compat == "koordinator":
        why = "compat: koordinator orders pods as Koordinator does"
        yield ("evictor", "noEvictionPolicy"), why


def _of_empty_choices(policy: Policy) -> Iterator[Found]:
    """Selectors and lists of namespaces that leave no pod out."""
    args, evictor, rebalance = policy.migration, policy.evictor, policy.rebalance
    for path, selector in (
        (("migration", "labelSelector"), args.label_selector),
        (("evictor", "labelSelector"), evictor.label_selector),
        (("evictor", "namespaceLabelSelector"), evictor.namespace_label_selector),
    ):
        if selector == LabelSelector():
            yield path, "it asks for no label, so it leaves no pod out"
    for path, namespaces in (
        (("migration", "namespaces"), args.namespaces),
        (("rebalance", "evictableNamespaces"), rebalance.evictable_namespaces),
    ):
        if namespaces == Namespaces():
            yield path, "it names no namespace, so it leaves no pod out"


def _of_lifted_protections(policy: Policy) -> Iterator[Found]:
    """Entries of `podProtections` that a gate makes void."""
    lists, gates = policy.evictor.pod_protections, policy.migration.skip_eviction_gates
    for gate, name, alias, listed in (
        ("PVCPods", "PodsWithPVC", "extraEnabled", lists.extra_enabled),
        ("LocalStoragePods", "PodsWithLocalStorage", "defaultDisabled", lists.default_disabled),
    ):
        for index, each in enumerate(listed):
            if gate in gates and each == name:
                why = f"skipEvictionGates lifts it ({gate})"
                yield ("evictor", "podProtections", alias, index), why


def _of_failed_pods(policy: Policy) -> Iterator[Found]:
    """What allows their eviction: they use nothing, so they are not kept."""
    why = "a pod that has failed runs no more, so there is none to evict"
    yield ("migration", "evictFailedBarePods"), why
    yield ("evictor", "evictFailedBarePods"), why
    for index, name in enumerate(policy.evictor.pod_protections.default_disabled):
        if name == "FailedBarePods":
            yield ("evictor", "podProtections", "defaultDisabled", index), why


def _of_lifted_shares(policy: Policy) -> Iterator[Found]:
    """Shares of workloads, which limit what moves at once and say which workloads are too small."""
    args = policy.migration
    gates = {"ExpectedReplicas"} if args.skip_check_expected_replicas else set()
    gates.update(args.skip_eviction_gates)
    if "ExpectedReplicas" not in gates:
        return
    why = "lifted by skipEvictionGates, and workloads of any size may move"
    if "MaxUnavailablePerWorkload" in gates:
        yield ("migration", "maxUnavailablePerWorkload"), why
    limiter = args.object_limiters.get("workload")
    goes_by_it = limiter is not None and limiter.duration_ms and limiter.max_migrating is None
    if "MaxMigratingPerWorkload" in gates and not goes_by_it:
        why += ", and no limiter goes by it"
        yield ("migration", "maxMigratingPerWorkload"), why


def _of_limiters(policy: Policy) -> Iterator[Found]:
    """Limits and rates that are off."""
    migration = policy.migration
    for alias, most in (
        ("maxMigratingGlobally", migration.max_migrating_globally),
        ("maxMigratingPerNamespace", migration.max_migrating_per_namespace),
    ):
        if most == 0:
            yield ("migration", alias), "0 is off, as it is by default"
    for scope, limiter in policy.migration.object_limiters.items():
        here: Path = ("migration", "objectLimiters", scope)
        if not limiter.duration_ms:
            for field in ("maxMigrating", "burst"):
                yield (*here, field), "the limiter is off: its duration is 0"
        elif scope == "namespace" and not limiter.max_migrating:
            yield here, "the limiter is off: maxMigrating is not above 0"
        elif scope == "namespace" and isinstance(limiter.max_migrating, str):
            yield here, "compat: koordinator takes a percentage for 0, which is off, as upstream"
