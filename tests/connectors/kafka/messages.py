"""One message of every class, as small as it may be and as specific as it can be."""

from typing import Any

from pydantic import BaseModel

from schemas.messages.checkpoints import CheckpointEnd, CheckpointPiece
from schemas.messages.clock import ClockTick
from schemas.messages.collect import CollectPolicyRecord
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import AsOf, NodeScore, PlacementDecision, ReasonCount, ScoreTerm
from schemas.messages.evictions import EvictionCommand
from schemas.messages.journal import JournalRecord
from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.metrics import AggregatedUsage, NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus, ProtectedPod
from schemas.messages.moves import MoveOutcome
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.nodes import NodeState, Taint
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import Container, Pod, PodLifecycle, PodRef
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.rounds import HotNode, PodVerdict, PoolRound, RebalanceRound
from schemas.messages.usage import NodeUsage, PodUsage
from schemas.messages.volumes import PersistentVolumeClaimState, PersistentVolumeState
from schemas.messages.workloads import DisruptionBudget, WorkloadState
from schemas.policy import CollectPolicies
from schemas.topics.codec import encode

NOW_MS = 1_795_000_000_000
GIB = 2**30

REF = PodRef(namespace="web", name="front-1", uid="u1")
POD = Pod(
    namespace="web", name="front-1", uid="u1", priority=9000,
    containers=(Container(requests={"cpu": "500m", "memory": "1Gi"}), Container()),
)  # fmt: skip
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")


def usage(cluster: str = "blue", node: str = "n1", **more: Any) -> NodeUsage:
    """A usage sample."""
    values: dict[str, Any] = {
        "sampled_at_ms": NOW_MS,
        "usage": {"cpu": 1500, "memory": 3 * GIB},
    } | more
    return NodeUsage(cluster=cluster, node=node, **values)


def decision(**more: Any) -> PlacementDecision:
    """A placement decision: that there is no node yet, unless said otherwise."""
    values: dict[str, Any] = {
        "decision_id": "decision-1", "cluster": "blue", "pod": REF, "outcome": "waiting",
        "decided_at_ms": NOW_MS, "as_of": AS_OF,
    }  # fmt: skip
    return PlacementDecision(**(values | more))


def journal_batch(partition: int, offsets: dict[str, int]) -> bytes:
    """A batch of the journal, after which so much of each input topic was applied."""
    return encode(JournalRecord(partition=partition, epoch=1, sequence=1, positions=offsets))


#: Topic, message, its record's time (None: it has none), and what `tail` shows of it.
EXAMPLES: list[tuple[str, BaseModel, int | None, str]] = [
    (
        "node-usage",
        usage(
            interval_ms=60_000, pool="batch",
            pods=(PodUsage(namespace="web", name="front-1", uid="u1", usage={"cpu": 1}),),
        ),
        NOW_MS,
        "node n1 used cpu 1.5, memory 3Gi over 1m; 1 pod, pool batch",
    ),
    (
        "node-state",
        NodeState(
            cluster="blue", node="n1", event="added", list_id="L1",
            allocatable={"cpu": "16", "memory": "64Gi"}, unschedulable=True,
            taints=(Taint(key="a", effect="NoSchedule"), Taint(key="b", effect="NoExecute")),
        ),
        None,
        "node n1 added: cpu 16, memory 64Gi, 2 taints, unschedulable (full list L1)",
    ),
    (
        "node-state",
        NodeState(cluster="blue", node="n1", event="removed"),
        None,
        "node n1 removed",
    ),
    ("node-state", ListBegin(cluster="blue", list_id="L1"), None, "full list L1 begins"),
    (
        "pod-lifecycle",
        ListEnd(cluster="blue", list_id="L1"),
        None,
        "full list L1 ends; what it lacks is gone",
    ),
    (
        "pod-lifecycle",
        PodLifecycle(
            cluster="blue", event="seen",
            pod=Pod(namespace="web", name="front-1", uid="u1", node="n1", phase="Running"),
        ),
        None,
        "pod web/front-1 seen on n1 (Running)",
    ),
    (
        "scheduling-requests",
        SchedulingRequest(cluster="blue", pod=POD, requested_at_ms=NOW_MS),
        NOW_MS,
        "pod web/front-1 wants a node for cpu 500m, memory 1Gi, priority 9000",
    ),
    (
        "scheduling-requests",
        SchedulingRequest(cluster="blue", pod=POD, requested_at_ms=NOW_MS, withdrawn=True),
        NOW_MS,
        "pod web/front-1 does not want a node any more",
    ),
    (
        "node-usage",
        CollectPolicyRecord(
            cluster="blue", default=CollectPolicies().of_pool(None).of_node,
            pools={"web": CollectPolicies().of_pool("web").of_node}, as_of=AS_OF,
        ),
        None,
        "samples become metrics each 1m, averages over 5m, percentiles over 5m, 10m, 30m; 1 pool otherwise",
    ),
    (
        "policies",
        PolicyRecord(
            cluster="blue", document="a: 1\nb: 2\n", paused=True, applied_at_ms=NOW_MS,
            reason="night",
        ),
        NOW_MS,
        "policy of 2 lines; paused: night",
    ),
    (
        "node-metrics",
        NodeMetric(
            cluster="blue", node="n1", updated_at_ms=NOW_MS, usage={"cpu": 250},
            aggregated=(AggregatedUsage(duration_ms=300_000, usage={"p95": {"cpu": 750}}),),
        ),
        NOW_MS,
        "node n1: average cpu 0.25; p95 over 5m cpu 0.75; 0 pods (until 2026-11-18 11:06:40.000)",
    ),
    (
        "node-metrics",
        NodeMetric(cluster="blue", node="n1"),
        None,
        "node n1: usage unknown; 0 pods (never updated)",
    ),
    (
        "clock",
        ClockTick(partition=3, now_ms=NOW_MS + 1),
        NOW_MS + 1,
        "partition 3: it is 2026-11-18 11:06:40.001",
    ),
    (
        "journal",
        JournalRecord(partition=2, epoch=0, sequence=0, opens=True),
        None,
        "a new writer takes partition 2 over; its epoch is the offset of this record",
    ),
    (
        "journal",
        JournalRecord(partition=2, epoch=1, sequence=9, parts=2, applied=3, rows=1, outputs=2),
        None,
        "partition 2 epoch 1 batch 9 part 1 of 2: applied 3 inputs; 1 row changed, 2 outputs",
    ),
    (
        "checkpoints",
        CheckpointPiece(
            partition=2, epoch=1, sequence=9, offset=12, now_ms=NOW_MS, piece=0,
        ),
        None,
        "partition 2 checkpoint of epoch 1 batch 9, journal offset 12: piece 1",
    ),
    (
        "checkpoints",
        CheckpointPiece(
            partition=2, epoch=1, sequence=9, offset=12, piece=1,
            end=CheckpointEnd(pieces=1, rows=1, sha256="ab" * 32),
        ),
        None,
        "partition 2 checkpoint of epoch 1 batch 9, journal offset 12: piece 2, the last; 1 row in all, "
        "sha256 abababababab",
    ),
    (
        "placement-decisions",
        decision(
            outcome="placed", node="n7", nodes=20, stale_nodes=2, refused_by={"fit": 3, "load": 1},
            winner=NodeScore(node="n7", total=87, terms=(ScoreTerm(plugin="load", score=87, weight=1),)),
            runners_up=(NodeScore(node="n3", total=80),),
        ),
        NOW_MS,
        "pod web/front-1 placed on n7 with 87 (load 87×1); before n3 80; 20 nodes, 4 refused, "
        "2 without a fresh metric",
    ),
    (
        "placement-decisions",
        decision(
            nodes=6, attempt=2, retry_after_ms=10_000, message="no node",
            reasons=tuple(ReasonCount(reason=f"reason {n}", nodes=n) for n in (3, 2, 1, 1)),
        ),
        NOW_MS,
        "pod web/front-1 waits for a node (attempt 2): no node; 3 nodes: reason 3; "
        "2 nodes: reason 2; 1 node: reason 1; 1 further reason; not tried again for 10s",
    ),
    (
        "eviction-commands",
        EvictionCommand(
            command_id="command-1", cluster="blue", pod=REF, node="n1", reason="cpu 91 % > 80 %",
            decided_at_ms=NOW_MS, expires_at_ms=NOW_MS + 60_000, as_of=AS_OF,
        ),
        NOW_MS,
        "dry run, take note only: evict pod web/front-1 from n1 until 2026-11-18 11:07:40.000: "
        "cpu 91 % > 80 %",
    ),
    (
        "command-outcomes",
        CommandOutcome(
            command_id="decision-1", cluster="blue", command="bind", pod=REF, node="n7",
            result="failed", reason="conflict", happened_at_ms=NOW_MS,
        ),
        NOW_MS,
        "binding pod web/front-1 to n7 failed: conflict",
    ),
    (
        "status",
        RebalanceRound(
            round_id="round-01", cluster="blue", decided_at_ms=NOW_MS, dry_run=True, as_of=AS_OF,
            pools=(
                PoolRound(
                    pool="web", nodes={"low": 3, "normal": 0, "high": 2}, wanted=2, leaving=1,
                    hot=(
                        HotNode(
                            node="n1", phase="node", readings={}, abnormal_rounds=5, leaving=1,
                            pods=(PodVerdict(pod=REF, target="n7"),),
                        ),
                        HotNode(
                            node="n2", phase="node", readings={}, abnormal_rounds=3,
                            gate="hot for 3 of 5 rounds",
                        ),
                    ),
                    hot_left_out=2,
                ),
                PoolRound(pool="batch", gate="no node is lightly loaded"),
            ),
        ),
        NOW_MS,
        "dry run: round: pool web: 3 low, 2 high; 1 of 2 wanted pods leave; hot: n1 (1 leave), n2 "
        "(hot for 3 of 5 rounds) and 2 more; pool batch stopped: no node is lightly loaded",
    ),
    (
        "status",
        RebalanceRound(
            round_id="round-02", cluster="blue", decided_at_ms=NOW_MS, dry_run=False, as_of=AS_OF,
            gate="rebalancing is paused",
        ),
        NOW_MS,
        "round stopped: rebalancing is paused",
    ),
    (
        "status",
        MigrationStatus(
            cluster="blue", migration_id="migration-1", pod=REF, source_node="n1", target_node="n7",
            mode="EvictDirectly", phase="Running", reason="Evicting", message="command 1 of 3",
            trigger="rebalance", dry_run=False, deadline_ms=NOW_MS + 1, created_at_ms=NOW_MS,
            changed_at_ms=NOW_MS, happened_at_ms=NOW_MS + 2, as_of=AS_OF,
        ),
        NOW_MS + 2,
        "migration migration-1 of pod web/front-1 from n1 to n7: Running (Evicting): command 1 of 3",
    ),
    (
        "status",
        DrainStatus(
            cluster="blue", node="n1", phase="Draining", pods_left=1, pods_protected=2,
            protected=(ProtectedPod(pod=REF, reason="owned by a DaemonSet"),),
            request_id="request-1", happened_at_ms=NOW_MS, as_of=AS_OF,
        ),
        NOW_MS,
        "node n1 draining: 1 pod left, 2 protected; not evicted: web/front-1 (owned by a DaemonSet)",
    ),
    (
        "status",
        DrainStatus(
            cluster="blue", node="n1", phase="Drained", pods_left=1, pods_protected=0, dry_run=True,
            request_id="request-1", happened_at_ms=NOW_MS, as_of=AS_OF,
        ),
        NOW_MS,
        "dry run: node n1 drained: 1 pod left, 0 protected",
    ),
    (
        "migration-requests",
        MigrationRequest(
            request_id="request-1", cluster="blue", action="drain", node="n1", reason="new disk",
            requested_at_ms=NOW_MS,
        ),
        NOW_MS,
        "drain node n1, asked for by request request-1: new disk",
    ),
    (
        "migration-requests",
        MigrationRequest(
            request_id="request-2", cluster="blue", action="abort", pod=REF, requested_at_ms=NOW_MS
        ),
        NOW_MS,
        "abort pod web/front-1, asked for by request request-2",
    ),
    (
        "status",
        MoveOutcome(
            command_id="command-1", migration_id="migration-1", cluster="blue", pool="web",
            phase="node", pod=REF, owner="rs-1", source_node="n1", target_node="n7",
            source_hot_before=True, source_hot_after=False, returned=False, moved_again=True,
            evicted_at_ms=NOW_MS, ended_at_ms=NOW_MS + 600_000, as_of=AS_OF,
        ),
        NOW_MS + 600_000,
        "pod web/front-1 moved from n1 at 2026-11-18 11:06:40.000: n1 was hot before, not hot after; "
        "the replacement came to n7, not measured after; it was moved again",
    ),
    (
        "pod-lifecycle",
        WorkloadState(
            cluster="blue", uid="rs-1", owner_kind="ReplicaSet", namespace="web", name="front",
            replicas=3, list_id="L1",
        ),
        None,
        "ReplicaSet web/front wants 3 replicas (full list L1)",
    ),
    (
        "pod-lifecycle",
        WorkloadState(
            cluster="blue", uid="rs-1", owner_kind="ReplicaSet", namespace="web", name="front",
            removed=True,
        ),
        None,
        "ReplicaSet web/front is gone",
    ),
    (
        "pod-lifecycle",
        DisruptionBudget(
            cluster="blue", namespace="web", name="front", disruptions_allowed=1, current_healthy=3,
            desired_healthy=2, expected_pods=3,
        ),
        None,
        "disruption budget web/front allows 1 disruption; 3 of 3 pods healthy, 2 wanted",
    ),
    (
        "pod-lifecycle",
        DisruptionBudget(cluster="blue", namespace="web", name="front", removed=True),
        None,
        "disruption budget web/front is gone",
    ),
    (
        "pod-lifecycle",
        NamespaceState(cluster="blue", name="web", labels={"team": "a", "b": "c"}, list_id="L1"),
        None,
        "namespace web has the labels b=c, team=a (full list L1)",
    ),
    (
        "pod-lifecycle",
        NamespaceState(cluster="blue", name="web", removed=True),
        None,
        "namespace web is gone",
    ),
    (
        "pod-lifecycle",
        PriorityClassState(cluster="blue", name="batch", value=-5),
        None,
        "priority class batch has the value -5",
    ),
    (
        "pod-lifecycle",
        PriorityClassState(cluster="blue", name="batch", removed=True),
        None,
        "priority class batch is gone",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeState(
            cluster="blue", name="pv-1", phase="Bound", claim_namespace="web", claim_name="orders",
            zone_labels={"topology.kubernetes.io/zone": "eu-1a"}, list_id="L1",
        ),
        None,
        "volume pv-1 is Bound to claim web/orders, eu-1a (full list L1)",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeState(cluster="blue", name="pv-1"),
        None,
        "volume pv-1 is there",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeState(cluster="blue", name="pv-1", removed=True),
        None,
        "volume pv-1 is gone",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeClaimState(
            cluster="blue", namespace="web", name="orders", phase="Pending", storage_class="fast",
        ),
        None,
        "volume claim web/orders of class fast is Pending",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeClaimState(
            cluster="blue", namespace="web", name="orders", phase="Bound", volume_name="pv-1",
            list_id="L1",
        ),
        None,
        "volume claim web/orders is Bound to volume pv-1 (full list L1)",
    ),
    (
        "pod-lifecycle",
        PersistentVolumeClaimState(cluster="blue", namespace="web", name="orders", removed=True),
        None,
        "volume claim web/orders is gone",
    ),
    (
        "dead-letters",
        DeadLetter(
            topic="clock", partition=1, offset=5, reason="now_ms is missing", category="invalid",
            value_base64="e30=",
        ),
        None,
        "clock partition 1 offset 5 was not applied (invalid, 2 bytes): now_ms is missing",
    ),
    (
        "dead-letters",
        DeadLetter(
            topic="clock", partition=1, offset=5, reason="too much", category="limit",
            value_base64="e30K" * 1024, encoding="zlib+base64",
        ),
        None,
        "clock partition 1 offset 5 was not applied (limit, 3Ki compressed): too much",
    ),
]  # fmt: skip
