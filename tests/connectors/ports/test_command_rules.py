"""The rules of every sink, with a fake sink."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.ports import command_rules
from connectors.ports.command_rules import (
    IDS_KEPT_MS,
    IN_FLIGHT_MAX,
    TICKS_BEHIND,
    CommandRules,
)
from connectors.ports.sink import DONE, Attempt, Sink, SinkError
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef
from simulation.cluster.coroutines import run_coroutine
from tests.connectors.ports.sink_contract import CLUSTER, MINUTE_MS, NOW_MS, decision, eviction


class _Sink(Sink):
    """Records commands, and answers them when allowed."""

    def __init__(self, failure: Exception | None = None, *answers: Attempt) -> None:
        self.answers = list(answers)
        self.explained: list[str] = []
        self.asked: list[str] = []
        self.under_way: list[str] = []
        self.most = 0
        self.failure = failure
        self.open = asyncio.Event()
        self.open.set()

    async def bind(self, decision: PlacementDecision) -> Attempt:
        return await self._answer(decision.decision_id, decision.pod.uid)

    async def evict(self, command: EvictionCommand) -> Attempt:
        return await self._answer(command.command_id, command.pod.uid)

    async def _answer(self, command_id: str, uid: str) -> Attempt:
        assert uid not in self.under_way, "two commands of one pod at once"
        self.asked.append(command_id)
        self.under_way.append(uid)
        self.most = max(self.most, len(self.under_way))
        if not self.open.is_set():
            await self.open.wait()
        self.under_way.remove(uid)
        if self.failure is not None:
            raise self.failure
        return self.answers.pop(0) if self.answers else DONE

    async def explain(self, decision: PlacementDecision) -> None:
        assert decision.pod.uid not in self.under_way, "its pod is being bound"
        self.explained.append(decision.decision_id)


def _pod(name: str) -> PodRef:
    return PodRef(namespace="ns", name=name, uid=f"uid-of-{name}")


@pytest.mark.parametrize(
    "failure", [SinkError("the server is overloaded"), ConnectionResetError("reset by peer")]
)
def test_a_cluster_that_fails_is_an_outcome_and_the_command_is_not_tried_again(
    failure: Exception,
) -> None:
    sink = _Sink(failure)
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    outcome = run_coroutine(rules.carry_out(decision(_pod("a"), "n")))
    assert outcome is not None
    assert (outcome.result, outcome.reason) == ("failed", str(failure))
    assert run_coroutine(rules.carry_out(decision(_pod("a"), "n"))) is None
    assert len(sink.asked) == 1


@pytest.mark.parametrize("outcome", ["waiting", "refused", "withdrawn", "expired"])
def test_a_decision_that_places_no_pod_is_not_carried_out(outcome: str) -> None:
    sink = _Sink()
    command = decision(_pod("a"), "n", outcome=outcome)
    assert run_coroutine(CommandRules(CLUSTER, sink, NOW_MS).carry_out(command)) is None
    assert sink.asked == []
    assert sink.explained == [command.decision_id]


async def test_decisions_of_a_pod_are_explained_in_order() -> None:
    sink = _Sink()
    sink.open.clear()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    commands = [
        decision(_pod("a"), "n"),
        decision(_pod("a"), "n", outcome="expired", decision_id="expired-of-a"),
        decision(_pod("b"), "n", outcome="waiting"),
    ]
    tasks = [asyncio.create_task(rules.carry_out(command)) for command in commands]
    await asyncio.sleep(0)
    assert sink.explained == ["bind-uid-of-b"]
    sink.open.set()
    await asyncio.gather(*tasks)
    assert sink.explained == ["bind-uid-of-b", "expired-of-a"]


AGAIN = Attempt("refused", "not now", again_in_s=0.0)


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_rules, "PAUSE_FIRST_S", 0.0)


@pytest.mark.usefixtures("_no_pauses")
async def test_an_attempt_that_may_be_repeated_is_repeated_until_one_is_final() -> None:
    sink = _Sink(None, AGAIN, AGAIN, Attempt("failed", "for good"))
    outcome = await CommandRules(CLUSTER, sink, NOW_MS).carry_out(eviction(_pod("a"), "n"))
    assert outcome is not None
    assert (outcome.result, outcome.reason) == ("failed", "for good")
    assert len(sink.asked) == 3


async def test_a_retry_after_the_expiry_is_not_awaited() -> None:
    later = Attempt("refused", "not now", again_in_s=MINUTE_MS / 1000)
    sink = _Sink(None, later)
    outcome = await CommandRules(CLUSTER, sink, NOW_MS).carry_out(eviction(_pod("a"), "n"))
    assert outcome is not None
    assert (outcome.result, outcome.reason) == ("refused", "not now; given up after attempt 1")


@pytest.mark.usefixtures("_no_pauses")
async def test_a_command_that_expires_between_attempts_has_the_outcome_of_the_last() -> None:
    sink = _Sink(None, *[AGAIN] * 1000)
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    task = asyncio.create_task(rules.carry_out(eviction(_pod("a"), "n")))
    while len(sink.asked) < 3:
        await asyncio.sleep(0)
    rules.advance_clock(NOW_MS + MINUTE_MS)
    outcome = await task
    assert outcome is not None
    assert outcome.result == "refused"
    assert len(sink.asked) <= 4


@pytest.mark.usefixtures("_no_pauses")
async def test_attempts_are_limited_when_the_clock_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_rules, "ATTEMPTS_MAX", 5)
    sink = _Sink(None, *[AGAIN] * 1000)
    outcome = await CommandRules(CLUSTER, sink, NOW_MS).carry_out(eviction(_pod("a"), "n"))
    assert outcome is not None
    assert (outcome.reason, len(sink.asked)) == ("not now; given up after attempt 5", 5)


async def test_stop_ends_a_pause_and_the_command_is_left_to_the_next_owner() -> None:
    sink = _Sink(None, Attempt("failed", "not now", again_in_s=30.0))
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    task = asyncio.create_task(rules.carry_out(eviction(_pod("a"), "n")))
    while not sink.asked:
        await asyncio.sleep(0)
    rules.stop()
    assert await task is None
    assert len(sink.asked) == 1


@pytest.mark.usefixtures("_no_pauses")
async def test_each_attempt_is_made_within_the_gate_and_only_the_last_is_reported() -> None:
    sink = _Sink(None, AGAIN, AGAIN, DONE)
    steps: list[str] = []

    @asynccontextmanager
    async def gate() -> AsyncIterator[None]:
        steps.append("in")
        yield
        steps.append("out")

    async def report(outcome: CommandOutcome) -> None:
        steps.append(outcome.result)

    rules = CommandRules(CLUSTER, sink, NOW_MS, gate=gate, report=report)
    await rules.carry_out(eviction(_pod("a"), "n"))
    assert steps == ["in", "out", "in", "out", "in", "done", "out"]


@pytest.mark.usefixtures("_no_pauses")
async def test_a_term_that_ends_between_attempts_leaves_the_command_to_the_next_owner() -> None:
    sink = _Sink(None, AGAIN, DONE)
    reported: list[CommandOutcome] = []

    @asynccontextmanager
    async def gate() -> AsyncIterator[None]:
        if sink.asked:
            raise LookupError("the turn is over")
        yield

    async def report(outcome: CommandOutcome) -> None:
        reported.append(outcome)

    rules = CommandRules(CLUSTER, sink, NOW_MS, gate=gate, report=report)
    with pytest.raises(LookupError):
        await rules.carry_out(eviction(_pod("a"), "n"))
    assert (len(sink.asked), reported) == (1, [])


@pytest.mark.usefixtures("_no_pauses")
async def test_a_waiting_retry_does_not_block_other_pods() -> None:
    sink = _Sink(None, *[Attempt("refused", "not now", again_in_s=30.0)] * IN_FLIGHT_MAX)
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    tasks = [
        asyncio.create_task(rules.carry_out(eviction(_pod(str(n)), "n")))
        for n in range(IN_FLIGHT_MAX)
    ]
    while len(sink.asked) < IN_FLIGHT_MAX:
        await asyncio.sleep(0)
    outcome = await rules.carry_out(eviction(_pod("another"), "n"))
    assert outcome is not None
    assert outcome.result == "done"
    rules.stop()
    await asyncio.gather(*tasks)


def test_commands_of_another_cluster_are_not_carried_out() -> None:
    sink = _Sink()
    rules = CommandRules("another", sink, NOW_MS)
    assert run_coroutine(rules.carry_out(eviction(_pod("a"), "n"))) is None
    assert sink.asked == []


def test_time_is_the_time_of_the_log_and_does_not_go_back() -> None:
    sink = _Sink()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    rules.advance_clock(NOW_MS + MINUTE_MS)
    rules.advance_clock(NOW_MS)
    outcome = run_coroutine(rules.carry_out(eviction(_pod("a"), "n")))
    assert outcome is not None
    assert (outcome.result, outcome.happened_at_ms) == ("expired", NOW_MS + MINUTE_MS)
    assert sink.asked == []


def test_a_single_tick_from_the_future_expires_commands_only_briefly() -> None:
    rules = CommandRules(CLUSTER, _Sink(), NOW_MS)
    rules.advance_clock(NOW_MS + 365 * 1440 * MINUTE_MS)
    for second in range(1, TICKS_BEHIND + 1):
        rules.advance_clock(NOW_MS + 1000 * second)
    outcome = run_coroutine(rules.carry_out(eviction(_pod("a"), "n")))
    assert outcome is not None
    assert (outcome.result, outcome.happened_at_ms) == ("done", NOW_MS + 1000 * TICKS_BEHIND)


async def test_a_command_that_expires_while_it_waits_for_its_pod_is_not_carried_out() -> None:
    sink = _Sink()
    sink.open.clear()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    commands = (decision(_pod("a"), "n"), eviction(_pod("a"), "n"))
    tasks = [asyncio.create_task(rules.carry_out(command)) for command in commands]
    await asyncio.sleep(0)
    rules.advance_clock(NOW_MS + MINUTE_MS)
    sink.open.set()
    outcomes = await asyncio.gather(*tasks)
    assert [outcome.result for outcome in outcomes if outcome] == ["done", "expired"]


async def test_commands_of_one_pod_keep_their_order_and_other_pods_do_not_wait() -> None:
    sink = _Sink()
    sink.open.clear()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    ids = ["command-1", "command-2", "command-3"]
    commands = [eviction(_pod("a"), "n", command_id=command_id) for command_id in ids]
    commands.append(eviction(_pod("b"), "n", command_id="of-another-pod"))
    tasks = [asyncio.create_task(rules.carry_out(command)) for command in commands]
    await asyncio.sleep(0)
    assert sink.asked == ["command-1", "of-another-pod"]
    sink.open.set()
    await asyncio.gather(*tasks)
    assert [command_id for command_id in sink.asked if command_id in ids] == ids


async def test_no_more_commands_are_under_way_than_the_limit_says() -> None:
    sink = _Sink()
    sink.open.clear()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    commands = [eviction(_pod(str(n)), "n") for n in range(IN_FLIGHT_MAX + 10)]
    tasks = [asyncio.create_task(rules.carry_out(command)) for command in commands]
    await asyncio.sleep(0)
    sink.open.set()
    outcomes = await asyncio.gather(*tasks)
    assert {outcome.result for outcome in outcomes if outcome} == {"done"}
    assert sink.most == IN_FLIGHT_MAX


async def test_after_stop_running_commands_are_reported_and_none_is_started() -> None:
    sink = _Sink()
    sink.open.clear()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    ids = ["under-way", "its-turn-has-not-come"]
    tasks = [
        asyncio.create_task(rules.carry_out(eviction(_pod("a"), "n", command_id=command_id)))
        for command_id in ids
    ]
    await asyncio.sleep(0)
    rules.stop()
    sink.open.set()
    first, second = await asyncio.gather(*tasks)
    assert first is not None
    assert first.result == "done"
    assert second is None
    assert await rules.carry_out(eviction(_pod("b"), "n")) is None
    assert sink.asked == ["under-way"]


def test_commands_reported_before_a_restart_are_not_repeated() -> None:
    sink = _Sink()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    command = eviction(_pod("a"), "n")
    rules.remember(command.command_id)
    assert run_coroutine(rules.carry_out(command)) is None
    assert sink.asked == []


def test_ids_are_forgotten_after_the_longest_delivery_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command_rules, "IDS_MAX", 2)
    rules = CommandRules(CLUSTER, _Sink(), NOW_MS)

    def result(name: str) -> str | None:
        outcome = run_coroutine(rules.carry_out(decision(_pod(name), "n", expires_at_ms=None)))
        return outcome.result if outcome else None

    assert [result("a"), result("b"), result("c")] == ["done", "done", "refused"]
    rules.advance_clock(NOW_MS + IDS_KEPT_MS - 1)
    assert result("a") is None
    rules.advance_clock(NOW_MS + IDS_KEPT_MS)
    assert result("c") == "done"


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3), st.booleans()), max_size=30
    )
)
def test_each_command_has_at_most_one_attempt_and_one_outcome(
    steps: list[tuple[int, bool, int, bool]],
) -> None:
    sink = _Sink()
    rules = CommandRules(CLUSTER, sink, NOW_MS)
    reported: list[str] = []
    for number, evicts, minutes, dry in steps:
        rules.advance_clock(rules.now_ms + minutes * MINUTE_MS // 2)
        pod = _pod(str(number))
        command = eviction(pod, "n", dry_run=dry) if evicts else decision(pod, "n")
        outcome = run_coroutine(rules.carry_out(command))
        if outcome is not None:
            reported.append(outcome.command_id)
            assert (outcome.result == "done") == (outcome.command_id in sink.asked)
    assert len(set(reported)) == len(reported)
    assert len(set(sink.asked)) == len(sink.asked)
    assert {f"{'evict' if e else 'bind'}-uid-of-{n}" for n, e, _, _ in steps} == set(reported)
