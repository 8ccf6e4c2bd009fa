"""Sections of `loadstream status`."""

from typing import Any

from connectors.kafka.admin import Group, Member
from connectors.kafka.extents import Extent
from connectors.queries.cluster_reading import ClusterRecords
from connectors.queries.status_processes import Section
from connectors.queries.status_sections import cluster_sections
from schemas.messages.decisions import AsOf, PlacementDecision, ReasonCount
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeState
from schemas.messages.pods import PodRef
from schemas.messages.policies import PolicyRecord

NOW_MS = 1_795_000_000_000
MINUTE_MS = 60_000
CLUSTER = "blue"
BINDER = f"loadstream-bind-{CLUSTER}"
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")
#: Members with and without the cluster's partition of the leadership topic.
ACTIVE = Member("10.0.0.1", frozenset({("placement-decisions", 0)}))
STANDBY = Member("10.0.0.2", frozenset({("placement-decisions", 1)}))


def records(**more: Any) -> ClusterRecords:
    """Return the records of a cluster with one measured node and a worker."""
    values: dict[str, Any] = {
        "tick_ms": NOW_MS - 1_000,
        "groups": {"loadstream": Group((Member("10.0.0.9", frozenset()),), {})},
        **measured({"n1": 1_000}),
    }
    return ClusterRecords(CLUSTER, NOW_MS, **(values | more))


def measured(cpu: dict[str, int], age_ms: int = 30_000, source: str = "kubelet") -> dict[str, Any]:
    """Return nodes of 4 cores and metrics with this CPU usage."""
    metrics = {
        name: NodeMetric(
            cluster=CLUSTER, node=name, usage={"cpu": usage}, updated_at_ms=NOW_MS - age_ms, source=source
        )
        for name, usage in cpu.items()
    }  # fmt: skip
    nodes = {
        name: NodeState(cluster=CLUSTER, node=name, event="added", allocatable={"cpu": "4"})
        for name in cpu
    }
    return {"metrics": metrics, "nodes": nodes}


def decision(name: str, outcome: str, reason: str = "") -> PlacementDecision:
    reasons = (ReasonCount(reason=reason, nodes=3),) if reason else ()
    return PlacementDecision(
        decision_id=f"decision-{name}", cluster=CLUSTER, pod=pod(name), outcome=outcome,  # type: ignore[arg-type]
        reasons=reasons, decided_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip


def pod(name: str) -> PodRef:
    return PodRef(namespace="shop", name=name, uid=name)


def migration(name: str, **more: Any) -> MigrationStatus:
    values: dict[str, Any] = {"phase": "Succeeded", "dry_run": False} | more
    return MigrationStatus(
        cluster=CLUSTER, migration_id=f"migration-{name}", pod=pod(name), source_node="n1", target_node="n2",
        mode="ReservationFirst", trigger="rebalance", deadline_ms=NOW_MS, created_at_ms=NOW_MS,
        changed_at_ms=NOW_MS, happened_at_ms=NOW_MS, as_of=AS_OF, **values,
    )  # fmt: skip


def section(name: str, of: ClusterRecords) -> Section:
    (match,) = (entry for entry in cluster_sections(of) if entry.name == name)
    return match


def test_the_lag_of_usage_samples_is_that_of_all_partitions() -> None:
    group = Group((), {("node-usage", 1): 5})
    behind = {"groups": {"loadstream": group}, "extents": {"node-usage": (Extent(0, 0, 9), Extent(1, 0, 26))}}  # fmt: skip
    workers = section("workers", records(**behind))
    assert workers.data["samples_to_apply"] == 21


def test_the_process_with_the_partition_of_the_cluster_is_active() -> None:
    duties = section("duties", records(groups={BINDER: Group((STANDBY, ACTIVE), {})}))
    assert duties.data["bind"] == {
        "running": 2, "active_at": "10.0.0.1", "records_to_read": None, "newest_outcome_ms": None,
    }  # fmt: skip


def test_a_stopped_duty_has_a_backlog() -> None:
    gone = Group((), {("placement-decisions", 0): 40})
    extents = {"placement-decisions": (Extent(0, 0, 47), Extent(1, 0, 900))}
    duties = section("duties", records(groups={BINDER: gone}, extents=extents))
    assert duties.data["bind"]["records_to_read"] == 7


def test_nodes_without_measurements_are_counted() -> None:
    one = records()
    one.nodes["n2"] = one.nodes["n1"].model_copy(update={"node": "n2"})
    assert section("usage", one).data["nodes_without_metric"] == 1


def test_the_hottest_nodes_are_ranked_by_their_highest_usage() -> None:
    cpu = {f"n{number}": 100 * number for number in range(9)}
    hottest = section("nodes", records(**measured(cpu))).data["hottest"]
    assert [row["node"] for row in hottest] == ["n8", "n7", "n6", "n5", "n4"]
    assert hottest[0]["percent"] == {"cpu": 20.0}


def test_the_reasons_of_waiting_pods_are_counted() -> None:
    decisions = [
        decision("a", "waiting", "Insufficient cpu"), decision("b", "expired", "Insufficient cpu"),
        decision("c", "waiting", "taint"), decision("d", "placed"), decision("e", "refused", "taint"),
        decision("f", "withdrawn", "taint"),
    ]  # fmt: skip
    pods = section("pods", records(decisions={pod.pod.uid: pod for pod in decisions}))
    assert (pods.data["waiting"], pods.data["refused"]) == (3, 1)
    assert pods.data["reasons"] == {"Insufficient cpu": 2, "taint": 1}


def test_a_move_is_shown_with_its_outcome() -> None:
    moved = migration("web")
    outcome = MoveOutcome(
        cluster=CLUSTER, command_id="command-1", migration_id=moved.migration_id, pool="p", phase="node",
        pod=moved.pod, owner="o", source_node="n1", evicted_at_ms=NOW_MS, source_hot_before=True,
        source_hot_after=True, target_node="n2", ended_at_ms=NOW_MS, as_of=AS_OF,
    )  # fmt: skip
    of = records(migrations={moved.migration_id: moved}, moves={moved.migration_id: outcome})
    assert any("n1 was hot before, hot after" in line for line in section("moves", of).lines)


def test_a_dry_run_is_not_counted_as_a_move() -> None:
    dry, live = migration("a", dry_run=True), migration("b", phase="Running")
    moves = section("moves", records(migrations={move.migration_id: move for move in (dry, live)}))
    assert (moves.data["phases"], moves.data["dry_runs"]) == ({"Running": 1}, 1)


def policy(document: str, *, paused: bool = False) -> PolicyRecord:
    return PolicyRecord(
        cluster=CLUSTER, document=document, paused=paused, applied_at_ms=NOW_MS - MINUTE_MS
    )


def test_the_policy_is_shown_with_author_and_reason() -> None:
    sent = policy("").model_copy(update={"applied_by": "ana@ops", "reason": "first week"})
    shown = section("policy", records(policy=sent))
    assert shown.lines[0].endswith("sent 1m ago by ana@ops: first week")
    assert (shown.data["applied_by"], shown.data["reason"]) == ("ana@ops", "first week")


def test_a_pause_comes_first() -> None:
    paused = records(policy=policy("mode: enforce", paused=True))
    shown = section("policy", paused)
    assert "PAUSED" in shown.lines[0]
    assert shown.data["mode"] == "enforce"


def test_unreadable_topics_are_not_reported_as_missing() -> None:
    dark = records(tick_ms=None, metrics={}, unreadable=frozenset({"clock", "node-metrics"}))
    assert "cannot be read" in section("workers", dark).lines[0]
