"""Pods stay away from nodes that their owner left while hot, and nobody else does."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.moves import MoveOutcome
from schemas.messages.pods import Pod
from schemas.topics.codec import decode
from streams.placement.exclusions import ExcludedNodes
from streams.pods.kind import kind_of
from tests.streams.cluster.builders import (
    at,
    controlled_by,
    eviction,
    full,
    lifecycle,
    metric,
    node,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, cluster, only, outcomes, waiting


def owned(uid: str, owner: str = "web", of: Callable[..., Pod] = pod) -> Pod:
    """A pod of a ReplicaSet; all of them are of one kind."""
    owners = controlled_by(owner)
    return of(uid, owners=owners)


def left(run: Run, name: str, owner: str = "web", seconds: float = 0) -> None:
    """A pod of the owner was commanded to leave a hot node."""
    run.state.memory.moves.record_departure(owner, name, at(seconds), "cpu 90 % over 70 %")


def cooled(run: Run, name: str, seconds: float) -> None:
    """The node sends the two metrics that are waited for."""
    run.say(metric(name, seconds=seconds - 60), metric(name, seconds=seconds))


def three_nodes() -> Run:
    """node-1 is the first among equals."""
    return cluster(*(node(f"node-{i}") for i in (1, 2, 3)))


def test_a_pod_goes_to_the_best_node_that_its_owner_did_not_leave_hot() -> None:
    run = three_nodes()
    left(run, "node-1")
    made = only(run.say(request(owned("a"))))
    assert (made.outcome, made.node) == ("placed", "node-2")
    assert made.refused_by == {"RecentMoves": 1}
    assert [each.node for each in made.runners_up] == ["node-3"]


def test_a_node_that_others_refuse_already_is_not_counted_again() -> None:
    run = cluster(node("node-1", cpu="100m"), node("node-2"))
    left(run, "node-1")
    assert only(run.say(request(owned("a")))).refused_by == {"NodeResourcesFit": 1}


def test_a_pod_with_only_excluded_nodes_waits_until_one_has_cooled() -> None:
    run = cluster(node("node-1"), node("node-2", cpu="100m"))
    left(run, "node-1")
    made = only(run.say(request(owned("a"))))
    assert (made.outcome, made.attempt, made.retry_after_ms) == ("waiting", 1, 1000)
    assert made.refused_by == {"NodeResourcesFit": 1, "RecentMoves": 1}
    assert made.message == "1 node: Insufficient cpu; 1 node: left by this owner while hot"
    assert run.say(tick(0.5)) == []
    again = only(run.say(tick(1)))
    assert (again.outcome, again.attempt, again.retry_after_ms) == ("waiting", 2, 2000)
    run.say(tick(200))
    cooled(run, "node-1", 200)
    run.say(tick(299))
    made = only(run.say(tick(300)))
    assert (made.outcome, made.node, made.refused_by) == (
        "placed",
        "node-1",
        {"NodeResourcesFit": 1},
    )
    assert waiting(run) == []


def test_a_pod_with_only_excluded_nodes_is_placed_on_new_or_freed_nodes() -> None:
    for said in (node("node-9"), lifecycle("deleted", full("big"), "node-2")):
        run = cluster(node("node-1"), node("node-2"))
        run.say(lifecycle("bound", full("big"), "node-2"))
        left(run, "node-1")
        run.say(request(owned("a")))
        assert outcomes(run.say(said, tick(0.5))) == [("a", "placed")]


def test_an_excluded_pod_does_not_block_its_group() -> None:
    run = cluster(node("node-1"))
    run.say(policy_record())
    left(run, "node-1")
    made = run.say(request(owned("a")), request(owned("b", "other")), request(owned("c")))
    assert outcomes(made) == [("a", "waiting"), ("b", "placed"), ("c", "waiting")]
    # Those that wait as a group go one by one as well, each where its owner may go.
    run.say(lifecycle("bound", full("big"), "node-1"))
    run.say(request(owned("d")), request(owned("e", "other")))
    made = run.say(lifecycle("deleted", full("big"), "node-1"), tick(100))
    assert {(uid, said) for uid, said in outcomes(made) if uid in "de"} == {
        ("d", "waiting"),
        ("e", "placed"),
    }


def test_an_excluded_pod_joins_its_group_when_no_node_fits() -> None:
    run = cluster(node("node-1"))
    left(run, "node-1")
    run.say(request(owned("a")))
    run.say(lifecycle("bound", full("big"), "node-1"))
    made = only(run.say(tick(1)))
    assert (made.outcome, made.refused_by) == ("waiting", {"NodeResourcesFit": 1})


@pytest.mark.parametrize("ending", ["withdrawn", "bound", "again"])
def test_an_excluded_pod_stops_waiting_like_others(ending: str) -> None:
    run = cluster(node("node-1"))
    left(run, "node-1")
    run.say(request(owned("a")))
    if ending == "withdrawn":
        assert outcomes(run.say(request(owned("a"), withdrawn=True))) == [("a", "withdrawn")]
    elif ending == "bound":
        assert outcomes(run.say(lifecycle("bound", owned("a"), "node-1"))) == [("a", "withdrawn")]
    else:
        assert outcomes(run.say(request(owned("a")))) == [("a", "waiting")]
        assert waiting(run) == ["a"]
        return
    assert waiting(run) == []
    assert run.say(tick(100)) == []


@pytest.mark.parametrize("confirmed", ["by its binder", "by its lifecycle"])
def test_a_replacement_that_arrives_ends_the_move_once(confirmed: str) -> None:
    run = three_nodes()
    left(run, "node-1")
    left(run, "node-3")
    made = only(run.say(request(owned("a"))))
    if confirmed == "by its binder":
        run.say(outcome(made, "done"))
    for event in ("bound", "running", "changed"):
        run.say(lifecycle(event, owned("a"), "node-2"))
    first, second = run.state.memory.moves.rows["web"].moves
    assert (first.source, first.target, second.target) == ("node-1", "node-2", None)


def test_a_pod_that_another_scheduler_returns_freezes_its_owner() -> None:
    run = three_nodes()
    left(run, "node-1")
    run.say(lifecycle("bound", owned("a"), "node-1"))
    why = run.state.memory.moves.explain_freeze("web", at(1))
    assert why is not None
    assert "node-1 → node-1" in why


def test_the_outcome_of_a_move_is_reported_at_a_tick() -> None:
    run = three_nodes()
    run.state.memory.followed.follow(eviction("old", "web", "node-1"))
    run.say(lifecycle("bound", owned("a"), "node-2"))
    record = run.log.message(tick(600))
    outputs = run.stage.apply([record]).outputs
    statuses = [decode("status", each.value) for each in outputs if each.topic == "status"]
    (made,) = [each for each in statuses if isinstance(each, MoveOutcome)]
    assert (made.target_node, made.returned) == ("node-2", False)
    assert made.as_of.offsets["clock"] == record.offset


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
    run = cluster(
        *(node(name) for name in names),
        *(metric(name, cpu=cpu) for name, cpu in zip(names, used, strict=True)),
    )
    ranking = run.state.placement.placer.rank(kind_of(pod("a")))
    excluded = ExcludedNodes(rows)
    totals = ranking.totals.tolist()
    order = sorted(
        (row for row in range(len(used)) if ranking.passes(row) and row not in rows),
        key=lambda row: (-totals[row], row),
    )
    best = ranking.best(rows)
    assert best == (order[0] if order else None)
    if best is not None:
        assert ranking.runners_up(count, {best, *rows}) == order[1 : 1 + count]
    refused = sum(nodes for *_, nodes in excluded.list_refusals(ranking))
    assert refused == sum(map(ranking.passes, rows))
