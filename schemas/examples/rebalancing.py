"""Examples of what rebalancing hears and says: a pod of a hot node is evicted, another node is
drained."""

from collections.abc import Mapping

from schemas.base import Message
from schemas.evictions import EvictionCommand
from schemas.examples.story import AS_OF, CLUSTER, GIB, NODE, NOW_MS, REPORT, WEB
from schemas.migrations import (
    Condition,
    DrainStatus,
    MigrationRequest,
    MigrationStatus,
    ProtectedPod,
)
from schemas.moves import MoveOutcome
from schemas.rounds import (
    HotNode,
    PodVerdict,
    PoolRound,
    Reading,
    RebalanceRound,
    ThresholdsInForce,
)

#: Topic to its examples.
REBALANCING: Mapping[str, tuple[Message, ...]] = {
    "eviction-commands": (
        EvictionCommand(
            command_id="e-91c7d2405fa83be6",
            cluster=CLUSTER,
            pod=REPORT,
            node="worker-12",
            reason="cpu 83 % is over the high threshold 70 % of pool web since 5 rounds",
            decided_at_ms=NOW_MS,
            expires_at_ms=NOW_MS + 300_000,
            migration_id="m-91c7d2405fa83be6",
            attempt=1,
            trigger="rebalance",
            retry_until_ms=NOW_MS + 300_000,
            as_of=AS_OF,
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
            pod=REPORT,
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
            as_of=AS_OF,
        ),
        DrainStatus(
            cluster=CLUSTER,
            node="worker-12",
            phase="Draining",
            pods_left=14,
            pods_protected=1,
            protected=(ProtectedPod(pod=REPORT, reason="owned by a DaemonSet"),),
            request_id="drain-worker-12",
            happened_at_ms=NOW_MS,
            as_of=AS_OF,
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
                                    pod=REPORT,
                                    target=NODE,
                                    usage={"cpu": 2_100, "memory": 4 * GIB},
                                    migration_id="m-4c1b7f0a92de5583",
                                ),
                                PodVerdict(
                                    pod=WEB,
                                    gate="workload: 1 of its 3 replicas is on its way; at most 1 may be",
                                    usage={"cpu": 900, "memory": 2 * GIB},
                                ),
                            ),
                        ),
                    ),
                ),
            ),
            as_of=AS_OF,
        ),
    ),
    "move-outcomes": (
        MoveOutcome(
            command_id="e-91c7d2405fa83be6",
            migration_id="m-4c1b7f0a92de5583",
            cluster=CLUSTER,
            pool="web",
            phase="node",
            pod=REPORT,
            owner="c51e8a90-2b7d-4e55-8f1c-7d20f4a1b6e2",
            source_node="worker-12",
            target_node=NODE,
            replacement=REPORT.model_copy(
                update={"name": "nightly-28931-q4t2m", "uid": "0b9c4f6e-77a1-4d0b-b0f5-6a1e2d3c4b5a"}
            ),
            source_hot_before=True,
            source_hot_after=False,
            target_hot_after=False,
            returned=False,
            moved_again=False,
            evicted_at_ms=NOW_MS - 600_000,
            ended_at_ms=NOW_MS,
            as_of=AS_OF,
        ),
    ),
}  # fmt: skip
