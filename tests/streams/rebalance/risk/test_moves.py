"""Moves by risk: the pod whose move lowers the sum of costs most, if by a gain."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import OwnerReference
from streams.rebalance.candidates import Gate
from streams.rebalance.risk import moves as risk_moves
from streams.rebalance.risk.nodes import RiskNodes
from streams.rebalance.risk.pods import HORIZON_MINUTES
from streams.stage.arrays import BoolArray
from tests.streams.builders import BY_RISK, RAW_ALLOCATABLE, container, controlled_by
from tests.streams.world import RoundWorld

POOL = "OverutilizationRisk"


def risky(document: str = BY_RISK, **fields: Any) -> RoundWorld:
    """A node that is hot by three pods, and two that are calm; all nodes have `fields`."""
    world = RoundWorld(document)
    for name in ("calm-1", "calm-2", "risky"):
        world.node(name, system=5, **fields)
    for uid in ("a", "b", "c"):
        world.pod(uid, "risky", 28, containers=(container({"cpu": "2500m"}),))
    world.pod("d", "calm-1", 20, containers=(container({"cpu": "2500m"}),))
    return world.settle()


def costs(world: RoundWorld) -> list[float]:
    """The cost of each node."""
    nodes = [world.inventory.nodes[name] for name in sorted(world.inventory.nodes)]
    costs: list[float] = RiskNodes(world.policy.overutilization_risk, nodes).costs.tolist()
    return costs


def test_the_pod_whose_move_lowers_the_sum_of_costs_most_goes_where_it_grows_least() -> None:
    world = risky()
    assert world.round() == ["a risky->calm-2"]
    before = costs(world)
    assert before[2] > 0.5
    (verdict, *_) = world.hot("risky").pods
    assert verdict.costs is not None
    assert verdict.costs.source_before == world.hot("risky").cost == before[2]
    assert verdict.costs.gain == pytest.approx(
        before[2] - verdict.costs.source_after - verdict.costs.target_after, abs=0.02
    )
    assert "is at risk of overutilization: its cost" in world.outcome.moves[0].reason


def test_the_cost_of_a_node_uses_its_raw_allocatable() -> None:
    world = risky(cpu="20", annotations={RAW_ALLOCATABLE: '{"cpu": "10"}'})
    assert costs(world) == costs(risky())
    assert world.round() == ["a risky->calm-2"]


@pytest.mark.parametrize("percent", range(50, 61))
def test_a_node_is_hot_above_its_percentage_to_the_unit(percent: int) -> None:
    hot_from = f"{{resources: [{{name: cpu, hotPercent: {percent}}}]}}"
    world = risky(BY_RISK.replace("{resources: [{name: cpu}]}", hot_from))
    world.round()
    assert world.pool.thresholds.high == {"cpu": percent}
    assert world.hot("risky").readings.limit == {"cpu": 100 * percent}


def test_a_move_that_gains_too_little_is_not_made() -> None:
    world = risky(BY_RISK.replace("minSavedMinutes: 9", "minSavedMinutes: 300"))
    assert world.round() == []
    assert (
        world.pool.end_reason
        == "no node costs 5.000 hot minutes per minute: a move must save 300 hot minutes (riskMoves.minSavedMinutes), and pods are expected to run for 60 more minutes"
    )


def test_a_move_that_only_shifts_the_risk_is_not_made() -> None:
    world = RoundWorld(BY_RISK)
    for name in ("one", "two"):
        world.node(name, system=5)
        for number in range(3):
            big = (container({"cpu": "2500m"}),)
            world.pod(f"{name}-{number}", name, 28, containers=big)
    assert world.settle().round() == []
    assert set(world.gates("one").values()) == {"gain"}
    assert "hot minutes per minute; required is" in world.hot("one").pods[0].message


def test_pods_that_leave_already_count_as_gone() -> None:
    world = risky()
    assert world.round(leaving=["a"]) == []
    assert "without the pods that are already leaving" in world.hot("risky").end_reason


def test_a_target_without_room_for_the_requests_takes_nothing() -> None:
    world = risky()
    world.pod("full", "calm-2", 1, containers=(container({"cpu": "8"}),))
    assert world.round() == ["a risky->calm-1"]


def test_nodes_refused_by_placement_are_no_targets() -> None:
    world = risky()

    def refused(_: object) -> BoolArray:
        rows = world.balancer.columns.names
        mask: BoolArray = rows == "calm-2"
        return mask

    assert world.round(find_refusing_nodes=refused) == ["a risky->calm-1"]


def test_nodes_that_are_cooling_take_nothing() -> None:
    world = risky()
    world.avoid(["calm-2"], owner="other")
    assert world.round() == ["a risky->calm-1"]


def test_a_protected_pod_stays_and_the_record_says_why() -> None:
    world = risky()
    stays = {"a": "protected"}
    moved = world.round(explain_protection=lambda held: stays.get(held.pod.uid))
    assert moved == ["b risky->calm-2"]
    assert world.gates("risky")["a"] == "filter"
    assert world.round(explain_protection=lambda _: "it has no owner") == []
    reason = world.hot("risky").end_reason
    assert reason.endswith("3 of 3 checked pods stay, for example because it has no owner")


@pytest.mark.parametrize(("minutes", "rests"), [(15, False), (30, True)])
def test_a_pod_rests_after_a_move_for_as_long_as_the_policy_says(minutes: int, rests: bool) -> None:
    world = risky(BY_RISK.replace("maxMovesPerRound: 3", f"restMinutes: {minutes}"))
    world.gone("c")
    big = (container({"cpu": "2500m"}),)
    owner = controlled_by("moved")
    world.pod("m", "risky", 28, containers=big, owners=owner, scheduled_at_ms=world.now_ms)
    world.moves.record_departure("moved", "elsewhere", world.now_ms, "hot")
    world.moves.record_arrival("moved", "risky", world.now_ms)
    world.settle().round()
    assert (world.gates("risky").get("m") == "resting") == rests


def test_a_recently_placed_pod_stays() -> None:
    world = risky(BY_RISK.replace("maxMovesPerRound: 3", "minPodAgeMinutes: 10080"))
    assert world.round() == []
    assert set(world.gates("risky").values()) == {"young"}


def test_a_round_moves_no_more_pods_than_the_policy_says() -> None:
    for most in (1, 2):
        world = RoundWorld(BY_RISK.replace("maxMovesPerRound: 3", f"maxMovesPerRound: {most}"))
        for number in range(3):
            world.node(f"calm-{number}", system=5)
            world.node(f"risky-{number}", system=20)
            for pod in range(3):
                big = (container({"cpu": "2500m"}),)
                world.pod(f"{number}-{pod}", f"risky-{number}", 25, containers=big)
        assert len(world.settle().round()) == most
        assert f"maxMovesPerRound is {most}" in str([hot.end_reason for hot in world.pool.hot])


def test_immovable_pods_do_not_block_the_comparison_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round compares four pods; four that may go nowhere save more than all others."""
    monkeypatch.setattr(risk_moves, "COMPARED_MIN", 4)
    monkeypatch.setattr(risk_moves, "COSTS_MAX", 1)
    world = RoundWorld(BY_RISK.replace("minSavedMinutes: 9", "minSavedMinutes: 3"))
    world.node("pinned", system=2, labels={"pool": "own"})
    for number in range(4):
        pinned = {"node_selector": {"pool": "own"}, "containers": (container({"cpu": "2400m"}),)}
        world.pod(f"pinned-{number}", "pinned", 24, **pinned)
    world.node("calm", system=5)
    world.node("risky", system=5)
    for number in range(24):
        small = (container({"cpu": "390m"}),)
        world.pod(f"small-{number}", "risky", 3, containers=small)
    world.settle()
    moved = {move for _ in range(8) for move in world.round()}
    assert {move.split()[1] for move in moved} == {"risky->calm"}
    assert len(moved) > 3
    assert world.hot("pinned").gates == {"fit": 2}
    assert (
        world.hot("pinned").end_reason
        == "the round has compared as many pods as it may; a later round compares others"
    )


def test_a_pod_stopped_by_a_gate_stays_and_others_are_tried() -> None:
    world = risky()
    moved = world.round(gate=lambda move: "not this one" if move.held.pod.uid == "a" else None)
    assert moved == ["b risky->calm-2"]
    assert world.gates("risky") == {"a": "gate", "b": ""}


def test_a_gate_can_end_the_node_or_the_round() -> None:
    for scope in ("node", "round"):
        world = risky()
        assert world.round(gate=lambda _, scope=scope: Gate("Test", "no more", scope)) == []
        assert world.hot("risky").end_reason == "no more"
        assert world.outcome.end_reason == ("no more" if scope == "round" else "")


def test_moves_of_a_round_are_planned_together() -> None:
    world = RoundWorld(BY_RISK)
    for name in ("calm", "risky-1", "risky-2"):
        world.node(name, system=5)
    big = (container({"cpu": "2500m"}),)
    world.pod("x", "calm", 30, containers=big)
    for name in ("risky-1", "risky-2"):
        for number in range(3):
            world.pod(f"{name}-{number}", name, 29, containers=big)
    # Each of both gains enough by itself; after one of them the target is as risky.
    assert len(world.settle().round()) == 1


def test_moves_by_risk_follow_those_by_thresholds_and_count_them() -> None:
    both = BY_RISK.replace("[OverutilizationRisk]", "[LowNodeLoad, OverutilizationRisk]") + (
        "rebalance: {highThresholds: {cpu: 70}, lowThresholds: {cpu: 40}, "
        "anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}}\n"
    )
    world = risky(both)
    assert len(world.round()) == 1
    assert [pool.name for pool in world.outcome.pools][-1] == POOL
    assert not world.outcome.pools[-1].moves


def beside_low_node_load(system: dict[str, int], *, high: str, low: str) -> RoundWorld:
    """Nodes, rounds by thresholds before those by risk, and pods of a node at risk."""
    both = BY_RISK.replace("[OverutilizationRisk]", "[LowNodeLoad, OverutilizationRisk]") + (
        f"rebalance: {{highThresholds: {{{high}}}, lowThresholds: {{{low}}}, "
        "anomalyCondition: {consecutiveAbnormalities: 1, consecutiveNormalities: 1}}\n"
    )
    world = RoundWorld(both)
    for name, share in system.items():
        world.node(name, system=share)
    return world


def test_no_pod_leaves_a_target_of_a_move_by_thresholds() -> None:
    nodes = {"crowded": 30, "risky": 1, "third": 1}
    world = beside_low_node_load(nodes, high="pods: 6", low="pods: 3")
    for number in range(7):
        world.pod(f"small-{number}", "crowded", 1)
    for number in range(4):
        world.pod(f"third-{number}", "third", 1)
    for uid in ("a", "b", "c"):
        world.pod(uid, "risky", 28, containers=(container({"cpu": "2500m"}),))
    assert world.settle().round() == ["small-0 crowded->risky"]
    assert world.hot("risky").end_reason == "a pod moves to this node in this round"


def test_no_pod_moves_to_a_source_of_a_move_by_thresholds() -> None:
    nodes = {"crowded": 1, "empty": 1, "risky": 1}
    world = beside_low_node_load(nodes, high="pods: 6", low="pods: 2")
    for number in range(7):
        world.pod(f"small-{number}", "crowded", 1)
    # Its requests leave no room for those of large pods.
    world.pod("full", "empty", 1, containers=(container({"cpu": "9"}),))
    for uid in ("a", "b", "c"):
        world.pod(uid, "risky", 28, containers=(container({"cpu": "2500m"}),))
    assert world.settle().round() == ["small-0 crowded->empty"]
    assert set(world.gates("risky").values()) == {"fit"}


def test_moves_by_thresholds_use_room_before_moves_by_risk() -> None:
    nodes = {"calm": 5, "hot": 75, "risky": 5}
    world = beside_low_node_load(nodes, high="cpu: 80", low="cpu: 40")
    world.pod("h", "hot", 7, containers=(container({"cpu": "4"}),))
    world.pod("there", "calm", 1, containers=(container({"cpu": "3"}),))
    for uid in ("a", "b"):
        world.pod(uid, "risky", 35, containers=(container({"cpu": "4"}),))
    assert world.settle().round() == ["h hot->calm"]
    assert set(world.gates("risky").values()) == {"fit"}


def test_no_round_by_risk_is_made_while_paused_or_unless_the_policy_names_it() -> None:
    assert not risky(BY_RISK + "rebalance: {paused: true}").round()
    assert not risky(
        BY_RISK.replace("balance: [OverutilizationRisk]", "balance: [LowNodeLoad]")
    ).round()


@st.composite
def clusters(draw: st.DrawFn) -> RoundWorld:
    """Some nodes with some pods that have been measured for a while."""
    saved = draw(st.sampled_from(["1.2", "9", "30"]))
    world = RoundWorld(BY_RISK.replace("minSavedMinutes: 9", f"minSavedMinutes: {saved}"))
    for number in range(draw(st.integers(2, 5))):
        name = f"n{number}"
        world.node(name, system=draw(st.integers(0, 20)))
        for pod in range(draw(st.integers(0, 5))):
            request = draw(st.sampled_from([500, 1500, 3000]))
            cpu = draw(st.integers(1, 40))
            containers = (container({"cpu": f"{request}m"}),)
            world.pod(f"{name}-{pod}", name, cpu, containers=containers)
    return world.settle(5 * draw(st.integers(0, 3)))


@given(clusters())
def test_each_planned_move_gains_enough_and_fits_with_those_before_it(world: RoundWorld) -> None:
    world.round()
    world.balancer.refresh()
    names = sorted(world.inventory.nodes)
    nodes = [world.inventory.nodes[name] for name in names]
    risk = RiskNodes(world.policy.overutilization_risk, nodes)
    free = {
        name: node.allocatable["cpu"] - node.requested["cpu"]
        for name, node in zip(names, nodes, strict=True)
    }
    for move in world.outcome.moves:
        assert move.target is not None
        statistics = world.inventory.nodes[move.node].statistics
        assert statistics is not None
        figures = statistics.compute_pod_figures(move.held)
        before = float(risk.costs.sum())
        risk.remove_pod(names.index(move.node), figures)
        risk.add_pod(names.index(move.target), figures)
        gain = world.policy.risk_moves.min_saved_minutes / HORIZON_MINUTES
        assert before - float(risk.costs.sum()) >= gain - 1e-9
        free[move.target] -= move.held.kind.demand.requests["cpu"]
        assert free[move.target] >= 0
    assert len({move.held.pod.uid for move in world.outcome.moves}) == len(world.outcome.moves)
    assert len(world.outcome.moves) <= 3
    sources = {move.node for move in world.outcome.moves}
    assert sources.isdisjoint(move.target for move in world.outcome.moves)


def test_expected_usage_is_recorded_up_to_the_largest_number() -> None:
    # As a float, the largest whole number is one more than it is.
    world = risky(BY_RISK)
    fleet = world.inventory.fleet
    assert fleet is not None
    fleet.figures = tuple(figure._replace(usage_ppm=2_000_000) for figure in fleet.figures)
    requests = {"cpu": str(2**63 // 1000)}
    world.pod("vast", "risky", None, containers=tuple(container(requests) for _ in range(9)))
    world.measure()
    world.round()
    noted = {verdict.pod.uid: verdict for verdict in world.hot("risky").pods}
    assert noted["vast"].usage["cpu"] == 2**63 - 1
    assert all(verdict.usage["cpu"] <= 2**63 - 1 for verdict in noted.values())


def test_moves_must_gain_more_where_pods_run_briefly() -> None:
    world = risky(BY_RISK.replace("maxMovesPerRound: 3", "minPodAgeMinutes: 0"))
    assert costs(world)[2] > 0.5
    daemons = (OwnerReference(kind="DaemonSet", name="d", uid="d", controller=True),)
    for number in range(20):
        world.pod(f"daemon-{number}", "calm-1", 0, owners=daemons)
    for number in range(20):
        world.pod(f"job-{number}", "calm-1", 0, scheduled_at_ms=world.now_ms - 120_000)
    assert world.round() == []
    assert world.pool.end_reason.endswith(
        "a move must save 9 hot minutes (riskMoves.minSavedMinutes), and pods are expected to run for 3 more minutes"
    )
