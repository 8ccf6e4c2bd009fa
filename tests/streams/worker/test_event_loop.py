"""Background work takes short time slices, and garbage collection leaves lasting state alone."""

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from streams.worker import event_loop
from streams.worker.event_loop import TimeSlice, without_garbage_collection


def _work(time_slice: TimeSlice) -> float:
    began_s = time.perf_counter()
    while not time_slice.is_over:
        pass
    return time.perf_counter() - began_s


async def test_a_rest_is_longer_than_the_slice_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "REST_MAX_S", 60.0)
    time_slice = TimeSlice()
    worked_s = _work(time_slice)
    began_s = time.perf_counter()
    await time_slice.rest()
    assert time.perf_counter() - began_s >= 2 * worked_s


async def test_urgent_work_yields_once_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "REST_MAX_S", 3_600.0)
    monkeypatch.setattr(event_loop, "BUSY_SHARE", 1e-9)
    time_slice = TimeSlice()
    _work(time_slice)
    met = asyncio.Event()
    asyncio.get_running_loop().call_soon(met.set)
    await time_slice.rest(hurry=True)
    assert met.is_set()


class Knot:
    """Something that refers to itself, as a connection may."""

    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


def test_lasting_objects_are_not_scanned() -> None:
    with without_garbage_collection():
        assert not gc.isenabled()
        knot = Knot()
    assert gc.isenabled()
    assert all(instance is not knot for instance in gc.get_objects())


def test_released_lasting_objects_are_collected_later() -> None:
    with without_garbage_collection():
        knot = Knot()
    gone = weakref.ref(knot)
    del knot
    gc.collect()
    assert gone() is not None
    with without_garbage_collection():
        pass
    assert gone() is None
