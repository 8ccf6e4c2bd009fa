"""`migration`: arguments of the MigrationController: how pods are moved, and how many at once.

Limits count unfinished migrations; an absent limit is off. Limits per workload are numbers or
percentages of its replicas. Their default depends on the number of replicas and is computed by the
controller, not here.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from schemas.policy.durations import Duration, PositiveDuration
from schemas.policy.errors import not_allowed
from schemas.policy.parts import (
    INT32_MAX,
    Conflict,
    Count,
    Int32,
    Items,
    PolicyPart,
    int_range,
)
from schemas.policy.selectors import LabelSelector, Namespaces, SelectorText

#: Checks before an eviction that a policy can skip. `DoNotDisrupt`, `JobFailures` and `ScalingDown` are
#: additions of loadstream. Some checks cannot be skipped and have no name here: the pod exists on its node
#: and is not moving, limits on commands, disruption budgets, maintenance windows.
EvictionGate = Literal[
    "Namespaces",
    "LabelSelector",
    "NodeSelector",
    "NodeFit",
    "BarePods",
    "LocalStoragePods",
    "SystemCriticalPods",
    "PVCPods",
    "PriorityThreshold",
    "ExpectedReplicas",
    "MaxMigratingGlobally",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingPerWorkload",
    "MaxUnavailablePerWorkload",
    "DoNotDisrupt",
    "JobFailures",
    "ScalingDown",
]

#: Pods that a gate protects, or fields that it checks.
GATES: dict[EvictionGate, str] = {
    "Namespaces": "migration.namespaces",
    "LabelSelector": "labelSelector of migration and evictor",
    "NodeSelector": "nodeSelector of migration and evictor",
    "NodeFit": "nodeFit of migration and evictor",
    "BarePods": "pods without an owner",
    "LocalStoragePods": "pods with volumes of type emptyDir or hostPath",
    "SystemCriticalPods": "pods of priority 2000000000 and above",
    "PVCPods": "pods with volume claims",
    "PriorityThreshold": "priorityThreshold of migration and evictor",
    "ExpectedReplicas": "workloads with no more replicas than may move at once",
    "MaxMigratingGlobally": "maxMigratingGlobally",
    "MaxMigratingPerNode": "maxMigratingPerNode",
    "MaxMigratingPerNamespace": "maxMigratingPerNamespace",
    "MaxMigratingPerWorkload": "maxMigratingPerWorkload",
    "MaxUnavailablePerWorkload": "maxUnavailablePerWorkload",
    "DoNotDisrupt": 'annotations of Karpenter and cluster-autoscaler, and evict: "false"',
    "JobFailures": "pods whose eviction counts as a failure of their Job",
    "ScalingDown": "workloads whose replicas were lowered in the last 5 minutes",
}

#: Priority classes that every cluster has, and their values.
BUILT_IN_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}

#: Schedulers whose pods loadstream places: the name that `kubernetes watch` uses, and upstream's.
DEFAULT_SCHEDULERS = ("loadstream", "koord-scheduler")

_PERCENTAGE = re.compile(r"(0|[1-9][0-9]{0,8})%", re.ASCII)
_SHARE_ALLOWED = 'an integer from 0, or a percentage such as "10%"'
_QPS_ALLOWED = 'a number above 0 (also as text: "10")'


def _parse_share(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX:
        return value
    if isinstance(value, str) and _PERCENTAGE.fullmatch(value):
        return value
    raise not_allowed(_SHARE_ALLOWED)


def _parse_rate(value: Any) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value, re.ASCII):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= INT32_MAX:
        return float(value)
    raise not_allowed(_QPS_ALLOWED)


#: A number of pods, or a percentage of a workload's replicas ("10%").
Share = Annotated[Any, BeforeValidator(_parse_share)]
_Positive = Annotated[int, int_range(1, INT32_MAX)]


class PriorityThreshold(PolicyPart):
    """Only pods below this priority may be evicted; `name` is a PriorityClass."""

    value: Int32 | None = None
    """The priority."""
    name: Annotated[str, Field(max_length=253)] = ""
    """Name of a PriorityClass: `system-cluster-critical`, `system-node-critical`, or a class that
    the cluster has sent."""

    def conflicts(self) -> Iterable[Conflict]:
        if self.value is not None and self.name:
            message = "value and name are both given; expected one of them"
            yield Conflict(("name",), message, ("value", "name"))


class ObjectLimiter(PolicyPart):
    """At most `maxMigrating` migrations of one workload, or in one namespace, within `duration`."""

    duration_ms: Duration = Field(0, alias="duration")
    """The length of time."""
    max_migrating: Share | None = None
    """Migrations in that time; none: as `maxMigratingPerWorkload`."""
    burst: Count = 0
    """Tokens that can be saved up; 0 means 1."""


class ArbitrationArgs(PolicyPart):
    """How often waiting migrations are sorted and released."""

    interval_ms: PositiveDuration = Field(500, alias="interval")
    """Time between two rounds that sort and start waiting migrations."""


class DeleteOptions(PolicyPart):
    """The part of metav1.DeleteOptions that a policy can set."""

    grace_period_seconds: Count | None = None
    """Grace period of evicted pods; none: the pod's own grace period."""


class MigrationControllerArgs(PolicyPart):
    """Arguments of migrations, with upstream's defaults."""

    dry_run: bool = False
    """Evictions are dry."""
    evict_failed_bare_pods: bool = False
    """Accepted for compatibility; it has no effect."""
    evict_all_bare_pods: bool = False
    """Pods without an owner may be evicted."""
    evict_local_storage_pods: bool = False
    """Pods with volumes of type emptyDir or hostPath may be evicted."""
    evict_system_critical_pods: bool = False
    """Pods of priority 2000000000 and above may be evicted, and no `priorityThreshold` applies."""
    ignore_pvc_pods: bool = False
    """Pods with volume claims are protected."""
    priority_threshold: PriorityThreshold | None = None
    """Only pods below this priority are evicted."""
    label_selector: LabelSelector | None = None
    """Pods that may be evicted; none: all."""
    namespaces: Namespaces | None = None
    """Namespaces whose pods may be evicted; none: all."""
    node_fit: bool = False
    """Only pods that another node takes are evicted."""
    node_selector: SelectorText = ""
    """Nodes whose pods may be evicted; none: all."""
    max_migrating_globally: Count | None = None
    """Pods of the cluster that may move at once; 0 or none: no limit."""
    max_migrating_per_node: Count = 2
    """Pods of a node that may move at once; 0: no limit."""
    max_migrating_per_namespace: Count | None = None
    """Pods of a namespace that may move at once; 0 or none: no limit."""
    max_migrating_per_workload: Share | None = None
    """Pods of a workload that may move at once; none: by the number of replicas."""
    max_unavailable_per_workload: Share | None = None
    """Pods of a workload that may move or be unavailable at once; none: by the number of
    replicas."""
    skip_check_expected_replicas: bool = False
    """Workloads whose replicas may all move at once are not protected."""
    skip_eviction_gates: Items[EvictionGate] = ()
    """Checks to leave out, by the names below. Disruption budgets, maintenance windows and rates
    cannot be left out."""
    object_limiters: dict[Literal["workload", "namespace"], ObjectLimiter] = Field(
        default_factory=dict, validate_default=True
    )
    """Migrations of one `workload`, or in one `namespace`, within a length of time. A map replaces
    the whole default."""
    default_job_mode: Literal["ReservationFirst", "EvictDirectly"] = "ReservationFirst"
    """`ReservationFirst`: reserve room on another node, then evict. `EvictDirectly`: evict without
    a reservation."""
    default_job_ttl_ms: Duration = Field(300_000, alias="defaultJobTTL")
    """A migration that takes longer fails."""
    scheduler_names: Items[Annotated[str, Field(min_length=1, max_length=253)]] = Field(
        (), validate_default=True
    )
    """Schedulers whose pods can have reservations."""
    evict_qps: Annotated[float, BeforeValidator(_parse_rate)] = Field(10.0, alias="evictQPS")
    """Evictions per second of log time."""
    evict_burst: _Positive = 1
    """Evictions that may happen at once."""
    eviction_policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    """`Eviction`: Kubernetes' eviction API. `Delete`: delete the pod. `SoftEviction`: annotate the
    pod for its owner."""
    default_delete_options: DeleteOptions | None = None
    """Options of evictions and deletions."""
    arbitration_args: ArbitrationArgs = Field(default_factory=ArbitrationArgs)
    """How waiting migrations are started."""

    @field_validator("object_limiters")
    @classmethod
    def _fill_limiters(cls, limiters: dict[str, ObjectLimiter]) -> dict[str, ObjectLimiter]:
        return limiters or {"workload": ObjectLimiter.model_construct(duration_ms=300_000)}

    @field_validator("scheduler_names")
    @classmethod
    def _fill_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return names or DEFAULT_SCHEDULERS
