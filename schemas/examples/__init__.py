"""Examples of every message of every topic, as the published documents show them.

They tell one story: node worker-7 of the cluster prod-eu is measured, a pod is placed on it, a pod
of another node is to be evicted.

    story        what the examples share: the cluster, its node, two pods, the moment
    rebalancing  examples of rounds, commands, migrations and moves
"""

from collections.abc import Mapping

from schemas.base import Message
from schemas.checkpoints import CheckpointEnd, CheckpointPiece, CheckpointRow
from schemas.clock import ClockTick
from schemas.collect import CollectPolicyRecord
from schemas.deadletters import dead_letter
from schemas.decisions import NodeScore, PlacementDecision, ReasonCount, ScoreTerm
from schemas.examples.rebalancing import REBALANCING
from schemas.examples.story import (
    AS_OF,
    CLUSTER,
    GIB,
    LIST_BEGIN,
    LIST_END,
    NODE,
    NOW_MS,
    POD,
    REPORT,
    WEB,
)
from schemas.journal import JournalRecord
from schemas.metrics import AggregatedUsage, NodeMetric, PodMetric
from schemas.namespaces import NamespaceState, PriorityClassState
from schemas.nodes import NodeState, Taint
from schemas.outcomes import CommandOutcome
from schemas.pods import NodeRequirement, NodeSelectorTerm, PodLifecycle
from schemas.policies import PolicyRecord
from schemas.policy import CollectPolicies
from schemas.pressure import Pressure, ResourcePressure, Stalled
from schemas.refusals import Refusal
from schemas.requests import SchedulingRequest
from schemas.usage import HostApplicationUsage, MemoryReadings, NodeUsage, PodUsage
from schemas.volumes import PersistentVolumeClaimState, PersistentVolumeState
from schemas.workloads import DisruptionBudget, PodSelector, WorkloadState

_USAGE = NodeUsage(
    cluster=CLUSTER,
    node=NODE,
    pool="web",
    sampled_at_ms=NOW_MS,
    interval_ms=15_000,
    usage={"cpu": 7_340, "memory": 41 * GIB},
    memory=MemoryReadings(
        usage_without_page_cache_bytes=41 * GIB, usage_with_page_cache_bytes=57 * GIB
    ),
    system_usage={"cpu": 310, "memory": 2 * GIB},
    pods=(
        PodUsage(
            namespace=REPORT.namespace,
            name=REPORT.name,
            uid=REPORT.uid,
            usage={"cpu": 3_900, "memory": 11 * GIB},
            priority_class="koord-batch",
        ),
    ),
    host_applications=(HostApplicationUsage(name="node-cache", usage={"cpu": 120, "memory": GIB}),),
    pressure=Pressure(
        cpu=ResourcePressure(
            some=Stalled(avg10_bp=1_242, avg60_bp=941, avg300_bp=585, total_us=19_521_096_885)
        )
    ),
    source="agent",
)

_DEFAULT, _POOLS = CollectPolicies().of_nodes
_COLLECT = CollectPolicyRecord(cluster=CLUSTER, default=_DEFAULT, pools=_POOLS, as_of=AS_OF)

_DECISION = PlacementDecision(
    decision_id="d-5b1f0c9e2a7d4461",
    cluster=CLUSTER,
    pod=WEB,
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
    as_of=AS_OF,
)

_WAITING = PlacementDecision(
    decision_id="d-0e8a44b1c3f29d75",
    cluster=CLUSTER,
    pod=WEB,
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
    as_of=AS_OF,
)

#: Topic to its examples: at least one of every message that it carries.
EXAMPLES: Mapping[str, tuple[Message, ...]] = {
    "node-usage": (_USAGE, _COLLECT),
    "node-state": (
        NodeState(
            cluster=CLUSTER,
            node=NODE,
            event="added",
            list_id=LIST_BEGIN.list_id,
            allocatable={"cpu": "15890m", "memory": "62Gi", "pods": "110"},
            labels={"kubernetes.io/os": "linux", "pool": "web"},
            taints=(Taint(key="dedicated", value="web", effect="NoSchedule"),),
        ),
        LIST_BEGIN,
        LIST_END,
    ),
    "pod-lifecycle": (
        PodLifecycle(
            cluster=CLUSTER,
            event="bound",
            pod=POD.model_copy(update={"node": NODE, "scheduled_at_ms": NOW_MS + 40}),
        ),
        WorkloadState(
            cluster=CLUSTER,
            uid="b7c1",
            owner_kind="ReplicaSet",
            namespace=WEB.namespace,
            name="web-6d4cf56db6",
            replicas=6,
        ),
        DisruptionBudget(
            cluster=CLUSTER,
            namespace=WEB.namespace,
            name="web",
            selector=PodSelector(match_labels={"app": "web"}),
            disruptions_allowed=1,
            current_healthy=6,
            desired_healthy=5,
            expected_pods=6,
        ),
        NamespaceState(cluster=CLUSTER, name=WEB.namespace, labels={"team": "shop"}),
        PriorityClassState(cluster=CLUSTER, name="batch", value=5_500),
        PersistentVolumeState(
            cluster=CLUSTER,
            name="pvc-3f1c",
            phase="Bound",
            storage_class="fast",
            access_modes=("ReadWriteOnce",),
            capacity={"storage": "100Gi"},
            claim_namespace=WEB.namespace,
            claim_name="orders",
            required_node_affinity=(
                NodeSelectorTerm(
                    match_expressions=(
                        NodeRequirement(
                            key="topology.kubernetes.io/zone", operator="In", values=("eu-1a",)
                        ),
                    ),
                ),
            ),
            zone_labels={"topology.kubernetes.io/zone": "eu-1a"},
        ),
        PersistentVolumeClaimState(
            cluster=CLUSTER,
            namespace=WEB.namespace,
            name="orders",
            phase="Bound",
            storage_class="fast",
            access_modes=("ReadWriteOnce",),
            requests={"storage": "100Gi"},
            volume_name="pvc-3f1c",
        ),
        LIST_BEGIN,
        LIST_END,
    ),
    "scheduling-requests": (
        SchedulingRequest(cluster=CLUSTER, pod=POD, requested_at_ms=NOW_MS - 1_200),
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
            usage={"cpu": 7_120, "memory": 40 * GIB},
            system_usage={"cpu": 300, "memory": 2 * GIB},
            aggregated=(
                AggregatedUsage(
                    duration_ms=300_000,
                    usage={"avg": {"cpu": 7_120}, "p95": {"cpu": 8_930}, "p99": {"cpu": 9_410}},
                ),
            ),
            pods=(
                PodMetric(
                    namespace=REPORT.namespace,
                    name=REPORT.name,
                    usage={"cpu": 3_880, "memory": 11 * GIB},
                    priority_class="koord-batch",
                ),
            ),
            samples=20,
            pressure=Pressure(
                cpu=ResourcePressure(some=Stalled(avg10_bp=1_242, avg60_bp=941, avg300_bp=585))
            ),
            source="agent",
        ),
    ),
    "clock": (ClockTick(partition=2, now_ms=NOW_MS),),
    "journal": (
        JournalRecord(partition=2, epoch=0, sequence=0, opens=True),
        JournalRecord(
            partition=2,
            epoch=4,
            sequence=18_230,
            applied=1,
            rows=1,
            outputs=1,
            positions={"scheduling-requests": 7_001},
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
    "command-outcomes": (
        CommandOutcome(
            command_id=_DECISION.decision_id,
            cluster=CLUSTER,
            command="bind",
            pod=WEB,
            node=NODE,
            result="done",
            happened_at_ms=NOW_MS + 35,
        ),
    ),
    "dead-letters": (
        dead_letter(
            "node-usage", 1, 90_412, NOW_MS, b"prod-eu/worker-9", b'{"cluster":"prod-eu"}',
            Refusal("invalid", "node is missing; allowed is a string of 1 to 253 characters"),
        ),
    ),
    **REBALANCING,
}  # fmt: skip
