"""Which pods may be evicted at all: what the policy and the pod itself say, whatever else happens.

Arguments of MigrationController and DefaultEvictor hold together: what one of the two lifts is
lifted, what one of them forbids is forbidden. The annotation
`descheduler.alpha.kubernetes.io/evict` lifts every protection but two: a pod that is not bound
cannot leave, and one that is terminating leaves anyway. Source: docs/reference/upstream.md M11, M13, M14,
M15.

Annotations of other programs that ask to leave a pod where it is protect it too, and the evict
annotation protects if its value is not true. Under `compat: koordinator` neither does, and any value
of the evict annotation lifts the protections.

The verdict on a pod depends on the pod, the policy, and what is known of namespaces and priority
classes alone, so it is kept until one of them changes; what depends on the time, the node or the
workload is in `gates`. A policy that asks for labels or values which the cluster has not sent
protects the pod, and the verdict says what is missing.
"""

from schemas.messages.pods import Pod
from schemas.policy import Policy
from schemas.policy.sections.migration import BUILT_IN_CLASSES, PriorityThreshold
from streams.migration.gates.named import NamespaceRows, PriorityClasses
from streams.pods.held import Held
from streams.rebalance.costs import EVICTION_COST_ANNOTATION, NO_EVICTION_ANNOTATION, cost

EVICT_ANNOTATION = "descheduler.alpha.kubernetes.io/evict"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"
#: Of Karpenter, and of its versions before 0.33.
DO_NOT_DISRUPT_ANNOTATIONS = ("karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict")
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"

#: Pods of this priority and above belong to the system.
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
#: An eviction cost that means never.
NEVER_COST = 2**31 - 1
#: Most verdicts that are kept.
VERDICTS_MAX = 200_000


class Protections:
    """The verdicts of one policy."""

    def __init__(
        self,
        policy: Policy,
        namespaces: NamespaceRows | None = None,
        classes: PriorityClasses | None = None,
    ) -> None:
        self._verdicts: dict[str, tuple[Pod, str | None]] = {}
        self._namespaces = NamespaceRows() if namespaces is None else namespaces
        self._classes = PriorityClasses() if classes is None else classes
        self._versions = (0, 0)
        """Of the namespaces and priority classes that the verdicts go by."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy."""
        self._verdicts.clear()
        self.policy = policy
        self._as_koordinator = policy.compat == "koordinator"
        self._skipped = frozenset(policy.migration.skip_eviction_gates)
        self._protections = frozenset(policy.evictor.protections)
        config = policy.evictor.pod_protections.config
        claims = None if config is None else config.pods_with_pvc
        classes = () if claims is None else claims.protected_storage_classes
        self._storage_classes = frozenset(each.name for each in classes)

    def verdict(self, held: Held) -> str | None:
        """Why a pod may not be evicted; None: nothing about the pod itself forbids it."""
        pod = held.pod
        versions = self._namespaces.version, self._classes.version
        if versions != self._versions:
            self._versions = versions
            self._verdicts.clear()
        known = self._verdicts.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        why = self.judge(pod)
        if len(self._verdicts) >= VERDICTS_MAX:
            self._verdicts.clear()
        self._verdicts[pod.uid] = (pod, why)
        return why

    def forget(self, uid: str) -> None:
        """A pod is gone; its verdict would keep it in memory."""
        self._verdicts.pop(uid, None)

    def insists(self, pod: Pod) -> bool:
        """Tell whether the pod asks to be evictable, whatever protects it."""
        value = pod.annotations.get(EVICT_ANNOTATION)
        return value is not None and (self._as_koordinator or value.lower() in ("", "true"))

    def judge(self, pod: Pod) -> str | None:
        """The same of a pod that is not held."""
        if pod.node is None:
            return "the pod is not bound to a node"
        if pod.deleting_at_ms is not None:
            return "the pod is terminating"
        if self.insists(pod):
            return None
        return (
            self._always(pod)
            or self._explain_annotation(pod)
            or self._bare(pod)
            or self._storage(pod)
            or self._priority(pod)
            or self._selected(pod)
        )

    def _always(self, pod: Pod) -> str | None:
        if MIRROR_ANNOTATION in pod.annotations:
            return "the pod is a mirror pod"
        if pod.annotations.get(SOURCE_ANNOTATION, "api") != "api":
            return f"the pod is static (from {pod.annotations[SOURCE_ANNOTATION]})"
        daemon = any(owner.kind == "DaemonSet" for owner in pod.owners)
        if daemon and "DaemonSetPods" in self._protections:
            return "the pod is owned by a DaemonSet"
        if cost(pod.annotations.get(EVICTION_COST_ANNOTATION)) == NEVER_COST:
            return f"its eviction cost is {NEVER_COST}, which means never"
        return None

    def _explain_annotation(self, pod: Pod) -> str | None:
        annotations, policy = pod.annotations, self.policy.evictor.no_eviction_policy
        if self._as_koordinator:
            if policy == "Mandatory" and NO_EVICTION_ANNOTATION in annotations:
                return f"it is annotated {NO_EVICTION_ANNOTATION} and noEvictionPolicy is Mandatory"
            return None
        if policy != "Preferred" and not _is_false(
            annotations.get(NO_EVICTION_ANNOTATION, "false")
        ):
            return f"it is annotated {NO_EVICTION_ANNOTATION}; noEvictionPolicy is not Preferred"
        if "DoNotDisrupt" in self._skipped:
            return None
        for name in DO_NOT_DISRUPT_ANNOTATIONS:
            if not _is_false(annotations.get(name, "false")):
                return f"it is annotated {name}: {annotations[name]}"
        for name in (SAFE_TO_EVICT_ANNOTATION, EVICT_ANNOTATION):
            if _is_false(annotations.get(name, "true")):
                return f"it is annotated {name}: {annotations[name]}"
        return None

    def _bare(self, pod: Pod) -> str | None:
        args = self.policy.migration
        if pod.owners or args.evict_all_bare_pods or "BarePods" in self._skipped:
            return None
        failed = args.evict_failed_bare_pods or "FailedBarePods" not in self._protections
        if not failed:
            return "the pod has no owner; neither evictFailedBarePods nor evictAllBarePods is set"
        if pod.phase != "Failed":
            return f"the pod has no owner and is {pod.phase}; evictFailedBarePods allows Failed"
        return None

    def _storage(self, pod: Pod) -> str | None:
        local = "PodsWithLocalStorage" in self._protections
        local &= not self.policy.migration.evict_local_storage_pods
        if pod.local_storage and local and "LocalStoragePods" not in self._skipped:
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

    def _priority(self, pod: Pod) -> str | None:
        priority = pod.priority or 0
        args, evictor = self.policy.migration, self.policy.evictor
        critical = not args.evict_system_critical_pods
        critical &= "SystemCriticalPods" in self._protections
        if not critical:
            # Upstream: evicting system critical pods leaves no threshold either.
            return None
        if priority >= SYSTEM_CRITICAL_PRIORITY and "SystemCriticalPods" not in self._skipped:
            return f"its priority {priority} is system critical; evictSystemCriticalPods is false"
        if "PriorityThreshold" in self._skipped:
            return None
        theirs = self.policy.compat == "koordinator"
        return self._below(
            priority, args.priority_threshold, "migration", passed_over=theirs
        ) or self._below(priority, evictor.priority_threshold, "evictor", passed_over=False)

    def _below(
        self, priority: int, threshold: PriorityThreshold | None, whose: str, *, passed_over: bool
    ) -> str | None:
        """Why a pod is not below a threshold.

        A name is passed over where upstream does not resolve it.
        """
        if threshold is None:
            return None
        value = threshold.value
        if value is None:
            name = threshold.name
            if not name or passed_over:
                return None
            value = BUILT_IN_CLASSES.get(name, self._classes.value(name))
            if value is None:
                return (
                    f"{whose}.priorityThreshold names class {name}, whose value is not known here; "
                    "give value instead, or send the cluster's priority classes"
                )
        if priority >= value:
            return f"its priority {priority} is not below {whose}.priorityThreshold {value}"
        return None

    def _selected(self, pod: Pod) -> str | None:
        args, evictor = self.policy.migration, self.policy.evictor
        names = None if "Namespaces" in self._skipped else args.namespaces
        if names is not None and not names.admits(pod.namespace):
            return f"namespace {pod.namespace} is not among migration.namespaces"
        selector = evictor.namespace_label_selector
        if selector is not None and (selector.match_labels or selector.match_expressions):
            labels = self._namespaces.labels(pod.namespace)
            if labels is None:
                return (
                    "evictor.namespaceLabelSelector needs labels of namespaces, and those of "
                    f"{pod.namespace} are not known; send the cluster's namespaces"
                )
            if not selector.matches(labels):
                return f"namespace {pod.namespace} does not match evictor.namespaceLabelSelector"
        if "LabelSelector" in self._skipped:
            return None
        for whose, selector in (
            ("migration", args.label_selector),
            ("evictor", evictor.label_selector),
        ):
            if selector is not None and not selector.matches(pod.labels):
                return f"its labels do not match {whose}.labelSelector"
        return None


def _is_false(value: str) -> bool:
    return value.lower() == "false"
