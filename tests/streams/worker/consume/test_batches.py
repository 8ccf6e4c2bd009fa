import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from streams.stage.records import InputRecord
from streams.worker.consume.batches import Batches, BatchLimits

#: So long that only a full batch ends the wait.
LONG_S = 60.0


@dataclass(frozen=True)
class Message:
    """The attributes of a message that batches use."""

    records: list[InputRecord]
    generation_id: int = 1
    empty: dict[tuple[str, int, int], int] = field(default_factory=dict)


@dataclass
class Event:
    """The attributes of a Faust event that batches use."""

    message: Message
    acknowledged: bool = False

    def ack(self) -> None:
        """Its records are durable."""
        self.acknowledged = True


def packed(
    *offsets: int,
    topic: str = "topic",
    key: bytes | None = None,
    value: bytes = b"value",
    generation_id: int = 1,
) -> Message:
    """A message of these records."""
    records = [InputRecord(topic, 0, offset, key, value, 0) for offset in offsets]
    return Message(records, generation_id)


@dataclass
class Stream:
    """An endless stream of the values put into it."""

    queue: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)

    def noack(self) -> "Stream":
        """The same stream: nothing here acknowledges."""
        return self

    async def events(self) -> AsyncIterator[Event]:
        """Events as they come."""
        while True:
            yield await self.queue.get()

    def put(self, messages: Iterable[Message]) -> None:
        """Let these come next."""
        for message in messages:
            self.queue.put_nowait(Event(message))


@dataclass
class App:
    """The attributes of a Faust app that batches use."""

    consumer_generation_id: int = 1


@asynccontextmanager
async def pumping(
    limits: BatchLimits, app: App, patient: Collection[str] = ()
) -> AsyncIterator[tuple[Batches, Stream]]:
    """Batches that are filled from a stream."""
    batches, stream = Batches(app, limits, patient), Stream()
    pump = asyncio.create_task(batches.collect(stream))
    batches.release()
    try:
        yield batches, stream
    finally:
        pump.cancel()


async def take_offsets(batches: Batches) -> list[int]:
    """Offsets of the next batch."""
    batch = await asyncio.wait_for(batches.take(), timeout=30)
    return [record.offset for record in batch.records]


async def test_a_batch_is_complete_with_its_number_of_records() -> None:
    async with pumping(BatchLimits(records=3, wait_s=LONG_S), App()) as (batches, stream):
        stream.put(map(packed, range(7)))
        assert await take_offsets(batches) == [0, 1, 2]
        assert await take_offsets(batches) == [3, 4, 5]
        stream.put(map(packed, range(7, 9)))
        assert await take_offsets(batches) == [6, 7, 8]


async def test_a_message_that_is_too_large_for_a_batch_is_acknowledged_with_its_last_part() -> None:
    async with pumping(BatchLimits(records=3, wait_s=LONG_S), App()) as (batches, stream):
        stream.put([packed(*range(5)), packed(5, 6)])
        first, second = [await asyncio.wait_for(batches.take(), 30) for _ in range(2)]
        assert [record.offset for record in first.records] == [0, 1, 2]
        assert first.events == []
        assert [record.offset for record in second.records] == [3, 4, 5]
        assert [event.message.records[0].offset for event in second.events] == [0]
        second.acknowledge()
        assert [event.acknowledged for event in second.events] == [True]


async def test_the_records_of_one_message_are_more_batches_where_their_bytes_are_many() -> None:
    async with pumping(BatchLimits(bytes=10, wait_s=0.01), App()) as (batches, stream):
        stream.put([packed(*range(7), key=b"4", value=b"123")])
        assert [await take_offsets(batches) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]


async def test_a_record_waits_no_longer_than_the_limit() -> None:
    async with pumping(BatchLimits(wait_s=0.01), App()) as (batches, stream):
        stream.put([packed(0)])
        assert await take_offsets(batches) == [0]
        stream.put([packed(1), packed(2)])
        assert await take_offsets(batches) == [1, 2]


async def test_deferrable_records_are_delivered_with_the_next_urgent_one() -> None:
    limits = BatchLimits(wait_s=0, patience_s=LONG_S)
    async with pumping(limits, App(), patient={"report"}) as (batches, stream):
        stream.put([packed(0, topic="report"), packed(1, topic="report")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.take(), timeout=0.05)
        stream.put([packed(2), packed(3, topic="report")])
        assert await take_offsets(batches) == [0, 1, 2, 3]
        stream.put([packed(4, topic="report")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.take(), timeout=0.05)


async def test_a_rebalance_ends_waiting_for_records_of_revoked_partitions() -> None:
    limits = BatchLimits(wait_s=0, patience_s=LONG_S)
    async with pumping(limits, App(), patient={"report"}) as (batches, stream):
        stream.put([packed(0)])
        await asyncio.sleep(0)
        batches.hold()
        batches.release()
        stream.put([packed(1, topic="report")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.take(), timeout=0.05)


async def test_no_batch_is_delivered_during_a_rebalance() -> None:
    async with pumping(BatchLimits(wait_s=0), App()) as (batches, stream):
        batches.hold()
        stream.put([packed(0)])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(batches.take(), timeout=0.05)
        batches.release()
        stream.put([packed(1)])
        assert await take_offsets(batches) == [1]


async def test_records_collected_before_a_rebalance_are_forgotten() -> None:
    async with pumping(BatchLimits(records=2, wait_s=LONG_S), App()) as (batches, stream):
        stream.put(map(packed, range(5)))
        await asyncio.sleep(0)
        batches.hold()
        await asyncio.sleep(0)
        batches.release()
        stream.put(map(packed, range(10, 30)))
        assert set(await take_offsets(batches)) <= set(range(10, 30))


async def test_records_of_an_earlier_generation_are_left_out() -> None:
    app = App()
    async with pumping(BatchLimits(records=2, wait_s=LONG_S), app) as (batches, stream):
        stream.put([packed(0), packed(1, generation_id=2), packed(2), packed(3)])
        app.consumer_generation_id = 2
        assert await take_offsets(batches) == [1]


@pytest.mark.parametrize("later", range(4))
async def test_a_reader_cancelled_when_a_batch_is_complete_is_cancelled(later: int) -> None:
    """Otherwise a stopping worker would begin another batch."""
    async with pumping(BatchLimits(records=2, wait_s=LONG_S), App()) as (batches, stream):
        taking = asyncio.create_task(batches.take())
        stream.put([packed(0)])
        await asyncio.sleep(0.01)
        stream.put([packed(1)])
        for _ in range(later):  # turns of the event loop
            await asyncio.sleep(0)
        if taking.cancel():
            with pytest.raises(asyncio.CancelledError):
                await taking
