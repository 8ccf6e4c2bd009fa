"""`evictor`: arguments of the descheduler's DefaultEvictor, which protects pods from eviction."""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from schemas.policy.durations import Duration
from schemas.policy.parts import Conflict, Count, Items, PolicyPart, get_alias
from schemas.policy.sections.migration import PriorityThreshold
from schemas.policy.selectors import LabelSelector, SelectorText

DefaultProtection = Literal[
    "PodsWithLocalStorage", "SystemCriticalPods", "FailedBarePods", "DaemonSetPods"
]
ExtraProtection = Literal[
    "PodsWithPVC",
    "PodsWithoutPDB",
    "PodsWithResourceClaims",
    "PodsWithPDBBlockingSingleReplicaOwner",
]


#: Older form of `podProtections`: flags that disable a default protection, or enable an extra one.
_DISABLING_FLAGS: dict[str, str] = {
    "evict_local_storage_pods": "PodsWithLocalStorage",
    "evict_daemon_set_pods": "DaemonSetPods",
    "evict_system_critical_pods": "SystemCriticalPods",
    "evict_failed_bare_pods": "FailedBarePods",
}
_ENABLING_FLAGS = {"ignore_pvc_pods": "PodsWithPVC", "ignore_pods_without_pdb": "PodsWithoutPDB"}


class StorageClass(PolicyPart):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the storage class."""


class PodsWithPVC(PolicyPart):
    """Settings of the protection PodsWithPVC."""

    protected_storage_classes: Items[StorageClass] = ()
    """Storage classes whose claims protect a pod; none: all."""


class ProtectionConfig(PolicyPart):
    """Settings of protections, by name."""

    pods_with_pvc: PodsWithPVC | None = Field(None, alias="PodsWithPVC")
    """Settings of the protection PodsWithPVC."""


class PodProtections(PolicyPart):
    """Additional protections, and default protections that are disabled."""

    extra_enabled: Items[ExtraProtection] = ()
    """Protections to enable that are off by default."""
    default_disabled: Items[DefaultProtection] = ()
    """Protections to disable that are on by default."""
    config: ProtectionConfig | None = None
    """Settings of single protections."""


class DefaultEvictorArgs(PolicyPart):
    """Arguments of DefaultEvictor. `protections` combines the old flags with the new lists."""

    node_selector: SelectorText = ""
    """Nodes whose pods may be evicted; none: all."""
    label_selector: LabelSelector | None = None
    """Pods that may be evicted; none: all."""
    namespace_label_selector: LabelSelector | None = None
    """Labels of the namespaces whose pods may be evicted; none: all."""
    priority_threshold: PriorityThreshold | None = None
    """Only pods below this priority are evicted."""
    node_fit: bool = False
    """Only pods that another node takes are evicted."""
    min_replicas: Count = 0
    """Pods of workloads with fewer replicas are protected."""
    min_pod_age_ms: Duration | None = Field(None, alias="minPodAge")
    """Younger pods are protected."""
    no_eviction_policy: Literal["Preferred", "Mandatory"] | None = None
    """Pods with the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction`. `Preferred`:
    rounds by thresholds evict them after all other pods of their node. `Mandatory` or none: they
    are not evicted."""
    pod_protections: PodProtections = Field(default_factory=PodProtections)
    """Protections to enable or disable."""
    evict_local_storage_pods: bool = False
    """Pods with volumes of type emptyDir or hostPath may be evicted. This flag and the five below
    are the older form of `podProtections`; giving both forms is an error."""
    evict_daemon_set_pods: bool = False
    """Pods of DaemonSets may be evicted."""
    evict_system_critical_pods: bool = False
    """Pods of priority 2000000000 and above may be evicted."""
    evict_failed_bare_pods: bool = False
    """Failed pods without an owner may be evicted."""
    ignore_pvc_pods: bool = False
    """Pods with volume claims are protected."""
    ignore_pods_without_pdb: bool = Field(False, alias="ignorePodsWithoutPDB")
    """Pods without a disruption budget are protected."""

    def conflicts(self) -> Iterable[Conflict]:
        old_flags = (*_DISABLING_FLAGS, *_ENABLING_FLAGS)
        flags = [get_alias(type(self), flag) for flag in old_flags if getattr(self, flag)]
        protections = self.pod_protections
        if flags and (protections.extra_enabled or protections.default_disabled):
            message = (
                f"given together with {', '.join(flags)}; expected either these flags or the lists"
            )
            yield Conflict(("podProtections",), message, ("podProtections", *flags))

    @cached_property
    def protections(self) -> tuple[str, ...]:
        """Names of the protections in force, sorted."""
        lists = self.pod_protections
        names = {name for flag, name in _DISABLING_FLAGS.items() if not getattr(self, flag)}
        names -= set(lists.default_disabled)
        names |= set(lists.extra_enabled)
        names |= {name for flag, name in _ENABLING_FLAGS.items() if getattr(self, flag)}
        return tuple(sorted(names))
