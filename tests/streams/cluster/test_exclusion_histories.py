"""Random histories of owners whose pods left hot nodes: nobody returns too early, nobody waits for ever."""

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import Pod
from streams.stage.records import InputRecord
from tests.streams.cluster.builders import (
    at,
    controlled_by,
    lifecycle,
    metric,
    node,
    node_gone,
    outcome,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Run, waiting

#: Mostly the one that is there from the beginning, so that it is often the only one.
_NODES = st.sampled_from(("node-1", "node-1", "node-1", "node-2"))
_UIDS = st.sampled_from([f"{owner}-{i}" for owner in ("web", "job") for i in range(4)])
_EVENTS = st.one_of(
    st.tuples(st.just("request"), _UIDS, st.booleans()),
    st.tuples(st.just("request"), _UIDS, st.just(False)),
    st.tuples(st.just("left"), st.sampled_from(("web", "job")), _NODES),
    st.tuples(st.just("left"), st.sampled_from(("web", "job")), _NODES),
    st.tuples(st.just("tick"), st.sampled_from((1, 1, 5, 61, 200))),
    st.tuples(st.just("tick"), st.just(1)),
    st.tuples(st.just("metric"), _NODES),
    st.tuples(st.just("bound"), _UIDS, _NODES),
    st.tuples(st.just("deleted"), _UIDS),
    st.tuples(st.just("binding"), st.sampled_from(("done", "failed")), st.integers(0, 99)),
    st.tuples(st.just("node"), _NODES, st.sampled_from(("500m", "1500m", "8"))),
    st.tuples(st.just("node gone"), _NODES),
    st.tuples(st.just("withdrawn"), _UIDS),
    st.tuples(st.just("policy"), st.sampled_from((0, 60, 300)), st.booleans()),
)


def of(uid: str, *, large: bool = False) -> Pod:
    """A pod of the owner that its uid names."""
    owner = uid.partition("-")[0]
    owners = controlled_by(owner)
    return pod(uid, cpu="2" if large else "1", owners=owners)


class TrackedRun(Run):
    """A run that knows the newest placement of each pod."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: dict[str, PlacementDecision] = {}

    def apply(self, records: Sequence[InputRecord]) -> list[PlacementDecision]:
        """Apply records as one batch."""
        made = super().apply(records)
        self.placed |= {each.pod.uid: each for each in made if each.outcome == "placed"}
        return made


def happen(
    run: TrackedRun, now: int, event: tuple[Any, ...]
) -> tuple[int, list[PlacementDecision]]:
    """Let one thing happen; answers with the time after it and the decisions."""
    match event:
        case ("request", uid, large):
            return now, run.say(request(of(uid, large=large)))
        case ("left", owner, name):
            run.state.memory.moves.record_departure(owner, name, at(now), "hot")
        case ("tick", seconds):
            return now + seconds, run.say(tick(now + seconds))
        case ("metric", name):
            return now, run.say(metric(name, seconds=now))
        case ("bound", uid, name):
            return now, run.say(lifecycle("bound", of(uid), name))
        case ("deleted", uid):
            return now, run.say(lifecycle("deleted", of(uid)))
        case ("binding", result, number):
            held = [run.placed[uid] for uid in sorted(run.placed)]
            if held:
                return now, run.say(outcome(held[number % len(held)], result))
        case ("node", name, cpu):
            return now, run.say(node(name, cpu=cpu))
        case ("node gone", name):
            return now, run.say(node_gone(name))
        case ("withdrawn", uid):
            return now, run.say(request(of(uid), withdrawn=True))
        case ("policy", cooling, paused):
            text = (
                f"moves: {{coolingSeconds: {max(cooling, 1)}, enabled: {str(cooling > 0).lower()}}}"
            )
            return now, run.say(policy_record(text, paused=paused))
    return now, []


def check(run: Run, made: list[PlacementDecision], now: int) -> None:
    """Nobody was placed where the owner must not go."""
    moves = run.state.memory.moves
    for decision in made:
        if decision.outcome == "placed":
            owner = decision.pod.uid.partition("-")[0]
            assert decision.node not in moves.find_avoided_by_owner(owner, at(now))
            others = {each.node for each in decision.runners_up}
            assert not others & moves.find_avoided_by_owner(owner, at(now))
        assert sum(decision.refused_by.values()) <= decision.nodes
        assert decision.refused_by.get("RecentMoves", 0) == 0 or moves.enabled


def begun() -> TrackedRun:
    """A cluster of one node with room for a few pods, which one of the owners has left."""
    run = TrackedRun()
    run.say(tick(), node("node-1", cpu="3500m"))
    run.state.memory.moves.record_departure("web", "node-1", at(0), "hot")
    return run


@settings(max_examples=50)
@given(st.lists(st.tuples(_EVENTS, st.one_of(st.none(), st.integers(0, 2**32))), max_size=40))
def test_nobody_returns_too_early_and_a_restart_changes_nothing(
    events: list[tuple[tuple[Any, ...], int | None]],
) -> None:
    steady, restarted = begun(), begun()
    now = 0
    for event, restart in events:
        if restart is not None:
            # What was noted outside of a record is written with the next one.
            for run in (steady, restarted):
                run.say(metric("node-9", seconds=now))
            rows = restarted.stored()
            random.Random(restart).shuffle(rows)
            restarted.restart(rows)
        then, made = happen(steady, now, event)
        assert happen(restarted, now, event) == (then, made)
        now = then
        check(steady, made, now)
    assert steady.outputs == restarted.outputs
    for run in (steady, restarted):
        run.say(tick(now))
    assert steady.rows == restarted.rows


@settings(max_examples=50)
@given(st.lists(_EVENTS, max_size=40))
def test_in_the_end_everybody_who_waits_is_placed(events: list[tuple[Any, ...]]) -> None:
    run = begun()
    now = 0
    for event in events:
        now, _ = happen(run, now, event)
    run.say(policy_record(), *(node(f"node-{i}", cpu="32") for i in (1, 2, 3)))
    for _ in range(12):
        now += 100
        made = run.say(tick(now), *(metric(f"node-{i}", seconds=now) for i in (1, 2, 3)))
        # Who is placed is bound, or would wait again.
        run.say(*(outcome(each, "done") for each in made if each.outcome == "placed"))
    assert waiting(run) == []
