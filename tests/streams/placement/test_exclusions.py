"""Pods avoid nodes that their owner left while hot; pods of other owners do not."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import Pod
from streams.placement.placer import ExcludedNodes
from streams.pods.kind import kind_of
from tests.streams.builders import (
    at,
    big_pod,
    controlled_by,
    followed_eviction,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.world import World, only, outcomes


def owned(uid: str, owner: str = "web", of: Callable[..., Pod] = pod) -> Pod:
    """A pod of a ReplicaSet; all these pods are of one kind."""
    owners = controlled_by(owner)
    return of(uid, owners=owners)


def record_departure(world: World, name: str, owner: str = "web", seconds: float = 0) -> None:
    """A pod of the owner left this hot node."""
    world.state.memory.moves.record_departure(owner, name, at(seconds), "cpu 90 % over 70 %")


def cooled(world: World, name: str, seconds: float) -> None:
    """The node sends two metrics, which end its exclusion."""
    world.send(metric(name, seconds=seconds - 60), metric(name, seconds=seconds))


#: Pods wait where only load keeps them from a node.
WAITING = policy_record("whenOverloaded: wait")


def three_nodes() -> World:
    """Three equal nodes; node-1 comes first."""
    return World(tick(), *(node(f"node-{i}") for i in (1, 2, 3)))


def test_a_pod_goes_to_the_best_node_that_its_owner_did_not_leave_hot() -> None:
    world = three_nodes()
    record_departure(world, "node-1")
    decision = only(world.send(request(owned("a"))))
    assert (decision.outcome, decision.node) == ("placed", "node-2")
    assert decision.refused_by == {"RecentMoves": 1}
    assert [node.node for node in decision.runners_up] == ["node-3"]


def test_a_node_that_others_refuse_already_is_not_counted_again() -> None:
    world = World(tick(), node("node-1", cpu="100m"), node("node-2"))
    record_departure(world, "node-1")
    assert only(world.send(request(owned("a")))).refused_by == {"NodeResourcesFit": 1}


def test_a_pod_with_only_excluded_nodes_waits_until_one_has_cooled() -> None:
    world = World(tick(), WAITING, node("node-1"), node("node-2", cpu="100m"))
    record_departure(world, "node-1")
    decision = only(world.send(request(owned("a"))))
    assert (decision.outcome, decision.attempt, decision.retry_after_ms) == ("waiting", 1, 1000)
    assert decision.refused_by == {"NodeResourcesFit": 1, "RecentMoves": 1}
    assert decision.message == "1 node: Insufficient cpu; 1 node: left by this owner while hot"
    assert world.send(tick(0.5)) == []
    again = only(world.send(tick(1)))
    assert (again.outcome, again.attempt, again.retry_after_ms) == ("waiting", 2, 2000)
    world.send(tick(200))
    cooled(world, "node-1", 200)
    world.send(tick(299))
    decision = only(world.send(tick(300)))
    assert (decision.outcome, decision.node, decision.refused_by) == (
        "placed",
        "node-1",
        {"NodeResourcesFit": 1},
    )
    assert world.waiting == []


def test_no_pod_waits_for_a_node_that_its_owner_left_unless_the_policy_says_so() -> None:
    world = World(tick(), WAITING, node("node-1"), node("node-2", cpu="100m"))
    record_departure(world, "node-1")
    assert outcomes(world.send(request(owned("a")))) == [("a", "waiting")]
    world.send(policy_record())
    decision = only(world.send(tick(1)))
    assert (decision.outcome, decision.node) == ("placed", "node-1")
    assert decision.refused_by == {"NodeResourcesFit": 1, "RecentMoves": 1}


def test_a_pod_with_only_excluded_nodes_is_placed_on_new_or_freed_nodes() -> None:
    for event in (node("node-9"), lifecycle("deleted", big_pod("big"), "node-2")):
        world = World(tick(), WAITING, node("node-1"), node("node-2"))
        world.send(lifecycle("bound", big_pod("big"), "node-2"))
        record_departure(world, "node-1")
        world.send(request(owned("a")))
        assert outcomes(world.send(event, tick(0.5))) == [("a", "placed")]


def test_an_excluded_pod_does_not_block_its_group() -> None:
    world = World(tick(), node("node-1"))
    world.send(WAITING)
    record_departure(world, "node-1")
    decisions = world.send(request(owned("a")), request(owned("b", "other")), request(owned("c")))
    assert outcomes(decisions) == [("a", "waiting"), ("b", "placed"), ("c", "waiting")]
    # Those that wait as a group go one by one as well, each where its owner may go.
    world.send(lifecycle("bound", big_pod("big"), "node-1"))
    world.send(request(owned("d")), request(owned("e", "other")))
    decisions = world.send(lifecycle("deleted", big_pod("big"), "node-1"), tick(100))
    assert {(uid, result) for uid, result in outcomes(decisions) if uid in "de"} == {
        ("d", "waiting"),
        ("e", "placed"),
    }


def test_an_excluded_pod_joins_its_group_when_no_node_fits() -> None:
    world = World(tick(), WAITING, node("node-1"))
    record_departure(world, "node-1")
    world.send(request(owned("a")))
    world.send(lifecycle("bound", big_pod("big"), "node-1"))
    decision = only(world.send(tick(1)))
    assert (decision.outcome, decision.refused_by) == ("waiting", {"NodeResourcesFit": 1})


@pytest.mark.parametrize("ending", ["withdrawn", "bound", "again"])
def test_an_excluded_pod_stops_waiting_like_others(ending: str) -> None:
    world = World(tick(), WAITING, node("node-1"))
    record_departure(world, "node-1")
    world.send(request(owned("a")))
    if ending == "withdrawn":
        assert outcomes(world.send(request(owned("a"), withdrawn=True))) == [("a", "withdrawn")]
    elif ending == "bound":
        assert outcomes(world.send(lifecycle("bound", owned("a"), "node-1"))) == [
            ("a", "withdrawn")
        ]
    else:
        assert outcomes(world.send(request(owned("a")))) == [("a", "waiting")]
        assert world.waiting == ["a"]
        return
    assert world.waiting == []
    assert world.send(tick(100)) == []


@pytest.mark.parametrize("confirmed", ["by its binder", "by its lifecycle"])
def test_a_replacement_that_arrives_ends_the_move_once(confirmed: str) -> None:
    world = three_nodes()
    record_departure(world, "node-1")
    record_departure(world, "node-3")
    decision = only(world.send(request(owned("a"))))
    if confirmed == "by its binder":
        world.send(outcome(decision, "done"))
    for event in ("bound", "running", "changed"):
        world.send(lifecycle(event, owned("a"), "node-2"))
    first, second = world.state.memory.moves.rows["web"].moves
    assert (first.source, first.target, second.target) == ("node-1", "node-2", None)


def test_a_pod_that_another_scheduler_returns_freezes_its_owner() -> None:
    world = three_nodes()
    record_departure(world, "node-1")
    world.send(lifecycle("bound", owned("a"), "node-1"))
    why = world.state.memory.moves.explain_freeze("web", at(1))
    assert why is not None
    assert "node-1 → node-1" in why


def test_the_outcome_of_a_move_is_reported_at_a_tick() -> None:
    world = three_nodes()
    world.state.memory.followed.follow(followed_eviction("old", "web", "node-1"))
    world.send(lifecycle("bound", owned("a"), "node-2"))
    world.send(tick(600))
    (report,) = world.moves
    assert (report.target_node, report.returned) == ("node-2", False)
    assert report.as_of.offsets["clock"] == world.log.ends["clock"] - 1


@given(
    st.lists(st.integers(0, 7900), min_size=1, max_size=6),
    st.frozensets(st.integers(0, 5)),
    st.integers(0, 3),
)
def test_the_best_node_outside_is_that_of_a_ranking_without_the_others(
    used: list[int], rows: frozenset[int], count: int
) -> None:
    rows = frozenset(row for row in rows if row < len(used))
    names = [f"node-{i}" for i in range(len(used))]
    world = World(
        tick(),
        *(node(name) for name in names),
        *(metric(name, cpu=cpu) for name, cpu in zip(names, used, strict=True)),
    )
    ranking = world.state.placement.placer.rank(kind_of(pod("a")))
    excluded = ExcludedNodes(rows)
    totals = ranking.totals.tolist()
    order = sorted(
        (row for row in range(len(used)) if ranking.passes(row) and row not in rows),
        key=lambda row: (-totals[row], row),
    )
    best = ranking.find_best(rows)
    assert best == (order[0] if order else None)
    if best is not None:
        assert ranking.list_runners_up(count, {best, *rows}) == order[1 : 1 + count]
    refused = sum(nodes for *_, nodes in excluded.list_refusals(ranking))
    assert refused == sum(map(ranking.passes, rows))
