"""Time that is set back: ages and waits stay what they are, in memory, in rows and in a replay."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.clock import AHEAD_MAX_MS, ClockTick
from schemas.codec import decode
from schemas.deadletters import DeadLetter
from streams.cluster.clock_reset import moved_ms
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord
from tests.streams.cluster.builders import (
    at,
    lifecycle,
    metric,
    node,
    node_gone,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import Log, Run
from tests.streams.journaled import Journaled

YEAR_S = 365 * 86_400
_TIMES = st.integers(0, 100)


def reset(seconds: float) -> ClockTick:
    """An operator sets the time."""
    return ClockTick(partition=0, now_ms=at(seconds), reset=True)


@given(at_ms=_TIMES, other_ms=_TIMES, was_ms=_TIMES, now_ms=_TIMES)
def test_no_two_times_change_places_and_what_is_left_stays(
    at_ms: int, other_ms: int, was_ms: int, now_ms: int
) -> None:
    was_ms = max(was_ms, now_ms)
    moved = moved_ms(at_ms, was_ms, now_ms)
    if at_ms <= other_ms:
        assert moved <= moved_ms(other_ms, was_ms, now_ms)
    if at_ms <= now_ms:
        assert moved == at_ms
    assert max(0, moved - now_ms) == max(0, at_ms - was_ms)


def _history() -> list[Any]:
    """A cluster whose clock runs a year ahead while it places, waits and counts, and is set right."""
    rebalancing = (
        "mode: enforce\nrebalance:\n  nodePools:\n"
        "  - {name: all, lowThresholds: {cpu: 10}, highThresholds: {cpu: 20}}\n"
    )
    return [
        tick(),
        policy_record(rebalancing),
        *(node(name, cpu="4") for name in ("a", "b")),
        lifecycle("running", pod("old"), "a"),
        metric("a", cpu=3000, seconds=1),
        metric("b", cpu=100, seconds=1),
        request("early"),
        tick(YEAR_S),
        *(metric(name, cpu=3000, seconds=YEAR_S) for name in ("a", "b")),
        request("placed"),
        request(pod("waits", cpu="64")),
        tick(YEAR_S + 1),
        tick(YEAR_S + 70),
        reset(100),
        metric("a", cpu=3000, seconds=99),
        metric("b", cpu=100, seconds=99),
        tick(101),
        request("next"),
        tick(170),
        tick(240),
        tick(500),
    ]


def test_a_reservation_made_ahead_of_time_ends_when_it_would_have() -> None:
    run = Run()
    run.say(tick(YEAR_S), node("a"), request("p"))
    run.say(tick(YEAR_S + 100), reset(10))
    _, held = run.state.inventory.held("p") or pytest.fail("the reservation is gone")
    assert held.expires_at_ms == at(10 + 200)
    assert held.assigned_at_ms == at(10)
    run.say(tick(209))
    assert run.state.inventory.held("p") is not None
    assert [each.outcome for each in run.say(tick(211))] == ["expired"]


def test_a_waiting_pod_is_tried_again_soon() -> None:
    run = Run()
    run.say(tick(YEAR_S), request("p"), tick(YEAR_S + 1), reset(10), node("a"))
    assert [each.outcome for each in run.say(tick(20))] == ["placed"]


def test_no_row_knows_of_the_time_that_was_ahead() -> None:
    run = Run()
    for message in _history():
        run.say(message)
    assert run.stage.now_ms == at(500)
    latest = max(
        int(found) for value in run.rows.values() for found in re.findall(rb'_ms":(\d+)', value)
    )
    assert latest < at(YEAR_S)


def test_a_restart_after_it_goes_on_as_the_worker_would_have() -> None:
    history = _history()
    for cut in range(len(history)):
        run, other = Run(), Run()
        for message in history[:cut]:
            run.say(message)
            other.say(message)
        rows = [(table, key, value) for (table, key), value in other.rows.items()]
        other.stage = ClusterStage.restored(0, 1, rows)
        for message in history[cut:]:
            run.say(message)
            other.say(message)
        assert other.outputs == run.outputs
        assert other.rows == run.rows


def test_rows_do_not_depend_on_what_is_applied_with_it() -> None:
    single, together = Run(), Run()
    for message in _history():
        single.say(message)
    together.say(*_history())
    assert together.rows == single.rows
    assert together.outputs == single.outputs


def test_rows_do_not_depend_on_how_often_time_is_set_back_in_a_batch() -> None:
    messages = [
        tick(),
        node(),
        tick(100),
        lifecycle("running", pod("p"), "node-1"),
        reset(50),
        tick(60),
        reset(55),
    ]
    single, together = Run(), Run()
    for message in messages:
        single.say(message)
    together.say(*messages)
    assert together.rows == single.rows


def test_a_stage_without_tables_says_the_same_and_makes_no_rows() -> None:
    run, other = Run(), Run()
    other.stage = ClusterStage(0, 1, has_tables=False)
    for message in _history():
        run.say(message)
        other.say(message)
    assert run.outputs
    assert other.outputs == run.outputs
    assert not other.rows


def test_without_tables_time_is_set_back_again_after_something_has_gone() -> None:
    run, other = Run(), Run()
    other.stage = ClusterStage(0, 1, has_tables=False)
    history = [
        tick(),
        *(node(name, cpu="4") for name in ("a", "b")),
        lifecycle("running", pod("old"), "b"),
        request(pod("waits", cpu="64")),
        tick(YEAR_S),
        reset(100),
        lifecycle("deleted", pod("old"), "b"),
        node_gone("b"),
        request(pod("waits", cpu="64"), withdrawn=True),
        tick(YEAR_S),
        reset(200),
        request("placed"),
    ]
    for message in history:
        run.say(message)
        other.say(message)
    assert run.outputs
    assert other.outputs == run.outputs
    assert other.state.inventory.nodes.keys() == {"a"}


def test_a_replay_comes_to_the_same() -> None:
    log, worker = Log(), Journaled()
    for message in _history():
        worker.apply([log.message(message)])
    difference, fold = worker.replay()
    assert difference is None
    assert fold.summary.inputs == len(_history())


def _judged(record: InputRecord, own_s: float) -> InputRecord:
    """As a worker marks it whose own time that is."""
    return replace(record, refused_at_ms=at(own_s))


def test_a_tick_that_the_worker_refused_changes_nothing_and_is_a_dead_letter() -> None:
    log, worker = Log(), Journaled()
    worker.apply([log.message(tick())])
    result = worker.apply([_judged(log.message(tick(YEAR_S)), 1)])
    assert worker.stage.now_ms == at(0)
    (letter,) = (decode("dead-letters", each.value) for each in result.dead_letters)
    assert isinstance(letter, DeadLetter)
    assert (letter.topic, letter.category) == ("clock", "future")
    assert f"allowed are at most {AHEAD_MAX_MS} ms" in letter.reason
    worker.apply([log.message(tick(2))])
    assert worker.stage.now_ms == at(2)


def test_a_replay_knows_what_the_worker_refused_and_not_from_a_clock() -> None:
    log, worker = Log(), Journaled()
    worker.apply([log.message(tick()), log.message(node("a"))])
    worker.apply([log.message(tick(1)), _judged(log.message(tick(YEAR_S)), 1)])
    worker.apply([_judged(log.message(reset(-50)), 2), log.message(request("p"))])
    worker.topics = [replace(record, refused_at_ms=None) for record in worker.topics]
    difference, fold = worker.replay()
    assert difference is None
    assert fold.summary.inputs == 6
    assert worker.stage.now_ms == at(1)
