"""Migrations: a pod on its way from one node to another, as it is asked for, reported and kept.

Phases, conditions and reasons have the names of Koordinator's PodMigrationJob, so that who knows
those can read these; reasons that upstream does not have are named below. A migration is the unit
of which limits are counted; an eviction command belongs to exactly one.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    ClusterName,
    Count,
    DurationMs,
    EpochMs,
    Message,
    NodeName,
    Part,
    StateMs,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import Pod, PodRef
from schemas.messages.workloads import DisruptionBudget, WorkloadState

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
"""Those of upstream; and MissingNode: the source node is gone; PodMoved: the pod is on another
node; Aborted: by a user's request; Undrained: the drain that it was for was taken back; NodeCooled:
the node that it was to relieve is no longer hot, or not at risk."""
ConditionType = Literal[
    "ReservationCreated", "ReservationScheduled", "Preemption", "Eviction", "PodScheduled",
    "PodBoundReservation", "BoundPodReady", "ReservationBound",
]  # fmt: skip
#: Phases in which a migration goes on.
LIVE: tuple[Phase, ...] = ("Pending", "Running")
#: Longest time that a request may give a migration, in ms: a day.
TTL_MAX_MS = 86_400_000

_Text = Annotated[str, Field(max_length=2_000)]


class Condition(Part):
    """How far one step of a migration has come."""

    type: ConditionType
    """The step."""
    status: bool
    """It is done."""
    reason: Reason = ""
    """Why it stands as it does."""
    message: _Text = ""
    """The same in a sentence."""
    changed_at_ms: StateMs
    """When it changed last."""


class Migration(Part):
    """What rows and reports of a migration have in common."""

    cluster: ClusterName
    migration_id: DecisionId
    """Id of the migration, derived from its inputs."""
    pod: PodRef
    """The pod that moves."""
    source_node: NodeName
    """The node that it leaves."""
    target_node: NodeName | None = None
    """The node that is planned for its replacement, or at which room is held for it."""
    mode: Mode
    """Room is reserved elsewhere before the pod is evicted, or not."""
    phase: Phase
    """How far it has come."""
    reason: Reason = ""
    """Why it stands as it does."""
    message: _Text = ""
    """The same in a sentence, with numbers; of a pending one the first gate that holds it back."""
    pool: Annotated[str, Field(max_length=253)] = ""
    """Pool of nodes whose thresholds and windows hold."""
    watched: Watched = "node"
    """What was too hot there: everything on the node, or its prod pods alone."""
    owner: Annotated[str, Field(max_length=1_200)] = ""
    """uid of the pod's controller, else the pod's namespace/name."""
    trigger: Trigger
    """Who wants it: a round of rebalancing, a user's request, or the drain of a node."""
    cause: _Text = ""
    """Why it is wanted: thresholds and figures, or what the user said."""
    dry_run: bool = True
    """It is only taken note of."""
    paused: bool = False
    """It waits until it is resumed."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=8, fail_fast=True)] = ()
    """Steps begun, in the order in which they began."""
    attempts: Count = 0
    """Eviction commands so far."""
    command_id: DecisionId | None = None
    """The newest eviction command."""
    replacement: PodRef | None = None
    """The pod that its owner made in its place."""
    deadline_ms: StateMs
    """It fails then if it is not done; a pause moves it."""
    created_at_ms: EpochMs
    """When it was created."""
    changed_at_ms: EpochMs
    """When its phase or a condition changed last."""


class MigrationRow(Message, Migration):
    """Kind `migrations`: one pod on its way, or a command that may still be carried out."""

    sequence: Count
    """Order of creation."""
    ignore_windows: bool = False
    """Maintenance windows do not hold it back."""
    ttl_ms: DurationMs
    """It is given up that long after it was created, pauses left out."""
    paused_at_ms: StateMs | None = None
    """Since when it is paused."""
    turn: Count = 0
    """Order in which it passed arbitration; 0: it has not."""
    gate: Annotated[str, Field(max_length=64)] = ""
    """Name of the gate that holds it back."""
    command_expires_at_ms: StateMs | None = None
    """The newest command may be carried out until then; none: nothing may come of it any more."""
    command_dry: bool = False
    """That command is marked dry."""
    evicted_at_ms: StateMs | None = None
    """When the pod's eviction was reported as done, or the pod was seen to be gone."""
    retry_at_ms: StateMs = 0
    """No further command before."""
    source_hot_before: bool = False
    """The source was above its high thresholds when the move was planned."""
    reserved: Pod | None = None
    """The pod for which room is held at `target_node`; none: no room is held."""


class MigrationStatus(Message, Migration):
    """`status`: a migration's phase or one of its conditions has changed (key: cluster)."""

    kind: Literal["migration"] = "migration"
    """Says what the record is."""
    happened_at_ms: EpochMs
    """The log's time."""
    as_of: AsOf
    """The state that it was computed from."""


class ProtectedPod(Part):
    """A pod that a drain leaves where it is."""

    pod: PodRef
    """The pod."""
    reason: _Text
    """Why it may not be evicted."""


#: Most protected pods that a drain's report names.
PROTECTED_NAMED_MAX = 20


class DrainStatus(Message):
    """`status`: how far the drain of a node has come (key: cluster)."""

    kind: Literal["drain"] = "drain"
    """Says what the record is."""
    cluster: ClusterName
    node: NodeName
    """The node."""
    phase: Literal["Draining", "Drained", "Undrained"]
    """Drained: no pod is left that may be evicted; the node still takes no new pods."""
    pods_left: Count
    """Pods on the node that may be evicted and are still there."""
    pods_protected: Count
    """Pods on the node that may not be evicted."""
    protected: Annotated[
        tuple[ProtectedPod, ...], Field(max_length=PROTECTED_NAMED_MAX, fail_fast=True)
    ] = ()
    """The first of them."""
    dry_run: bool = False
    """What it would do is only taken note of, and the node takes new pods; then it is over."""
    request_id: DecisionId
    """The request that drains it."""
    happened_at_ms: EpochMs
    """The log's time."""
    as_of: AsOf
    """The state that it was computed from."""


class MigrationRequest(Message):
    """`migration-requests`: what a user wants of migrations (key: cluster).

    migrate needs `pod`; drain and undrain need `node`; pause, resume and abort need `migration_id`
    or `pod`. What cannot be done is answered in `status` or goes to `dead-letters`.
    """

    request_id: DecisionId
    """Id of the request, chosen by who asks."""
    cluster: ClusterName
    action: Literal["migrate", "pause", "resume", "abort", "drain", "undrain"]
    """What is to be done."""
    pod: PodRef | None = None
    """The pod to migrate, or whose migration is meant."""
    migration_id: DecisionId | None = None
    """The migration that is meant."""
    node: NodeName | None = None
    """The node to drain or undrain."""
    mode: Mode | None = None
    """How to migrate; none: as the policy says."""
    ttl_ms: Annotated[int, Field(ge=1, le=TTL_MAX_MS, json_schema_extra={"unit": "ms"})] | None = (
        None
    )
    """How long a migration may take; none: as the policy says."""
    ignore_windows: bool = False
    """Maintenance windows do not hold back what is asked for here."""
    reason: Annotated[str, Field(max_length=1_000)] = ""
    """Why, in the user's words."""
    requested_at_ms: EpochMs
    """When it was asked for."""


class DrainRow(Message):
    """Kind `drains`: a node that takes no new pods and is being emptied."""

    cluster: ClusterName
    node: NodeName
    """The node."""
    request_id: DecisionId
    """The request that drains it."""
    since_ms: StateMs
    """When it began; 0: before the first tick of the clock."""
    drained: bool = False
    """It was reported as empty, and nothing has come to it since."""
    reason: Annotated[str, Field(max_length=1_000)] = ""
    """Why, in the user's words."""
    mode: Mode | None = None
    """How its pods are migrated; none: as the policy says."""
    ttl_ms: DurationMs | None = None
    """How long each may take; none: as the policy says."""
    ignore_windows: bool = False
    """Maintenance windows do not hold its migrations back."""
    dry_run: bool = False
    """Its migrations are only taken note of, one for each pod."""
    noted: Annotated[str, Field(max_length=128)] | None = None
    """Of a dry one: uid of the last pod, in their order, of which note was taken."""


class EvictionLimiterRow(Message):
    """Kind `eviction_limiters`: a token bucket that is not full."""

    cluster: ClusterName
    scope: Literal["cluster", "workload", "namespace"]
    """What it limits."""
    name: Annotated[str, Field(max_length=253)] = ""
    """uid of the workload's controller, or name of the namespace."""
    tokens: Count
    """Whole tokens."""
    part: Count
    """Part of the next token, in units of one over `parts`."""
    parts: Annotated[int, Field(ge=1, le=2**63 - 1)]
    """How many units one token has."""
    filled_at_ms: StateMs
    """Time up to which it has been filled."""


class WorkloadRow(Message):
    """Kind `workloads`: how many replicas an owner wants."""

    cluster: ClusterName
    workload: WorkloadState
    """What was said last."""
    lowered_at_ms: StateMs | None = None
    """When its replicas were lowered last, other than by the progress of a Job."""
    sequence: Count = 0
    """How many records of the cluster had been applied when it was named last."""


class DisruptionBudgetRow(Message):
    """Kind `disruption_budgets`: a budget, and what our own commands have taken from it since."""

    cluster: ClusterName
    budget: DisruptionBudget
    """What was said last."""
    charged: Annotated[tuple[str, ...], Field(fail_fast=True)] = ()
    """uids of pods that it covers, and that a command of ours is taking."""
    gone: Annotated[tuple[str, ...], Field(fail_fast=True)] = ()
    """uids of pods that our commands took and that its status does not reflect yet."""
    sequence: Count = 0
    """How many records of the cluster had been applied when it was named last."""


class MigrationStateRow(Message):
    """Kind `migration_state`: what belongs to all migrations of a cluster."""

    cluster: ClusterName
    arbitrated_at_ms: StateMs
    """Time of the arbitration before the next one."""
    created: Count
    """How many migrations have been created; numbers the next one."""
    passed: Count = 0
    """How many have passed arbitration; numbers the next one that does."""
