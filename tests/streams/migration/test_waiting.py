"""Waiting migrations: reported reasons, and what ends them."""

import pytest

from streams.migration.gates.rate_limits import QPS_SPREAD_MS
from tests.streams.cluster.builders import (
    ask,
    budget,
    evicted,
    lifecycle,
    node_gone,
    policy_record,
    policy_text,
    replica,
)
from tests.streams.migration.harness import cluster, reports

PODS = [replica(f"p{number:02}", owner=f"owner-{number}") for number in range(25)]
A, B = replica("a", owner="one"), replica("b", owner="two")


# --- evictQPS -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("qps", "tick_s"), [(1.5, 1), (0.4, 1), (2.5, 1), (1, 0.7), (10, 0.95), (1.5, 0.3)]
)
def test_fractions_of_the_eviction_rate_are_kept_between_ticks(qps: float, tick_s: float) -> None:
    limited = policy_text(evictQPS=qps, evictBurst=1, defaultJobMode="EvictDirectly")
    pods = [replica(f"p{number:03}", owner=f"owner-{number}") for number in range(120)]
    moving = cluster(limited, *((pod, "node-1") for pod in pods))
    for pod in pods:
        moving.propose(pod.uid)
    moving.later(tick_s)
    first, begun = len(moving.commands), moving.seconds
    while moving.seconds + tick_s <= begun + 10:
        moving.later(tick_s)
    allowed = round(qps * (moving.seconds - begun), 6)
    assert allowed - 1 <= len(moving.commands) - first <= allowed


def test_after_an_outage_one_second_of_the_rate_is_available() -> None:
    limited = policy_text(evictQPS=10, evictBurst=1, defaultJobMode="EvictDirectly")
    moving = cluster(limited, *((pod, "node-1") for pod in PODS))
    for pod in PODS:
        moving.propose(pod.uid)
    moving.later(100)
    assert len(moving.commands) == 10 * QPS_SPREAD_MS // 1_000


# --- what is said -------------------------------------------------------------------------------


def test_a_waiting_migration_reports_each_new_reason() -> None:
    direct = policy_text(maxMigratingPerNode=1, defaultJobMode="EvictDirectly")
    moving = cluster(direct, (A, "node-1"), (B, "node-1"))
    moving.say(ask("migrate", pod=A))
    moving.later()
    moving.say(ask("migrate", pod=B))
    moving.later()
    moving.later()
    limit = "1 migrations are under way from node node-1; maxMigratingPerNode is 1"
    assert reports(moving, "b") == [("Pending", "waiting for arbitration"), ("Pending", limit)]
    moving.say(budget(0, app="two"))
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    moving.later()
    moving.later()
    (*_, (phase, message)) = reports(moving, "b")
    assert (phase, message) == (
        "Pending",
        "disruption budget default/web allows 0 disruptions (3 of 3 pods are healthy, 2 must be)",
    )
    assert len(reports(moving, "b")) == 3


def test_a_command_delayed_by_the_rate_reports_the_remaining_time() -> None:
    slow = policy_text(evictQPS=0.5, evictBurst=1, defaultJobMode="EvictDirectly")
    moving = cluster(slow, (A, "node-1"), (B, "node-1"))
    moving.propose("a")
    moving.propose("b")
    moving.later()
    (waiting,) = {"a", "b"} - {each.pod.uid for each in moving.commands}
    assert reports(moving, waiting)[-1] == ("Running", "evictQPS 0.5 allows the next command in 2s")


# --- nodes that have cooled ---------------------------------------------------------------------


def test_a_move_by_risk_fails_when_its_target_is_removed() -> None:
    tight = policy_text(evictQPS=0.001, evictBurst=1)
    moving = cluster(tight, (replica("a"), "node-1"), (replica("b", "other"), "node-2"))
    moving.propose("b")
    moving.later()
    moving.propose("a", target="node-3", pool="OverutilizationRisk")
    moving.later()
    assert moving.row("a").reserved is not None
    moving.say(node_gone("node-3"))
    moving.later()
    why = "node-3 no longer accepts the pod; the next round makes another plan"
    assert reports(moving, "a")[-1] == ("Failed", why)
    assert moving.last == ("Failed", "Unschedulable")


def test_a_requested_migration_does_not_end_when_the_node_cools() -> None:
    moving = cluster(policy_text(), (A, "node-1"))
    moving.say(ask("migrate", pod=A))
    assert moving.state.migrations.list_uncommanded_moves() == []


# --- the switches of LowNodeLoad ----------------------------------------------------------------


@pytest.mark.parametrize("switch", ["paused", "dryRun"])
def test_switches_of_rounds_do_not_affect_requests_of_users(switch: str) -> None:
    moving = cluster(policy_text(f"rebalance: {{{switch}: true}}"), (A, "node-1"), (B, "node-2"))
    moving.say(ask("migrate", pod=A), ask("drain", node="node-2"))
    moving.later()
    assert sorted(each.pod.uid for each in moving.commands) == ["a", "b"]
    assert not any(each.dry_run for each in moving.commands)


def test_a_round_is_dry_by_its_own_switch() -> None:
    moving = cluster(policy_text("rebalance: {dryRun: true}"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    assert [each.dry_run for each in moving.commands] == [True]


# --- drains that only observe -------------------------------------------------------------------

_OBSERVE = policy_text("mode: observe", defaultJobMode="EvictDirectly")


def test_a_drain_in_observe_mode_reports_once_and_ends() -> None:
    moving = cluster(_OBSERVE, (A, "node-1"), (B, "node-1"))
    moving.say(ask("drain", node="node-1"))
    for _ in range(200):
        moving.later()
    assert sorted(each.pod.uid for each in moving.commands) == ["a", "b"]
    assert all(each.dry_run for each in moving.commands)
    assert [(each.phase, each.pods_left, each.dry_run) for each in moving.drains] == [
        ("Draining", 2, True),
        ("Drained", 2, True),
    ]
    assert not moving.state.inventory.nodes["node-1"].cordoned
    assert not list(moving.state.migrations.drains.rows.values())


def test_a_started_drain_waits_while_the_mode_is_observe() -> None:
    moving = cluster(policy_text(defaultJobMode="EvictDirectly"), (A, "node-1"))
    moving.say(ask("drain", node="node-1"), policy_record(_OBSERVE))
    for _ in range(100):
        moving.later()
    assert moving.commands == []
    assert moving.state.inventory.nodes["node-1"].cordoned
    moving.say(policy_record(policy_text(defaultJobMode="EvictDirectly")))
    moving.later()
    assert [each.dry_run for each in moving.commands] == [False]
