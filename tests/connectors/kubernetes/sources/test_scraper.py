"""Scraping of many nodes in turn."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.sources.health import SourceFailed, SourceHealth
from connectors.kubernetes.sources.kubelet import scraper
from connectors.kubernetes.sources.kubelet.scraper import Scraper
from connectors.process.wall_clock import now_ms
from tests.connectors.kubernetes.sources.harness import until


def _scraper() -> Scraper:
    async def nothing(node: str) -> None:
        """Never called."""

    return Scraper(nothing, interval_s=10, health=SourceHealth("kubelet", now_ms))


@given(st.lists(st.floats(0, 0.4), min_size=1, max_size=60))
def test_each_node_is_due_once_per_interval(steps: list[float]) -> None:
    scraper, nodes = _scraper(), [f"node-{index}" for index in range(200)]
    scraper.set_nodes(nodes)
    now, due = 100.25, Counter[str]()
    for step in steps:
        due.update(scraper._list_due(now, now + step))
        now += step
    whole = int(now - 100.25)
    assert all(whole <= due[node] <= whole + 1 for node in nodes)


def test_nodes_are_spread_over_the_interval() -> None:
    scraper = _scraper()
    scraper.set_nodes(f"node-{index}" for index in range(5_000))
    due = [len(scraper._list_due(step / 20, (step + 1) / 20)) for step in range(20)]
    assert sum(due) == 5_000
    assert max(due) < 1.3 * 250


class _AtWork:
    """Runs a scraper of the nodes in `changes` during the block."""

    scraper: Scraper
    changes: list[list[str]]

    async def __aenter__(self) -> Self:
        changes = self.changes
        self.task = asyncio.create_task(
            self.scraper.run(lambda: changes.pop() if changes else None)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class _Run(_AtWork):
    """A running scraper of nodes that answer at once or never."""

    def __init__(self, nodes: list[str], **limits: int) -> None:
        self.asked: Counter[str] = Counter()
        self.health = SourceHealth("kubelet", now_ms)
        self.failed: set[str] = set()
        self.speaks = asyncio.Event()
        self.most = self.now = 0
        self.scraper = Scraper(self.scrape, interval_s=0.1, health=self.health, **limits)
        self.changes = [nodes]

    async def scrape(self, node: str) -> None:
        self.asked[node] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if node.startswith("dead"):
                await asyncio.sleep(0.3)
                self.failed.add(node)
                self.health.record_failure(SourceFailed("timeout", "no answer"), node)
            elif node == "silent":
                await self.speaks.wait()
        finally:
            self.now -= 1


async def test_dead_nodes_share_slots_and_do_not_delay_other_nodes() -> None:
    dead = [f"dead-{index}" for index in range(50)]
    async with _Run(["a", "b", *dead], failing_max=2) as run:
        await until(lambda: len(run.failed) == 50)
        before = run.asked.copy()
        began = time.monotonic()
        await until(lambda: run.asked["a"] >= before["a"] + 10)
        intervals = (time.monotonic() - began) / 0.1
    # Two at once, each for three intervals; a few started before they were known to be dead.
    asked_dead = sum(run.asked[node] - before[node] for node in dead)
    assert asked_dead <= 2 * (intervals / 3 + 2) + 50
    assert run.asked["b"] >= before["b"] + 8


async def test_a_node_that_is_still_being_asked_is_skipped_and_not_queued() -> None:
    async with _Run(["silent"]) as run:
        await until(lambda: run.health.counts["skipped"] >= 2)
        assert run.asked["silent"] == 1
        run.speaks.set()
        await until(lambda: run.asked["silent"] >= 2)
        assert run.most == 1


async def test_when_no_slot_is_free_a_node_is_skipped() -> None:
    async with _Run([f"dead-{index}" for index in range(9)], in_flight_max=3, failing_max=1) as run:
        await until(lambda: run.health.counts["skipped"] >= 6)
        assert run.most <= 4


class _Beyond(_AtWork):
    """A scraper with more nodes than slots; `ask` raises TimeoutError if its answer is late."""

    def __init__(self, count: int, ask: Callable[[], Awaitable[None]], **limits: int) -> None:
        self.ask = ask
        self.answered: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.health = SourceHealth("kubelet", now_ms)
        self.most = self.now = 0
        self.scraper = Scraper(self.scrape, interval_s=0.2, health=self.health, **limits)
        self.nodes = [f"node-{index}" for index in range(count)]
        self.changes = [self.nodes]

    async def scrape(self, node: str) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.ask()
            self.answered[node] += 1
        except TimeoutError:
            self.late[node] += 1
        finally:
            self.now -= 1


class _OwnTime(asyncio.SelectorEventLoop):
    """An event loop whose time advances only when the loop would wait, independent of pauses of
    this process.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._select = self._selector.select  # type: ignore[attr-defined]  # that of asyncio
        self._selector.select = self._pass  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now_s

    def _pass(self, timeout: float | None = None) -> Any:
        self.now_s += timeout or 0.0
        return self._select(0)


def test_more_nodes_than_slots_are_scraped_in_rotation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slow kubelets: 100 nodes, of which 5 can be scraped within 20 ms."""
    slow_s = 0.02

    async def ask() -> None:
        await asyncio.sleep(slow_s)

    async def scrape() -> None:
        nonlocal slow_s
        async with _Beyond(100, ask, in_flight_max=5) as run:
            await until(lambda: len(run.answered) == 100)
            began, tasks = run.answered.copy(), []
            while sum(run.answered.values()) < sum(began.values()) + 500:
                tasks.append(len(asyncio.all_tasks()))
                await asyncio.sleep(0.01)
            turns = [run.answered[node] - began[node] for node in run.nodes]
            assert max(turns) - min(turns) <= 1
            assert run.health.behind_s > 0.1
            assert run.most == 5
            assert max(tasks) <= 5 + 3
            slow_s = 0
            await until(lambda: run.health.behind_s == 0)

    with asyncio.Runner(loop_factory=_OwnTime) as runner:
        loop = runner.get_loop()
        monkeypatch.setattr(scraper, "time", SimpleNamespace(monotonic=loop.time))
        runner.run(scrape())


async def test_added_and_removed_nodes_are_followed() -> None:
    async with _Run(["a"]) as run:
        await until(lambda: run.asked["a"])
        run.changes.append(["b"])
        await until(lambda: run.asked["b"] >= 2)
        count = run.asked["a"]
        await until(lambda: run.asked["b"] >= 5)
        assert run.asked["a"] == count


async def test_running_scrapes_end_with_the_scraper() -> None:
    async with _Run(["dead"]) as run:
        await until(lambda: run.now == 1)
    assert run.now == 0
    with pytest.raises(asyncio.CancelledError):
        run.task.result()
