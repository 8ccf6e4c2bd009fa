"""How many requests an API server gets at once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sinks import throttle as module
from connectors.kubernetes.sinks.answers import RETRY_AFTER_MAX_S
from connectors.kubernetes.sinks.throttle import (
    CEILING,
    FLOOR,
    START,
    AdaptiveLimit,
    Throttle,
)
from tests.connectors.kubernetes.sinks.fake_server import (
    LOST,
    OVERLOADED,
    Answer,
    FakeServer,
    failure,
)


def test_a_refusal_halves_the_limit_once_for_all_requests_that_were_under_way() -> None:
    limit = AdaptiveLimit(start=32)
    for _ in range(20):
        limit.record_refusal(1.0, 2.0, None)
    assert limit.at_once == 16
    limit.record_refusal(2.0, 3.0, None)
    assert limit.at_once == 8


def test_a_retry_after_is_honoured_up_to_its_limit() -> None:
    limit = AdaptiveLimit()
    limit.record_refusal(0.0, 1.0, 3.0)
    assert limit.resume_at_s == 4.0
    limit.record_refusal(0.0, 1.5, 1.0)
    assert limit.resume_at_s == 4.0, "an earlier refusal asked for longer"
    limit.record_refusal(0.0, 2.0, 10_000.0)
    assert limit.resume_at_s == 2.0 + RETRY_AFTER_MAX_S


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0, 3), st.floats(0, 0.5), st.integers(0, 100)),
        max_size=200,
    )
)
def test_the_limit_stays_between_floor_and_ceiling(
    answers: list[tuple[bool, float, float, int]],
) -> None:
    limit, now_s = AdaptiveLimit(), 0.0
    for refused, latency_s, later_s, under_way in answers:
        now_s += later_s
        if refused:
            limit.record_refusal(now_s - latency_s, now_s, None)
        else:
            limit.record_answer(now_s - latency_s, now_s, under_way)
        assert FLOOR <= limit.at_once <= CEILING


def test_the_limit_approaches_the_capacity_of_the_server() -> None:
    """A server that refuses more than 20 at once, and answers the others in 10 ms."""
    limit, now_s, sent, served = AdaptiveLimit(), 0.0, 0, 0
    seen = []
    for _ in range(500):
        at_once, sent_at_s = int(limit.at_once), now_s
        now_s += 0.01
        for _ in range(min(at_once, 20)):
            limit.record_answer(sent_at_s, now_s, at_once)
            served += 1
        for _ in range(at_once - 20):
            limit.record_refusal(sent_at_s, now_s, None)
        sent += at_once
        seen.append(at_once)
    assert served > 0.9 * sent
    assert sum(seen[100:]) / len(seen[100:]) > 0.7 * 20


@pytest.fixture
def none_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this process stands still, no answer of its server takes from the limit."""
    monkeypatch.setattr(module, "SLOW_S", float("inf"))


@pytest.mark.usefixtures("none_is_slow")
async def test_no_more_requests_are_under_way_than_the_limit_says(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("GET", "/x", Answer(after_s=0.01))
    throttle = Throttle(client, AdaptiveLimit(start=3, ceiling=3))
    answers = await asyncio.gather(*(throttle.send("GET", "/x") for _ in range(20)))
    assert [each.status for each in answers] == [200] * 20
    assert fake_server.concurrent_max == 3
    assert (throttle.under_way, throttle.waiting) == (0, 0)


@pytest.mark.usefixtures("none_is_slow")
async def test_an_overloaded_server_gets_fewer_requests_after_its_retry_after(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("GET", "/x", OVERLOADED, Answer())
    throttle = Throttle(client)
    began_s = asyncio.get_running_loop().time()
    assert (await throttle.send("GET", "/x")).status == 429
    assert (await throttle.send("GET", "/x")).status == 200
    assert asyncio.get_running_loop().time() - began_s >= 0.99
    assert int(throttle.limit.at_once) == START // 2
    assert throttle.refusals == 1


@pytest.mark.usefixtures("none_is_slow")
async def test_a_refusal_by_a_budget_does_not_lower_the_limit(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers(
        "GET", "/x", failure(429, "TooManyRequests", "no", "budget", retry_after=10)
    )
    throttle = Throttle(client)
    for _ in range(3):
        assert (await throttle.send("GET", "/x")).status == 429
    assert int(throttle.limit.at_once) == START
    assert throttle.refusals == 0


async def test_a_request_without_an_answer_counts_as_a_refusal(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("POST", "/x", LOST)
    throttle = Throttle(client)
    with pytest.raises(ApiUnreachable):
        await throttle.send("POST", "/x", body={})
    assert (int(throttle.limit.at_once), throttle.under_way) == (START // 2, 0)


async def test_a_cancelled_waiting_request_uses_no_slot(
    fake_server: FakeServer, client: ApiServer
) -> None:
    fake_server.set_answers("GET", "/x", Answer(after_s=0.05))
    throttle = Throttle(client, AdaptiveLimit(start=1, floor=1, ceiling=1))
    tasks = [asyncio.create_task(throttle.send("GET", "/x")) for _ in range(3)]
    await asyncio.sleep(0.01)
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[1], asyncio.CancelledError)
    assert [each.status for each in (results[0], results[2]) if not isinstance(each, BaseException)]
    assert (throttle.under_way, throttle.waiting) == (0, 0)
    assert len(fake_server.requests) == 2
