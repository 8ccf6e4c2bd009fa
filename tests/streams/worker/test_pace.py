"""Work beside batches: turns, and rests that leave the loop to others."""

import asyncio
import time

import pytest

from streams.worker import pace
from streams.worker.pace import Pace


def _work(turn: Pace) -> float:
    began_s = time.perf_counter()
    while not turn.over:
        pass
    return time.perf_counter() - began_s


async def test_a_rest_is_longer_than_the_turn_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "REST_MAX_S", 60.0)
    turn = Pace()
    worked_s = _work(turn)
    began_s = time.perf_counter()
    await turn.rest()
    assert time.perf_counter() - began_s >= 2 * worked_s


async def test_a_turn_begins_anew_after_a_rest() -> None:
    turn = Pace()
    _work(turn)
    await turn.rest()
    assert _work(turn) > 0


async def test_who_is_in_a_hurry_leaves_the_loop_once_and_does_not_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace, "REST_MAX_S", 3_600.0)
    monkeypatch.setattr(pace, "SHARE", 1e-9)
    turn = Pace()
    _work(turn)
    met = asyncio.Event()
    asyncio.get_running_loop().call_soon(met.set)
    await turn.rest(hurry=True)
    assert met.is_set()
