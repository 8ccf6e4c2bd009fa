"""Background writes."""

import asyncio

import pytest

from connectors.kubernetes.api.errors import ApiUnreachable
from connectors.kubernetes.sinks import background as module
from connectors.kubernetes.sinks.background import AT_ONCE, BURST, Background


class _Writer:
    """Records writes; writes wait until `open` is set."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.under_way: list[str] = []
        self.most = 0
        self.open = asyncio.Event()

    def put(self, background: Background, key: str, text: str = "") -> bool:
        async def write() -> None:
            assert key not in self.under_way, "two writes of one key at once"
            self.under_way.append(key)
            self.most = max(self.most, len(self.under_way))
            await self.open.wait()
            self.under_way.remove(key)
            self.written.append(text or key)

        return background.put(key, write)


async def _wait_for_writes(background: Background, writer: _Writer) -> list[str]:
    writer.open.set()
    while len(background) or writer.under_way:
        await asyncio.sleep(0)
    return writer.written


async def test_a_newer_write_replaces_a_waiting_one() -> None:
    background, writer = Background(1000, 10), _Writer()
    for text in ("old", "newer", "newest"):
        writer.put(background, "key", text)
    assert await _wait_for_writes(background, writer) == ["newest"]


async def test_the_newest_write_of_a_key_follows_the_running_one() -> None:
    background, writer = Background(1000, 10), _Writer()
    writer.put(background, "key", "first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert writer.under_way == ["key"]
    for text in ("old", "newest"):
        writer.put(background, "key", text)
    writer.put(background, "other")
    await asyncio.sleep(0)
    assert sorted(await _wait_for_writes(background, writer)) == ["first", "newest", "other"]


async def test_beyond_the_limit_writes_are_dropped_and_counted() -> None:
    background, writer = Background(1000, 3), _Writer()
    assert [writer.put(background, str(n)) for n in range(5)] == [True, True, True, False, False]
    assert background.dropped == 2
    assert await _wait_for_writes(background, writer) == ["0", "1", "2"]
    assert background.written == 3


async def test_writes_are_paced_after_a_burst() -> None:
    background, writer = Background(200, 1000), _Writer()
    writer.open.set()
    began_s = asyncio.get_running_loop().time()
    for number in range(BURST + 20):
        writer.put(background, str(number))
    while len(writer.written) < BURST + 20:
        await asyncio.sleep(0.001)
    assert asyncio.get_running_loop().time() - began_s >= 0.9 * 20 / 200


async def test_a_failure_is_counted_and_the_next_one_is_written() -> None:
    background, writer = Background(1000, 10), _Writer()

    async def fails() -> None:
        raise ApiUnreachable("gone")

    background.put("a", fails)
    writer.put(background, "b")
    assert await _wait_for_writes(background, writer) == ["b"]
    assert (background.failed, background.written) == (1, 1)


async def test_close_drops_waiting_writes_and_awaits_running_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLOSE_S", 200.0)
    background, writer = Background(1000, 100), _Writer()
    for number in range(10):
        writer.put(background, str(number))
    while len(writer.under_way) < AT_ONCE:
        await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, writer.open.set)
    await background.close()
    assert writer.written == [str(number) for number in range(AT_ONCE)]
    assert background.dropped == 10 - AT_ONCE
