"""Migrations: requests, reports and rows of pods that move from one node to another.

Phases, conditions and reasons have the names of Koordinator's PodMigrationJob. Reasons that
Koordinator does not have are listed below. Limits count migrations; an eviction command belongs to
exactly one migration.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    ClusterMessage,
    ClusterName,
    Count,
    DurationMs,
    Entries,
    EpochMs,
    Message,
    NodeName,
    Part,
    StateMs,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.objects import DisruptionBudget, WorkloadState
from schemas.messages.pods import Pod, PodRef

Mode = Literal["ReservationFirst", "EvictDirectly"]
Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Aborted"]
Trigger = Literal["rebalance", "request", "drain"]
Watched = Literal["node", "prod"]
Reason = Literal[
    "Timeout", "FailedCreateReservation", "ReservationExpired", "Unschedulable",
    "ForbiddenMigratePod", "MissingPod", "MissingReservation", "Preempting", "PreemptComplete",
    "Evicting", "FailedEvict", "EvictComplete", "WaitForPodBindReservation", "WaitForBoundPodReady",
    "MissingNode", "PodMoved", "Aborted", "Undrained", "NodeCooled", "",
]  # fmt: skip
"""Upstream's reasons, and: MissingNode: the source node is gone; PodMoved: the pod is on another node;
Aborted: by a user's request; Undrained: the drain was cancelled; NodeCooled: the source node is no
longer hot or at risk."""
ConditionType = Literal[
    "ReservationCreated", "ReservationScheduled", "Preemption", "Eviction", "PodScheduled",
    "PodBoundReservation", "BoundPodReady", "ReservationBound",
]  # fmt: skip
#: Phases of unfinished migrations.
LIVE: tuple[Phase, ...] = ("Pending", "Running")
#: Longest time limit of a migration that a request may set: one day.
TTL_MAX_MS = 86_400_000

_Text = Annotated[str, Field(max_length=2_000)]


class Condition(Part):
    """State of one step of a migration."""

    type: ConditionType
    """The step."""
    status: bool
    """True: the step is complete."""
    reason: Reason = ""
    """Reason of the state."""
    message: _Text = ""
    """The reason in a sentence."""
    changed_at_ms: StateMs
    """Time of the last change."""


class Migration(Part):
    """Fields that rows and reports of a migration share."""

    cluster: ClusterName
    migration_id: DecisionId
    """Id, derived from the inputs."""
    pod: PodRef
    """The pod that moves."""
    source_node: NodeName
    """The node that the pod leaves."""
    target_node: NodeName | None = None
    """The planned node of the replacement, or the node on which room is reserved for it."""
    mode: Mode
    """ReservationFirst: room is reserved elsewhere before the eviction. EvictDirectly: no room is
    reserved."""
    phase: Phase
    """State of the migration."""
    reason: Reason = ""
    """Reason of the state."""
    message: _Text = ""
    """The reason in a sentence, with numbers; for a pending migration, the first gate that stops
    it."""
    pool: Annotated[str, Field(max_length=253)] = ""
    """Node pool whose round began the migration; empty if no round began it."""
    watched: Watched = "node"
    """The usage that was too high: of the whole node, or of its prod pods."""
    owner: Annotated[str, Field(max_length=1_200)] = ""
    """uid of the pod's controller, else the pod's namespace/name."""
    trigger: Trigger
    """Cause: a round of rebalancing, a user's request, or the drain of a node."""
    cause: _Text = ""
    """The cause in a sentence: thresholds and figures, or the user's words."""
    dry_run: bool = True
    """True: the pod is not evicted."""
    paused: bool = False
    """True: the migration waits until somebody resumes it."""
    conditions: Annotated[Entries[Condition], Field(max_length=8)] = ()
    """Steps that have started, in their order."""
    attempts: Count = 0
    """Number of eviction commands so far."""
    command_id: DecisionId | None = None
    """Id of the newest eviction command."""
    replacement: PodRef | None = None
    """The new pod that the owner created."""
    deadline_ms: StateMs
    """Time at which an unfinished migration fails; a pause extends it."""
    created_at_ms: EpochMs
    """When it was created."""
    changed_at_ms: EpochMs
    """Last change of the phase or of a condition."""


class MigrationRow(Message, Migration):
    """Kind `migrations`: an unfinished migration, or one whose command can still be executed."""

    sequence: Count
    """Order of creation."""
    ignore_windows: bool = False
    """True: maintenance windows do not apply."""
    ttl_ms: DurationMs
    """Time limit of the migration, without pauses."""
    paused_at_ms: StateMs | None = None
    """Start of the pause."""
    turn: Count = 0
    """Order in which it passed arbitration; 0: not passed yet."""
    gate: Annotated[str, Field(max_length=64)] = ""
    """Name of the gate that stops it."""
    command_expires_at_ms: StateMs | None = None
    """Time until which the newest command can be executed; none: it has no effect any more."""
    command_dry: bool = False
    """The newest command is marked dry."""
    evicted_at_ms: StateMs | None = None
    """When the eviction was reported as done, or the pod disappeared."""
    retry_at_ms: StateMs = 0
    """Earliest time of the next command."""
    source_hot_before: bool = False
    """The source was above its high thresholds when the move was planned."""
    reserved: Pod | None = None
    """The pod for which room is reserved on `target_node`; none: no reservation."""


class MigrationStatus(Message, Migration):
    """`status`: the phase or a condition of a migration has changed (key: cluster)."""

    record_time: ClassVar = "happened_at_ms"

    kind: Literal["migration"] = "migration"
    """Kind of the record."""
    happened_at_ms: EpochMs
    """Log time of the change."""
    as_of: AsOf
    """The state that the change was computed from."""


class ProtectedPod(Part):
    """A pod that a drain does not evict."""

    pod: PodRef
    """The pod."""
    reason: _Text
    """Why it may not be evicted."""


#: Most protected pods in a drain's report.
PROTECTED_NAMED_MAX = 20


class DrainStatus(ClusterMessage):
    """`status`: progress of the drain of a node (key: cluster)."""

    record_time: ClassVar = "happened_at_ms"

    kind: Literal["drain"] = "drain"
    """Kind of the record."""
    node: NodeName
    phase: Literal["Draining", "Drained", "Undrained"]
    """Drained: no pod is left that may be evicted; the node still accepts no new pods."""
    pods_left: Count
    """Pods on the node that will be evicted."""
    pods_protected: Count
    """Pods on the node that must not be evicted."""
    protected: Annotated[Entries[ProtectedPod], Field(max_length=PROTECTED_NAMED_MAX)] = ()
    """The first protected pods."""
    dry_run: bool = False
    """True: pods are not evicted, and the node accepts new pods; the drain ends after its report.
    """
    request_id: DecisionId
    """The request that started the drain."""
    happened_at_ms: EpochMs
    """Log time of the report."""
    as_of: AsOf
    """The state that the report was computed from."""


class MigrationRequest(ClusterMessage):
    """`migration-requests`: a user's request (key: cluster).

    migrate needs `pod`; drain and undrain need `node`; pause, resume and abort need `migration_id`
    or `pod`. A request that cannot be fulfilled is answered in `status` or goes to `dead-letters`.
    """

    record_time: ClassVar = "requested_at_ms"

    request_id: DecisionId
    """Id, chosen by the user."""
    action: Literal["migrate", "pause", "resume", "abort", "drain", "undrain"]
    """The requested action."""
    pod: PodRef | None = None
    """The pod to migrate, or the pod of the migration."""
    migration_id: DecisionId | None = None
    """The migration to pause, resume or abort."""
    node: NodeName | None = None
    """The node to drain or undrain."""
    mode: Mode | None = None
    """How to migrate; none: as in the policy."""
    ttl_ms: Annotated[int, Field(ge=1, le=TTL_MAX_MS, json_schema_extra={"unit": "ms"})] | None = (
        None
    )
    """Time limit of a migration; none: as in the policy."""
    ignore_windows: bool = False
    """True: maintenance windows do not apply to this request."""
    reason: Annotated[str, Field(max_length=1_000)] = ""
    """Why, in the user's words."""
    requested_at_ms: EpochMs
    """When the user sent it."""


class DrainRow(ClusterMessage):
    """Kind `drains`: a node that accepts no new pods while its pods are migrated."""

    node: NodeName
    request_id: DecisionId
    """The request that started the drain."""
    since_ms: StateMs
    """Start of the drain; 0: before the first clock tick."""
    drained: bool = False
    """True: it was reported as empty, and no pod has arrived since."""
    reason: Annotated[str, Field(max_length=1_000)] = ""
    """Why, in the user's words."""
    mode: Mode | None = None
    """How its pods are migrated; none: as in the policy."""
    ttl_ms: DurationMs | None = None
    """Time limit of each migration; none: as in the policy."""
    ignore_windows: bool = False
    """True: maintenance windows do not apply."""
    dry_run: bool = False
    """True: pods are not evicted; one dry migration per pod is reported."""
    last_reported_uid: Annotated[str, Field(max_length=128)] | None = None
    """Only for dry drains: uid of the last reported pod. Pods are reported in the order of uids."""


class EvictionLimiterRow(ClusterMessage):
    """Kind `eviction_limiters`: a token bucket that is not full."""

    scope: Annotated[str, Field(max_length=64)]
    """`cluster`, or the name of an object limiter in the policy."""
    name: Annotated[str, Field(max_length=253)] = ""
    """Member of the scope: uid of the workload's controller, or name of the namespace."""
    tokens: Count
    """Number of whole tokens."""
    part: Count
    """Part of the next token, in units of 1/`parts`."""
    parts: Annotated[int, Field(ge=1, le=2**63 - 1)]
    """Number of units of one token."""
    filled_at_ms: StateMs
    """Time up to which the bucket has been filled."""


class WorkloadRow(ClusterMessage):
    """Kind `workloads`: the replicas of an owner."""

    state: WorkloadState
    """The newest record."""
    lowered_at_ms: StateMs | None = None
    """When its replicas were last lowered, except by the progress of a Job."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""


class DisruptionBudgetRow(ClusterMessage):
    """Kind `disruption_budgets`: a budget, and the disruptions by loadstream's commands since its
    last status."""

    state: DisruptionBudget
    """The newest record."""
    charged: Entries[str] = ()
    """uids of covered pods with an eviction command under way."""
    gone: Entries[str] = ()
    """uids of evicted pods that its status does not reflect yet."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""


class MigrationStateRow(ClusterMessage):
    """Kind `migration_state`: state shared by all migrations of a cluster."""

    arbitrated_at_ms: StateMs
    """Time of the last arbitration."""
    created: Count
    """How many migrations have been created; the number of the next migration."""
    passed: Count = 0
    """How many migrations have passed arbitration; the number of the next to pass."""
