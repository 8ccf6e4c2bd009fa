"""`migration`: arguments of the MigrationController: how pods are moved, and how many at once.

Limits count unfinished migrations; an absent limit is off. Limits per workload are numbers or
percentages of its replicas. Their default depends on the number of replicas and is computed by the
controller, not here.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from schemas.policy.durations import Duration, PositiveDuration
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

#: What each gate checks.
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
EVICTION_GATES: tuple[str, ...] = get_args(EvictionGate)

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
    raise PydanticCustomError("allowed", "{allowed}", {"allowed": _SHARE_ALLOWED})


def _parse_rate(value: Any) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value, re.ASCII):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= INT32_MAX:
        return float(value)
    raise PydanticCustomError("allowed", "{allowed}", {"allowed": _QPS_ALLOWED})


#: A number of pods, or a percentage of a workload's replicas ("10%").
Share = Annotated[Any, BeforeValidator(_parse_share)]
_Positive = Annotated[int, int_range(1, INT32_MAX)]


class PriorityThreshold(PolicyPart):
    """Only pods below this priority may be evicted; `name` is a PriorityClass."""

    value: Int32 | None = None
    name: Annotated[str, Field(max_length=253)] = ""

    def conflicts(self) -> Iterable[Conflict]:
        if self.value is not None and self.name:
            message = "value and name are both given; expected one of them"
            yield Conflict(("name",), message, ("value", "name"))


class ObjectLimiter(PolicyPart):
    """At most `maxMigrating` migrations of one workload, or in one namespace, within `duration`."""

    duration_ms: Duration = Field(0, alias="duration")
    max_migrating: Share | None = None
    """None: `maxMigratingPerWorkload`."""
    burst: Count = 0
    """Tokens that can be saved up; 0 means 1."""


class ArbitrationArgs(PolicyPart):
    """How often waiting migrations are sorted and released."""

    interval_ms: PositiveDuration = Field(500, alias="interval")


class Preconditions(PolicyPart):
    """Required state of an object for its deletion."""

    resource_version: Annotated[str, Field(max_length=128)] | None = None


class DeleteOptions(PolicyPart):
    """metav1.DeleteOptions of evictions and deletions."""

    grace_period_seconds: Count | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    dry_run: Items[Literal["All"]] = ()
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class MigrationControllerArgs(PolicyPart):
    """Arguments of migrations, with upstream's defaults."""

    dry_run: bool = False
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    label_selector: LabelSelector | None = None
    namespaces: Namespaces | None = None
    node_fit: bool = False
    node_selector: SelectorText = ""
    max_migrating_globally: Count | None = None
    max_migrating_per_node: Count = 2
    max_migrating_per_namespace: Count | None = None
    max_migrating_per_workload: Share | None = None
    max_unavailable_per_workload: Share | None = None
    skip_check_expected_replicas: bool = False
    skip_eviction_gates: Items[EvictionGate] = ()
    """Skipped checks, by upstream's names (`GATES`)."""
    object_limiters: dict[Literal["workload", "namespace"], ObjectLimiter] = Field(
        default_factory=dict, validate_default=True
    )
    default_job_mode: Literal["ReservationFirst", "EvictDirectly"] = "ReservationFirst"
    default_job_ttl_ms: Duration = Field(300_000, alias="defaultJobTTL")
    scheduler_names: Items[Annotated[str, Field(min_length=1, max_length=253)]] = Field(
        (), validate_default=True
    )
    evict_qps: Annotated[float, BeforeValidator(_parse_rate)] = Field(10.0, alias="evictQPS")
    evict_burst: _Positive = 1
    eviction_policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    default_delete_options: DeleteOptions | None = None
    arbitration_args: ArbitrationArgs = Field(default_factory=ArbitrationArgs)

    @field_validator("object_limiters")
    @classmethod
    def _fill_limiters(cls, limiters: dict[str, ObjectLimiter]) -> dict[str, ObjectLimiter]:
        return limiters or {"workload": ObjectLimiter.model_construct(duration_ms=300_000)}

    @field_validator("scheduler_names")
    @classmethod
    def _fill_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return names or DEFAULT_SCHEDULERS
