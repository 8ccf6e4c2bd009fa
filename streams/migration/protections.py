"""Which pods may never be evicted, by the policy and the pod itself.

Arguments of MigrationController and DefaultEvictor are combined: a protection is lifted if one of the two
lifts it, and a pod is protected if one of the two protects it. The annotation
`descheduler.alpha.kubernetes.io/evict` lifts all protections, except for pods that are not bound or are
terminating. Source: docs/reference/upstream.md M11, M13, M14, M15.

Annotations of other programs, such as Karpenter's do-not-disrupt, and the evict annotation with value false
protect a pod too. With `compat: koordinator` these annotations do not protect a pod, and any value of the
evict annotation lifts the protections.

The result depends only on the pod, the policy, namespaces and priority classes, so it is cached until one
of them changes. Gates that depend on time, node or workload are in `checks`. If the policy needs labels or
values that the cluster has not sent, the pod is protected, and the reason says what is missing.
"""

from schemas.messages.pods import Pod
from schemas.policy import Policy
from schemas.policy.sections.migration import BUILT_IN_CLASSES, PriorityThreshold
from streams.migration.limits.objects import NamespaceRows, PriorityClasses
from streams.pods.held_pod import HeldPod
from streams.rebalance.eviction_keys import (
    EVICTION_COST_ANNOTATION,
    NO_EVICTION_ANNOTATION,
    parse_cost,
)

EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"
#: Karpenter's annotation, and its name before version 0.33.
DO_NOT_DISRUPT_ANNOTATIONS = ("karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict")
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"

#: Pods of this priority and above belong to the system.
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
#: An eviction cost that means never.
NEVER_COST = 2**31 - 1
#: Most cached results.
CACHED_MAX = 200_000


class Protections:
    def __init__(self, policy: Policy, namespaces: NamespaceRows, classes: PriorityClasses) -> None:
        self._cache: dict[str, tuple[Pod, str | None]] = {}
        self._namespaces, self._classes = namespaces, classes
        self._versions = (0, 0)
        """Versions of namespaces and priority classes on which the cached results depend."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        self._cache.clear()
        self.policy = policy
        self._follows_koordinator = policy.follows_koordinator
        self._skipped = frozenset(policy.migration.skip_eviction_gates)
        self._protections = frozenset(policy.evictor.protections)
        config = policy.evictor.pod_protections.config
        claims = None if config is None else config.pods_with_pvc
        classes = () if claims is None else claims.protected_storage_classes
        self._storage_classes = frozenset(storage_class.name for storage_class in classes)

    def explain(self, held: HeldPod) -> str | None:
        """Return why a pod may never be evicted; None if it may be."""
        pod = held.pod
        versions = self._namespaces.version, self._classes.version
        if versions != self._versions:
            self._versions = versions
            self._cache.clear()
        cached = self._cache.get(pod.uid)
        if cached is not None and cached[0] is pod:
            return cached[1]
        reason = self.explain_uncached(pod)
        if len(self._cache) >= CACHED_MAX:
            self._cache.clear()
        self._cache[pod.uid] = (pod, reason)
        return reason

    def forget(self, uid: str) -> None:
        self._cache.pop(uid, None)

    def has_evict_annotation(self, pod: Pod) -> bool:
        value = pod.annotations.get(EVICT_ANNOTATION)
        return value is not None and (self._follows_koordinator or value.lower() in ("", "true"))

    def explain_uncached(self, pod: Pod) -> str | None:
        """Compute why a pod may never be evicted; None if it may be."""
        if pod.node is None:
            return "the pod is not bound to a node"
        if pod.deleting_at_ms is not None:
            return "the pod is terminating"
        if self.has_evict_annotation(pod):
            return None
        return (
            self._explain_system(pod)
            or self._explain_annotation(pod)
            or self._explain_bare(pod)
            or self._explain_storage(pod)
            or self._explain_priority(pod)
            or self._explain_selectors(pod)
        )

    def _explain_system(self, pod: Pod) -> str | None:
        if MIRROR_ANNOTATION in pod.annotations:
            return "the pod is a mirror pod"
        if pod.annotations.get(SOURCE_ANNOTATION, "api") != "api":
            return f"the pod is static (from {pod.annotations[SOURCE_ANNOTATION]})"
        is_daemon = any(owner.kind == "DaemonSet" for owner in pod.owners)
        if is_daemon and "DaemonSetPods" in self._protections:
            return "the pod is owned by a DaemonSet"
        if parse_cost(pod.annotations.get(EVICTION_COST_ANNOTATION)) == NEVER_COST:
            return f"the pod's eviction cost is {NEVER_COST}, which means never"
        return None

    def _explain_annotation(self, pod: Pod) -> str | None:
        annotations, policy = pod.annotations, self.policy.evictor.no_eviction_policy
        if self._follows_koordinator:
            if policy == "Mandatory" and NO_EVICTION_ANNOTATION in annotations:
                return f"the pod has annotation {NO_EVICTION_ANNOTATION}; noEvictionPolicy is Mandatory"
            return None
        if policy != "Preferred" and not _is_false(
            annotations.get(NO_EVICTION_ANNOTATION, "false")
        ):
            return f"the pod has annotation {NO_EVICTION_ANNOTATION}; noEvictionPolicy is not Preferred"
        if "DoNotDisrupt" in self._skipped:
            return None
        for name in DO_NOT_DISRUPT_ANNOTATIONS:
            if not _is_false(annotations.get(name, "false")):
                return f"the pod has annotation {name}: {annotations[name]}"
        for name in (SAFE_TO_EVICT_ANNOTATION, EVICT_ANNOTATION):
            if _is_false(annotations.get(name, "true")):
                return f"the pod has annotation {name}: {annotations[name]}"
        return None

    def _explain_bare(self, pod: Pod) -> str | None:
        args = self.policy.migration
        if pod.owners or args.evict_all_bare_pods or "BarePods" in self._skipped:
            return None
        allows_failed = args.evict_failed_bare_pods or "FailedBarePods" not in self._protections
        if pod.phase != "Failed":
            return "the pod has no owner, so nothing would replace it; migration.evictAllBarePods permits it"
        if not allows_failed:
            return "the pod failed and has no owner; migration.evictFailedBarePods permits it"
        return None

    def _explain_storage(self, pod: Pod) -> str | None:
        protects_local = "PodsWithLocalStorage" in self._protections
        protects_local &= not self.policy.migration.evict_local_storage_pods
        if pod.local_storage and protects_local and "LocalStoragePods" not in self._skipped:
            return (
                "the pod has local storage (emptyDir or hostPath); evictLocalStoragePods is false"
            )
        if pod.volume_claims and "PVCPods" not in self._skipped:
            if self.policy.migration.ignore_pvc_pods or self.policy.evictor.ignore_pvc_pods:
                return f"the pod mounts claim {pod.volume_claims[0].name}; ignorePvcPods is true"
            if "PodsWithPVC" in self._protections:
                for claim in pod.volume_claims:
                    if not self._storage_classes or claim.storage_class in self._storage_classes:
                        return f"the pod mounts claim {claim.name}; PodsWithPVC protects it"
        if pod.resource_claims and "PodsWithResourceClaims" in self._protections:
            return "the pod has resource claims; PodsWithResourceClaims protects it"
        return None

    def _explain_priority(self, pod: Pod) -> str | None:
        priority = pod.priority or 0
        args, evictor = self.policy.migration, self.policy.evictor
        protects_critical = not args.evict_system_critical_pods
        protects_critical &= "SystemCriticalPods" in self._protections
        if not protects_critical:
            # As upstream, evictSystemCriticalPods also switches priorityThreshold off.
            return None
        if priority >= SYSTEM_CRITICAL_PRIORITY and "SystemCriticalPods" not in self._skipped:
            return f"the pod's priority {priority} is system critical; evictSystemCriticalPods is false"
        if "PriorityThreshold" in self._skipped:
            return None
        return self._explain_threshold(
            priority, args.priority_threshold, "migration", ignores_names=self._follows_koordinator
        ) or self._explain_threshold(
            priority, evictor.priority_threshold, "evictor", ignores_names=False
        )

    def _explain_threshold(
        self,
        priority: int,
        threshold: PriorityThreshold | None,
        section: str,
        *,
        ignores_names: bool,
    ) -> str | None:
        if threshold is None:
            return None
        value = threshold.value
        if value is None:
            name = threshold.name
            if not name or ignores_names:
                return None
            value = BUILT_IN_CLASSES.get(name, self._classes.find_value(name))
            if value is None:
                return (
                    f"{section}.priorityThreshold names class {name}, whose value is unknown; set value "
                    "instead, or send the cluster's priority classes"
                )
        if priority >= value:
            return f"the pod's priority {priority} is not below {section}.priorityThreshold {value}"
        return None

    def _explain_selectors(self, pod: Pod) -> str | None:
        args, evictor = self.policy.migration, self.policy.evictor
        names = None if "Namespaces" in self._skipped else args.namespaces
        if names is not None and not names.admits(pod.namespace):
            return f"namespace {pod.namespace} is not among migration.namespaces"
        selector = evictor.namespace_label_selector
        if selector is not None and (selector.match_labels or selector.match_expressions):
            labels = self._namespaces.find_labels(pod.namespace)
            if labels is None:
                return (
                    "evictor.namespaceLabelSelector needs the labels of namespace "
                    f"{pod.namespace}, which are unknown; send the cluster's namespaces"
                )
            if not selector.matches(labels):
                return f"namespace {pod.namespace} does not match evictor.namespaceLabelSelector"
        if "LabelSelector" in self._skipped:
            return None
        for section, selector in (
            ("migration", args.label_selector),
            ("evictor", evictor.label_selector),
        ):
            if selector is not None and not selector.matches(pod.labels):
                return f"the pod's labels do not match {section}.labelSelector"
        return None


def _is_false(value: str) -> bool:
    return value.lower() == "false"
