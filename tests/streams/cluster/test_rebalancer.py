"""Times and contents of rounds, independent of restarts and of the order of nodes."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from schemas.messages.metrics import PodMetric
from schemas.messages.pods import Container, HostPort
from schemas.messages.rounds import HOT_NODES_MAX, PODS_PER_NODE_MAX
from streams.cluster import rebalancer
from streams.cluster.stage import compute_figures
from streams.rebalance import node_figures
from streams.rebalance.risk import moves as risk_moves
from tests.streams.builders import (
    CLUSTER,
    controlled_by,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    removed_node,
    tick,
)
from tests.streams.world import World, count_calls

POLICY = """
mode: enforce
plugins: {balance: [LowNodeLoad]}
descheduling: {deschedulingInterval: 10s}
rebalance:
  highThresholds: {cpu: 60}
  lowThresholds: {cpu: 30}
  anomalyCondition: {consecutiveAbnormalities: 2, consecutiveNormalities: 1}
migration:
  defaultJobMode: EvictDirectly
  evictAllBarePods: true
  maxMigratingPerNode: 2
"""


def cluster(*, hot: int = 1, calm: int = 2, pods: int = 3, document: str = POLICY) -> World:
    """Nodes of 10 cores; hot ones use 9, calm ones 1."""
    world = World(tick(), policy_record(document))
    names = [f"hot-{n}" for n in range(hot)] + [f"calm-{n}" for n in range(calm)]
    world.send(*(node(name, cpu="10") for name in names))
    for name in names:
        here = [pod(f"{name}-pod-{n}") for n in range(pods if name.startswith("hot") else 0)]
        world.send(*(lifecycle("running", member, name) for member in here))
    report(world, 0)
    return world


def report(world: World, seconds: int) -> None:
    """Every node reports."""
    for name, host in sorted(world.state.inventory.nodes.items()):
        used = 9_000 if name.startswith("hot") else 1_000
        each_uses = min(2_000, used // max(1, len(host.held)))
        shares = tuple(
            PodMetric(
                namespace=held.pod.namespace,
                name=held.pod.name,
                usage={"cpu": each_uses, "memory": 0},
                priority_class="koord-prod",
            )
            for held in host.held.values()
        )
        system = {"cpu": used - each_uses * len(shares), "memory": 0}
        world.send(metric(name, cpu=used, seconds=seconds, pods=shares, system_usage=system))


def test_one_round_is_made_in_each_interval_however_often_the_clock_ticks() -> None:
    world = cluster()
    world.send(*map(tick, range(1, 61)))
    times = [record.decided_at_ms for record in world.rounds]
    assert len(times) == 7
    assert all(later - earlier == 10_000 for earlier, later in pairwise(times[1:]))


def test_one_round_follows_an_outage() -> None:
    world = cluster()
    world.send(tick(1))
    before = len(world.rounds)
    world.send(tick(3_600))
    assert len(world.rounds) == before + 1


def test_pods_leave_a_hot_node_in_the_configured_round_and_the_record_explains_it() -> None:
    world = cluster()
    world.send(*map(tick, range(1, 25)))
    first, second_round = [record for record in world.rounds if record.pools[0].hot][:2]
    assert first.pools[0].hot[0].gate == "hot for 1 of 2 rounds in a row"
    assert not any(pool.leaving for pool in first.pools)
    (pool,) = second_round.pools
    (hot,) = pool.hot
    assert (pool.leaving, hot.node, hot.leaving) == (2, "hot-0", 2)
    assert pool.nodes["high"] == 1
    assert hot.readings["cpu"].used == 9_000
    assert hot.readings["cpu"].limit == 6_000
    leaving = [pod for pod in hot.pods if not pod.gate]
    assert {pod.target for pod in leaving} <= {"calm-0", "calm-1"}
    commands = world.evictions
    assert {pod.migration_id for pod in leaving} == {command.migration_id for command in commands}


@pytest.mark.parametrize("listed", [False, True], ids=["event", "list"])
def test_a_new_node_with_an_old_name_starts_its_own_count_of_rounds(*, listed: bool) -> None:
    world = cluster()
    world.send(tick(1))
    assert world.rounds[-1].pools[0].hot[0].abnormal_rounds == 1
    if listed:
        world.full_list("node-state", node("calm-0", cpu="10"), node("calm-1", cpu="10"))
    else:
        world.send(removed_node("hot-0"))
    assert world.keys("hotspot_counters") == []
    world.send(node("hot-0", cpu="10"))
    report(world, 1)
    world.send(*map(tick, range(2, 12)))
    (hot,) = world.rounds[-1].pools[0].hot
    assert (hot.abnormal_rounds, hot.gate) == (1, "hot for 1 of 2 rounds in a row")


def test_a_paused_cluster_reports_that_it_makes_no_rounds() -> None:
    world = cluster()
    world.send(policy_record(POLICY, paused=True))
    world.send(*map(tick, range(1, 40)))
    assert {record.gate for record in world.rounds[1:]} == {"the cluster is paused"}
    assert world.evictions == []


def test_a_round_record_is_bounded_and_counts_omissions() -> None:
    document = POLICY.replace("maxMigratingPerNode: 2", "maxMigratingPerNode: 100")
    document = document.replace("consecutiveAbnormalities: 2", "consecutiveAbnormalities: 1")
    world = cluster(hot=HOT_NODES_MAX + 7, calm=1, pods=PODS_PER_NODE_MAX + 5, document=document)
    world.send(tick(11))
    (pool,) = world.rounds[-1].pools
    assert len(pool.hot) == HOT_NODES_MAX
    assert pool.hot_left_out == 7
    assert all(len(hot.pods) <= PODS_PER_NODE_MAX for hot in pool.hot)
    looked = [hot for hot in pool.hot if hot.pods_left_out]
    assert all(len(hot.pods) == PODS_PER_NODE_MAX for hot in looked)


def test_preparing_a_round_does_not_change_its_result() -> None:
    plain, prepared = cluster(hot=2, calm=3), cluster(hot=2, calm=3)
    for seconds in range(5, 65, 5):
        for world in (plain, prepared):
            report(world, seconds)
        # The first round lays the nodes out.
        assert prepared.stage.prepare() == (seconds > 5)
        for world in (plain, prepared):
            world.send(tick(seconds))
        assert prepared.outputs == plain.outputs
    assert prepared.rows == plain.rows
    assert plain.evictions


def test_a_waiting_migration_is_aborted_when_its_node_has_cooled() -> None:
    world = cluster(document=POLICY + "  evictQPS: 0.01\n")
    world.send(*map(tick, range(1, 25)))
    assert len(world.evictions) == 1
    assert len(world.state.migrations.lifecycle.registry) == 2
    for name, host in world.state.inventory.nodes.items():
        share = tuple(
            PodMetric(namespace="default", name=held.pod.name, usage={"cpu": 100, "memory": 0})
            for held in host.held.values()
        )
        world.send(
            metric(name, cpu=900, seconds=25, pods=share, system_usage={"cpu": 600, "memory": 0})
        )
    world.send(*map(tick, range(25, 40)))
    (ended,) = [migration for migration in world.migrations if migration.reason == "NodeCooled"]
    assert ended.message == "node hot-0 is no longer hot: cpu 9.00 %, not above 60.00 %"


@pytest.mark.parametrize("restarts", [False, True])
def test_a_round_over_many_nodes_starts_after_ticks_have_prepared_it(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalancer, "REFRESHED_PER_TICK_MAX", 2)
    world = cluster(hot=2, calm=6)
    # Nothing is prepared before the first of these ticks, and eight nodes take four ticks.
    rounds_at: list[int] = []
    packed: list[int] = []
    refreshes = count_calls(monkeypatch, node_figures.NodeFigures, "refresh")
    for second in (100, 101, 102, 103, 104, 105, 106):
        if restarts:
            world.restart()
        refreshes.clear()
        world.rounds.clear()
        world.send(tick(second))
        packed.append(refreshes.total())
        if world.rounds:
            rounds_at.append(second)
    assert rounds_at == [104]
    if not restarts:
        assert max(packed) <= 2
        assert sum(packed) >= 8


def test_a_batch_pod_is_evicted_at_the_peak_within_all_limits_without_reserved_room() -> None:
    peak = POLICY.replace("defaultJobMode: EvictDirectly", "maxMigratingGlobally: 1") + (
        "movingThresholds: {hotspots: [{windows: [{evictWithoutTarget: true}]}]}\n"
    )
    world = cluster(calm=0, document=peak)
    # The pods have an owner and a participating scheduler, so replacements could have reservations.
    owner = controlled_by("batch")
    of_owner: dict[str, Any] = {"owners": owner, "scheduler": "koord-scheduler", "ready": True}
    batch = [pod(f"batch-{n}", priority=5_500, **of_owner) for n in range(2)]
    world.send(*(lifecycle("running", member, "hot-0") for member in batch))
    for seconds in (20, 40, 60):
        report(world, seconds)
        world.send(tick(seconds))
    commands = world.evictions
    assert [command.pod.name for command in commands] == ["batch-0"]
    assert "evictWithoutTarget" in commands[0].reason


BY_RISK = """
mode: enforce
plugins: {score: [OverutilizationRisk], balance: [OverutilizationRisk]}
overutilizationRisk: {resources: [{name: cpu}]}
riskMoves: {minPodAgeMinutes: 1, minSavedMinutes: 0.1}
descheduling: {deschedulingInterval: 60s}
migration: {schedulerNames: [loadstream]}
"""


def by_risk() -> World:
    """An overloaded node and a calm node; all four pods have the same owner."""
    world = World(tick(), policy_record(BY_RISK))
    world.send(node("calm", cpu="10"), node("risky", cpu="10"))
    owner = controlled_by("web")
    for number, name in enumerate(("risky", "risky", "risky", "calm")):
        web = pod(f"web-{number}", cpu="2500m", owners=owner, scheduler="loadstream", ready=True)
        world.send(lifecycle("running", web, name))
    return world


def measured_by_risk(world: World, seconds: int) -> None:
    """Every pod uses 2,900 millicores."""
    for name, host in sorted(world.state.inventory.nodes.items()):
        usage = {"cpu": 2_900, "memory": 0}
        pods = tuple(
            PodMetric(namespace=held.pod.namespace, name=held.pod.name, usage=usage)
            for held in host.held.values()
            if held.expires_at_ms is None
        )
        whole = 2_900 * len(pods) + 300
        world.send(metric(name, cpu=whole, seconds=seconds, pods=pods, system_usage={"cpu": 300}))


def tick_by_risk(world: World, first: int, end: int) -> None:
    """A tick every ten seconds, and metrics every minute."""
    for second in range(first, end, 10):
        if second % 60 == 0:
            measured_by_risk(world, second)
        world.send(tick(second))


def test_a_move_by_risk_reserves_room_and_its_command_names_the_costs() -> None:
    world = by_risk()
    tick_by_risk(world, 0, 610)
    world.restart()
    tick_by_risk(world, 610, 1_260)
    commands = world.evictions
    assert commands
    assert commands[0].node == "risky"
    assert commands[0].trigger == "rebalance"
    assert "at risk of overutilization: its cost" in commands[0].reason
    began = next(record for record in world.rounds if any(pool.leaving for pool in record.pools))
    (pool,) = began.pools
    (hot,) = pool.hot
    leaving = next(pod for pod in hot.pods if not pod.gate)
    assert (pool.pool, leaving.target, leaving.pod.uid) == (
        "OverutilizationRisk",
        "calm",
        commands[0].pod.uid,
    )
    assert leaving.costs is not None
    assert hot.cost == leaving.costs.source_before > leaving.costs.source_after
    row = world.state.migrations.lifecycle.registry.find_by_pod(commands[0].pod.uid)
    assert row is not None
    assert (row.target_node, row.pool) == ("calm", "OverutilizationRisk")
    assert row.reserved is not None


def risky_nodes(pods: Mapping[str, str], *, ported: str = "", migration: str = "") -> World:
    """Nodes of ten cores with pods of an owner each, by uids of one letter; some want a host port."""
    world = World()
    single = f"schedulerNames: [loadstream], skipCheckExpectedReplicas: true{migration}"
    document = BY_RISK.replace("schedulerNames: [loadstream]", single)
    world.send(tick(), policy_record(document + "loadAware: {usageThresholds: {cpu: 95}}\n"))
    world.send(*(node(name, cpu="10") for name in pods))
    for name, uids in pods.items():
        for uid in uids:
            ports = (HostPort(port=8080),) if uid in ported else ()
            member = pod(
                uid,
                containers=(Container(requests={"cpu": "2500m"}, host_ports=ports),),
                owners=controlled_by(f"owner-{uid}"),
                scheduler="loadstream",
                ready=True,
            )
            world.send(lifecycle("running", member, name))
    return world


def test_a_node_that_is_hot_and_at_risk_counts_once() -> None:
    world = by_risk()
    both = BY_RISK.replace("balance: [", "balance: [LowNodeLoad, ")
    world.send(
        policy_record(both + "rebalance: {highThresholds: {cpu: 60}, lowThresholds: {cpu: 30}}\n")
    )
    measured_by_risk(world, 0)
    world.send(*map(tick, range(0, 90, 10)))
    assert [pool.nodes["high"] for pool in world.rounds[-1].pools] == [1, 1]
    figures = compute_figures(world.state)
    assert figures.hot_nodes == 1
    ((node, resource), share), *_ = figures.hot_usage.items()
    assert (resource, {node for node, _ in figures.hot_usage}) == ("cpu", {node})
    assert 0.6 < share <= 1


@pytest.mark.parametrize("compat", ["loadstream", "koordinator"])
def test_a_node_below_its_thresholds_stops_counting_as_hot(compat: str) -> None:
    world = cluster(document=f"compat: {compat}{POLICY}")
    world.send(tick(20))
    assert compute_figures(world.state).hot_nodes == 1
    assert world.keys("hotspot_counters")
    world.send(metric("hot-0", cpu=1_000, seconds=21), tick(30))
    assert compute_figures(world.state).hot_nodes == 0


def test_a_move_by_risk_fails_when_its_target_refuses_the_pod() -> None:
    """Both pods with the host port are to go to the calm node: the node `other` would become hot."""
    world = risky_nodes(
        {"risky-1": "abc", "risky-2": "def", "other": "gh", "calm": ""}, ported="ad"
    )
    tick_by_risk(world, 0, 900)
    states = world.migrations
    assert {state.target_node for state in states} == {"calm"}
    stays = next(state for state in states if state.phase == "Failed")
    assert (stays.pod.uid, stays.reason) == ("d", "Unschedulable")
    assert stays.message == "calm no longer accepts the pod; the next round makes another plan"


def test_a_node_at_risk_has_not_cooled_although_its_pods_were_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each round compares the pods of one of three nodes at risk; no command is carried out."""
    monkeypatch.setattr(risk_moves, "SOURCES_MAX", 1)
    world = risky_nodes({"risky-1": "abc", "risky-2": "def", "risky-3": "ghi", "calm": ""})
    without_turn = 0
    for second in range(0, 900, 10):
        if second % 60 == 0:
            measured_by_risk(world, second)
        world.send(tick(second))
        newest = world.rounds[-1]
        turns = {hot.node for pool in newest.pools for hot in pool.hot}
        for row in world.state.memory.moves.cooldown.rows.values():
            assert row.hot_at_ms == newest.decided_at_ms
            without_turn += row.node not in turns
    assert without_turn


def at_risk() -> World:
    """Three nodes at risk and a calm one, by the last of some rounds."""
    world = risky_nodes({"risky-1": "abc", "risky-2": "def", "risky-3": "ghi", "calm": ""})
    tick_by_risk(world, 0, 430)
    return world


def test_all_nodes_at_risk_count_as_hot_also_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(risk_moves, "SOURCES_MAX", 1)
    world = at_risk()
    (pool,) = world.rounds[-1].pools
    hot = len(pool.hot) + pool.hot_left_out
    assert (len(pool.hot), hot, compute_figures(world.state).hot_nodes) == (1, 3, 3)
    world.restart()
    assert compute_figures(world.state).hot_nodes == 3


CLUSTER_ROW = f"0/{CLUSTER}/clusters/"
NO_HOT_NODES: dict[str, list[Any]] = {
    "paused": [policy_record(BY_RISK, paused=True)],
    "rounds paused": [policy_record(BY_RISK + "rebalance: {paused: true}\n")],
    "no node": [removed_node(name) for name in ("risky-1", "risky-2", "risky-3")],
}


@pytest.mark.parametrize("messages", NO_HOT_NODES.values(), ids=NO_HOT_NODES)
def test_no_node_counts_as_hot_after_a_round_that_finds_none(messages: list[Any]) -> None:
    world = at_risk()
    before = len(world.rounds)
    world.send(*messages)
    assert compute_figures(world.state).hot_nodes == 3
    world.send(*map(tick, range(430, 550, 10)))
    assert len(world.rounds) > before
    assert compute_figures(world.state).hot_nodes == 0
    assert b'"hot_nodes":0' in world.rows[CLUSTER_ROW]
    world.restart()
    assert compute_figures(world.state).hot_nodes == 0


def test_no_node_counts_as_hot_after_rounds_by_risk_are_disabled() -> None:
    world = at_risk()
    world.send(policy_record(BY_RISK + "maxPendingRequests: 7\n"))
    assert compute_figures(world.state).hot_nodes == 3
    world.send(policy_record(BY_RISK.replace("balance: [OverutilizationRisk]", "balance: []")))
    assert compute_figures(world.state).hot_nodes == 0
    world.restart()
    assert compute_figures(world.state).hot_nodes == 0


def test_a_waiting_move_by_risk_is_aborted_when_its_node_is_safe() -> None:
    nodes = {"risky-1": "abc", "risky-2": "def", "calm-1": "", "calm-2": ""}
    world = risky_nodes(nodes, migration=", evictQPS: 0.001")
    for second in range(0, 900, 10):
        if second % 60 == 0:
            measured_by_risk(world, second)
        world.send(tick(second))
        waiting = [row for row in world.state.migrations.lifecycle.registry if not row.attempts]
        if waiting:
            break
    (row,) = waiting
    for uid in nodes[row.source_node]:
        held = world.state.inventory.find_held(uid)
        if held is not None and uid != row.pod.uid:
            world.send(lifecycle("deleted", held[1].pod, row.source_node))
    tick_by_risk(world, second + 10, second + 130)
    ended = [status for status in world.migrations if status.migration_id == row.migration_id][-1]
    assert (ended.phase, ended.reason) == ("Aborted", "NodeCooled")
    assert ended.message == (
        f"node {row.source_node} is no longer at risk: its cost is below the gain that a move needs"
    )
