"""Examples of every message of every topic, as the published documents show them.

They tell one story: node worker-7 of the cluster prod-eu is measured, a pod is placed on it, a pod of
another node is to be evicted.
"""

from collections.abc import Mapping

from schemas.base import Message
from schemas.checkpoints import CheckpointEnd, CheckpointPiece, CheckpointRow
from schemas.clock import ClockTick
from schemas.codec import encode
from schemas.deadletters import dead_letter
from schemas.decisions import AsOf, NodeScore, PlacementDecision, ReasonCount, ScoreTerm
from schemas.evictions import EvictionCommand
from schemas.journal import InputRun, JournalRecord, Output, RowChange
from schemas.lists import ListBegin, ListEnd
from schemas.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.migrations import (
    Condition,
    DrainStatus,
    MigrationRequest,
    MigrationStatus,
    ProtectedPod,
)
from schemas.moves import LoadReading, MoveOutcome
from schemas.nodes import NodeState, Taint
from schemas.outcomes import CommandOutcome
from schemas.pods import Container, OwnerReference, Pod, PodLifecycle, PodRef, Toleration
from schemas.policies import PolicyRecord
from schemas.refusals import Refusal
from schemas.requests import SchedulingRequest
from schemas.rounds import (
    HotNode,
    PodVerdict,
    PoolRound,
    Reading,
    RebalanceRound,
    ThresholdsInForce,
)
from schemas.usage import HostApplicationUsage, MemoryReadings, NodeUsage, PodUsage
from schemas.workloads import DisruptionBudget, PodSelector, WorkloadState

CLUSTER = "prod-eu"
NODE = "worker-7"
NOW_MS = 1_793_181_600_000

_GIB = 2**30
_LIST_BEGIN = ListBegin(cluster=CLUSTER, list_id="prod-eu-1793181600000")
_LIST_END = ListEnd(cluster=CLUSTER, list_id="prod-eu-1793181600000")
_WEB = PodRef(
    namespace="shop", name="web-6d4cf56db6-x2x7q", uid="2f6a1c1e-7b0e-4c39-9a55-0d1b8e6f4a10"
)
_REPORT = PodRef(
    namespace="reports", name="nightly-28931-lw9bz", uid="8f0d7c52-51a5-4ef2-8f0e-9d6f3f1b2c77"
)
_AS_OF = AsOf(
    partition=2,
    offsets={"clock": 86_399, "node-metrics": 51_200, "node-state": 412, "pod-lifecycle": 9_310,
             "policies": 3, "scheduling-requests": 7_001},
    policy_digest="9c2f1d7be0a4",
)  # fmt: skip

_POD = Pod(
    namespace=_WEB.namespace,
    name=_WEB.name,
    uid=_WEB.uid,
    scheduler="loadstream",
    priority=9_500,
    qos_class="Burstable",
    labels={"app": "web", "koordinator.sh/qosClass": "LS"},
    owners=(OwnerReference(kind="ReplicaSet", name="web-6d4cf56db6", uid="b7c1", controller=True),),
    containers=(
        Container(
            requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1.5Gi"}
        ),
    ),
    node_selector={"kubernetes.io/os": "linux"},
    tolerations=(Toleration(key="dedicated", operator="Equal", value="web", effect="NoSchedule"),),
    created_at_ms=NOW_MS - 1_500,
)

_USAGE = NodeUsage(
    cluster=CLUSTER,
    node=NODE,
    pool="web",
    sampled_at_ms=NOW_MS,
    interval_ms=15_000,
    usage={"cpu": 7_340, "memory": 41 * _GIB},
    memory=MemoryReadings(
        usage_without_page_cache_bytes=41 * _GIB, usage_with_page_cache_bytes=57 * _GIB
    ),
    system_usage={"cpu": 310, "memory": 2 * _GIB},
    pods=(
        PodUsage(
            namespace=_REPORT.namespace,
            name=_REPORT.name,
            uid=_REPORT.uid,
            usage={"cpu": 3_900, "memory": 11 * _GIB},
            priority_class="koord-batch",
        ),
    ),
    host_applications=(
        HostApplicationUsage(name="node-cache", usage={"cpu": 120, "memory": _GIB}),
    ),
)

_DECISION = PlacementDecision(
    decision_id="d-5b1f0c9e2a7d4461",
    cluster=CLUSTER,
    pod=_WEB,
    outcome="placed",
    node=NODE,
    decided_at_ms=NOW_MS,
    expires_at_ms=NOW_MS + 60_000,
    nodes=120,
    stale_nodes=1,
    refused_by={"NodeResourcesFit": 14, "LoadAwareScheduling": 9},
    message="placed on worker-7",
    winner=NodeScore(
        node=NODE, total=71, terms=(ScoreTerm(plugin="LoadAwareScheduling", score=71, weight=1),)
    ),
    runners_up=(NodeScore(node="worker-3", total=70),),
    as_of=_AS_OF,
)

_WAITING = PlacementDecision(
    decision_id="d-0e8a44b1c3f29d75",
    cluster=CLUSTER,
    pod=_WEB,
    outcome="waiting",
    decided_at_ms=NOW_MS,
    attempt=2,
    nodes=5,
    stale_nodes=2,
    refused_by={"LoadAwareScheduling": 5},
    reasons=(
        ReasonCount(reason="node(s) cpu usage exceed threshold", nodes=3),
        ReasonCount(reason="node(s) nodeMetric expired", nodes=2),
    ),
    message="0 of 5 nodes: 3 cpu usage exceed threshold; 2 nodeMetric expired",
    retry_after_ms=4_000,
    as_of=_AS_OF,
)

#: Topic to its examples: at least one of every message that it carries.
EXAMPLES: Mapping[str, tuple[Message, ...]] = {
    "node-usage": (_USAGE,),
    "node-state": (
        NodeState(
            cluster=CLUSTER,
            node=NODE,
            event="added",
            list_id=_LIST_BEGIN.list_id,
            allocatable={"cpu": "15890m", "memory": "62Gi", "pods": "110"},
            labels={"kubernetes.io/os": "linux", "pool": "web"},
            taints=(Taint(key="dedicated", value="web", effect="NoSchedule"),),
        ),
        _LIST_BEGIN,
        _LIST_END,
    ),
    "pod-lifecycle": (
        PodLifecycle(
            cluster=CLUSTER,
            event="bound",
            pod=_POD.model_copy(update={"node": NODE, "scheduled_at_ms": NOW_MS + 40}),
        ),
        WorkloadState(
            cluster=CLUSTER,
            uid="b7c1",
            owner_kind="ReplicaSet",
            namespace=_WEB.namespace,
            name="web-6d4cf56db6",
            replicas=6,
        ),
        DisruptionBudget(
            cluster=CLUSTER,
            namespace=_WEB.namespace,
            name="web",
            selector=PodSelector(match_labels={"app": "web"}),
            disruptions_allowed=1,
            current_healthy=6,
            desired_healthy=5,
            expected_pods=6,
        ),
        _LIST_BEGIN,
        _LIST_END,
    ),
    "scheduling-requests": (
        SchedulingRequest(cluster=CLUSTER, pod=_POD, requested_at_ms=NOW_MS - 1_200),
    ),
    "policies": (
        PolicyRecord(
            cluster=CLUSTER,
            document="mode: enforce\nloadAware:\n  usageThresholds: {cpu: 65, memory: 95}\n",
            applied_at_ms=NOW_MS,
            comment="as before the sale",
        ),
    ),
    "node-metrics": (
        NodeMetric(
            cluster=CLUSTER,
            node=NODE,
            updated_at_ms=NOW_MS,
            report_interval_ms=60_000,
            usage={"cpu": 7_120, "memory": 40 * _GIB},
            system_usage={"cpu": 300, "memory": 2 * _GIB},
            aggregated=(
                AggregatedUsage(
                    duration_ms=300_000,
                    usage={"avg": {"cpu": 7_120}, "p95": {"cpu": 8_930}, "p99": {"cpu": 9_410}},
                ),
            ),
            pods=(
                PodMetric(
                    namespace=_REPORT.namespace,
                    name=_REPORT.name,
                    usage={"cpu": 3_880, "memory": 11 * _GIB},
                    priority_class="koord-batch",
                ),
            ),
            samples=20,
        ),
    ),
    "clock": (ClockTick(partition=2, now_ms=NOW_MS),),
    "journal": (
        JournalRecord(
            partition=2,
            epoch=4,
            sequence=18_230,
            inputs=(InputRun(topic="scheduling-requests", first_offset=7_001, last_offset=7_001),),
            rows=(RowChange(table="pending_requests", key=f"2/{CLUSTER}/{_WEB.uid}"),),
            outputs=(
                Output(topic="placement-decisions", key=CLUSTER, value=encode(_DECISION).decode()),
            ),
        ),
    ),
    "checkpoints": (
        CheckpointPiece(
            partition=2,
            epoch=4,
            sequence=18_230,
            offset=18_237,
            now_ms=NOW_MS,
            piece=0,
            rows=(
                CheckpointRow(
                    table="workloads", key=f"2/{CLUSTER}/web", value='{"cluster":"prod-eu","schema_version":1}'
                ),
            ),
        ),
        CheckpointPiece(
            partition=2,
            epoch=4,
            sequence=18_230,
            offset=18_237,
            now_ms=NOW_MS,
            piece=1,
            end=CheckpointEnd(pieces=1, rows=1, sha256="f79b1b83d0b6d48d56379458ac442995eab51d6801b465e6bef17d8cb73d9ae9"),
        ),
    ),
    "placement-decisions": (_DECISION, _WAITING),
    "eviction-commands": (
        EvictionCommand(
            command_id="e-91c7d2405fa83be6",
            cluster=CLUSTER,
            pod=_REPORT,
            node="worker-12",
            reason="cpu 83 % is over the high threshold 70 % of pool web since 5 rounds",
            decided_at_ms=NOW_MS,
            expires_at_ms=NOW_MS + 300_000,
            migration_id="m-91c7d2405fa83be6",
            attempt=1,
            trigger="rebalance",
            retry_until_ms=NOW_MS + 300_000,
            as_of=_AS_OF,
        ),
    ),
    "migration-requests": (
        MigrationRequest(
            request_id="drain-worker-12",
            cluster=CLUSTER,
            action="drain",
            node="worker-12",
            reason="its fan is failing",
            requested_at_ms=NOW_MS,
        ),
    ),
    "migration-status": (
        MigrationStatus(
            cluster=CLUSTER,
            migration_id="m-91c7d2405fa83be6",
            pod=_REPORT,
            source_node="worker-12",
            target_node=NODE,
            mode="ReservationFirst",
            phase="Running",
            reason="Evicting",
            message="eviction commanded, attempt 1",
            trigger="rebalance",
            cause="cpu 83 % is over the high threshold 70 % of pool web since 5 rounds",
            conditions=(
                Condition(type="ReservationCreated", status=True, changed_at_ms=NOW_MS - 1_000),
                Condition(type="ReservationScheduled", status=True, changed_at_ms=NOW_MS - 1_000),
                Condition(type="Eviction", status=False, reason="Evicting", changed_at_ms=NOW_MS),
            ),
            attempts=1,
            command_id="e-91c7d2405fa83be6",
            deadline_ms=NOW_MS + 300_000,
            created_at_ms=NOW_MS - 1_000,
            changed_at_ms=NOW_MS,
            happened_at_ms=NOW_MS,
            as_of=_AS_OF,
        ),
        DrainStatus(
            cluster=CLUSTER,
            node="worker-12",
            phase="Draining",
            pods_left=14,
            pods_protected=1,
            protected=(ProtectedPod(pod=_REPORT, reason="owned by a DaemonSet"),),
            request_id="drain-worker-12",
            happened_at_ms=NOW_MS,
            as_of=_AS_OF,
        ),
    ),
    "command-outcomes": (
        CommandOutcome(
            command_id=_DECISION.decision_id,
            cluster=CLUSTER,
            command="bind",
            pod=_WEB,
            node=NODE,
            result="done",
            happened_at_ms=NOW_MS + 35,
        ),
    ),
    "rebalance-rounds": (
        RebalanceRound(
            round_id="r-5d0e92b7c4a1f368",
            cluster=CLUSTER,
            decided_at_ms=NOW_MS,
            dry_run=False,
            pools=(
                PoolRound(
                    pool="web",
                    nodes={"low": 9, "normal": 30, "high": 1},
                    thresholds=ThresholdsInForce(
                        low={"cpu": 45.0}, high={"cpu": 70.0}, source="as configured"
                    ),
                    rounds_needed=5,
                    wanted=2,
                    leaving=1,
                    hot=(
                        HotNode(
                            node="worker-12",
                            phase="node",
                            readings={"cpu": Reading(used=12_840, limit=11_123, capacity=15_890)},
                            abnormal_rounds=7,
                            leaving=1,
                            pods=(
                                PodVerdict(
                                    pod=_REPORT,
                                    target=NODE,
                                    usage={"cpu": 2_100, "memory": 4 * _GIB},
                                    migration_id="m-4c1b7f0a92de5583",
                                ),
                                PodVerdict(
                                    pod=_WEB,
                                    gate="workload: 1 of its 3 replicas is on its way; at most 1 may be",
                                    usage={"cpu": 900, "memory": 2 * _GIB},
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            as_of=_AS_OF,
        ),
    ),
    "move-outcomes": (
        MoveOutcome(
            command_id="e-91c7d2405fa83be6",
            migration_id="m-4c1b7f0a92de5583",
            cluster=CLUSTER,
            pool="web",
            phase="node",
            pod=_REPORT,
            owner="c51e8a90-2b7d-4e55-8f1c-7d20f4a1b6e2",
            source_node="worker-12",
            target_node=NODE,
            replacement=_REPORT.model_copy(
                update={"name": "nightly-28931-q4t2m", "uid": "0b9c4f6e-77a1-4d0b-b0f5-6a1e2d3c4b5a"}
            ),
            dry_run=False,
            verdict="helped",
            message="worker-12 cooled to cpu 64.5 % of at most 70 % after 2m; worker-7 stayed below its threshold; the replacement was ready after 21s",
            source=LoadReading(
                resource="cpu", used=10_249, limit=11_123, capacity=15_890, read_at_ms=NOW_MS - 480_000
            ),
            cooled_after_ms=120_000,
            target=LoadReading(
                resource="cpu", used=7_627, limit=11_123, capacity=15_890, read_at_ms=NOW_MS - 480_000
            ),
            ready_after_ms=21_000,
            evicted_at_ms=NOW_MS - 600_000,
            judged_at_ms=NOW_MS,
            as_of=_AS_OF,
        ),
    ),
    "dead-letters": (
        dead_letter(
            "node-usage", 1, 90_412, NOW_MS, b"prod-eu/worker-9", b'{"cluster":"prod-eu"}',
            Refusal("invalid", "node is missing; allowed is a string of 1 to 253 characters"),
        ),
    ),
}  # fmt: skip
