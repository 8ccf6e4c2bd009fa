"""Waiting migrations: reported reasons, and how waiting ends."""

import pytest

from streams.migration.limits.rate_limits import QPS_SPREAD_MS
from tests.streams.builders import (
    budget,
    lifecycle,
    migration_policy,
    outcome,
    policy_record,
    removed_node,
    replica,
    user_request,
)
from tests.streams.world import World, world_with_pods

PODS = [replica(f"p{number:02}", owner=f"owner-{number}") for number in range(25)]
A, B = replica("a", owner="one"), replica("b", owner="two")


# --- evictQPS -----------------------------------------------------------------------------------


def reports(world: World, uid: str) -> list[tuple[str, str]]:
    """Phase and message of each report on a pod's migration."""
    return [(status.phase, status.message) for status in world.migrations if status.pod.uid == uid]


@pytest.mark.parametrize(
    ("qps", "tick_s"), [(1.5, 1), (0.4, 1), (2.5, 1), (1, 0.7), (10, 0.95), (1.5, 0.3)]
)
def test_fractions_of_the_eviction_rate_are_kept_between_ticks(qps: float, tick_s: float) -> None:
    limited = migration_policy(evictQPS=qps, evictBurst=1, defaultJobMode="EvictDirectly")
    pods = [replica(f"p{number:03}", owner=f"owner-{number}") for number in range(120)]
    world = world_with_pods(limited, *((pod, "node-1") for pod in pods))
    for pod in pods:
        world.propose(pod.uid)
    world.later(tick_s)
    first, begun = len(world.evictions), world.seconds
    while world.seconds + tick_s <= begun + 10:
        world.later(tick_s)
    allowed = round(qps * (world.seconds - begun), 6)
    assert allowed - 1 <= len(world.evictions) - first <= allowed


def test_after_an_outage_one_second_of_the_rate_is_available() -> None:
    limited = migration_policy(evictQPS=10, evictBurst=1, defaultJobMode="EvictDirectly")
    world = world_with_pods(limited, *((pod, "node-1") for pod in PODS))
    for pod in PODS:
        world.propose(pod.uid)
    world.later(100)
    assert len(world.evictions) == 10 * QPS_SPREAD_MS // 1_000


# --- reported reasons ---------------------------------------------------------------------------


def test_a_waiting_migration_reports_each_new_reason() -> None:
    direct = migration_policy(maxMigratingPerNode=1, defaultJobMode="EvictDirectly")
    world = world_with_pods(direct, (A, "node-1"), (B, "node-1"))
    world.send(user_request("migrate", pod=A))
    world.later()
    world.send(user_request("migrate", pod=B))
    world.later()
    world.later()
    limit = "1 migrations are under way from node node-1; maxMigratingPerNode is 1"
    assert reports(world, "b") == [("Pending", "waiting for arbitration"), ("Pending", limit)]
    world.send(budget(0, app="two"))
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    world.later()
    world.later()
    (*_, (phase, message)) = reports(world, "b")
    assert (phase, message) == (
        "Pending",
        "disruption budget default/web allows 0 disruptions (3 of 3 pods are healthy, 2 must be)",
    )
    assert len(reports(world, "b")) == 3


def test_a_command_delayed_by_the_rate_reports_the_remaining_time() -> None:
    slow = migration_policy(evictQPS=0.5, evictBurst=1, defaultJobMode="EvictDirectly")
    world = world_with_pods(slow, (A, "node-1"), (B, "node-1"))
    world.propose("a")
    world.propose("b")
    world.later()
    (waiting,) = {"a", "b"} - {command.pod.uid for command in world.evictions}
    assert reports(world, waiting)[-1] == ("Running", "evictQPS 0.5 allows the next command in 2s")


# --- nodes that have cooled ---------------------------------------------------------------------


def test_a_move_by_risk_fails_when_its_target_is_removed() -> None:
    tight = migration_policy(evictQPS=0.001, evictBurst=1)
    world = world_with_pods(tight, (replica("a"), "node-1"), (replica("b", "other"), "node-2"))
    world.propose("b")
    world.later()
    world.propose("a", target="node-3", pool="OverutilizationRisk")
    world.later()
    assert world.migration("a").reserved is not None
    world.send(removed_node("node-3"))
    world.later()
    why = "node-3 no longer accepts the pod; the next round makes another plan"
    assert reports(world, "a")[-1] == ("Failed", why)
    assert world.last == ("Failed", "Unschedulable")


def test_a_requested_migration_does_not_end_when_the_node_cools() -> None:
    world = world_with_pods(migration_policy(), (A, "node-1"))
    world.send(user_request("migrate", pod=A))
    assert world.state.migrations.list_uncommanded_moves() == []


# --- the switches of LowNodeLoad ----------------------------------------------------------------


@pytest.mark.parametrize("switch", ["paused", "dryRun"])
def test_switches_of_rounds_do_not_affect_requests_of_users(switch: str) -> None:
    world = world_with_pods(
        migration_policy(f"rebalance: {{{switch}: true}}"), (A, "node-1"), (B, "node-2")
    )
    world.send(user_request("migrate", pod=A), user_request("drain", node="node-2"))
    world.later()
    assert sorted(command.pod.uid for command in world.evictions) == ["a", "b"]
    assert not any(command.dry_run for command in world.evictions)


def test_the_dry_run_switch_of_rounds_is_separate() -> None:
    world = world_with_pods(migration_policy("rebalance: {dryRun: true}"), (A, "node-1"))
    world.propose("a")
    world.later()
    assert [command.dry_run for command in world.evictions] == [True]


# --- drains that only observe -------------------------------------------------------------------

_OBSERVE = migration_policy("mode: observe", defaultJobMode="EvictDirectly")


def test_a_drain_in_observe_mode_reports_once_and_ends() -> None:
    world = world_with_pods(_OBSERVE, (A, "node-1"), (B, "node-1"))
    world.send(user_request("drain", node="node-1"))
    for _ in range(200):
        world.later()
    assert sorted(command.pod.uid for command in world.evictions) == ["a", "b"]
    assert all(command.dry_run for command in world.evictions)
    assert [(drain.phase, drain.pods_left, drain.dry_run) for drain in world.drains] == [
        ("Draining", 2, True),
        ("Drained", 2, True),
    ]
    assert not world.state.inventory.nodes["node-1"].cordoned
    assert not list(world.state.migrations.drains.rows.values())


def test_a_started_drain_waits_while_the_mode_is_observe() -> None:
    world = world_with_pods(migration_policy(defaultJobMode="EvictDirectly"), (A, "node-1"))
    world.send(user_request("drain", node="node-1"), policy_record(_OBSERVE))
    for _ in range(100):
        world.later()
    assert world.evictions == []
    assert world.state.inventory.nodes["node-1"].cordoned
    world.send(policy_record(migration_policy(defaultJobMode="EvictDirectly")))
    world.later()
    assert [command.dry_run for command in world.evictions] == [False]
