"""Records in the order of their offsets: repeated ones are dropped, gaps are read from the broker."""

import asyncio
import random
from collections.abc import Iterable

import pytest
from aiokafka import AIOKafkaProducer

from schemas.connection import KafkaSettings
from streams.stage.records import InputRecord
from streams.worker import reader
from streams.worker.sequence import Sequence
from tests.conftest import RunningBroker

_TOPIC = "node-state"
_RECORDS = 300


def _record(offset: int) -> InputRecord:
    return InputRecord(_TOPIC, 0, offset, None, b"%d" % offset, 0)


class Applied:
    """What was put through, and how many records were read for it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self.offsets: list[int] = []
        self.healed = 0
        self.longest = 0
        self.sequence = Sequence(
            kafka, [_TOPIC], position=self._position, put=self._put, healed=self._healed
        )

    async def give(self, offsets: Iterable[int]) -> None:
        """Records with these offsets come, in this order."""
        fresh = await self.sequence.fresh(0, [_record(offset) for offset in offsets])
        self.offsets += [record.offset for record in fresh]

    def _position(self, topic: str, partition: int) -> int:
        return self.offsets[-1] if self.offsets else -1

    async def _put(self, partition: int, records: list[InputRecord]) -> None:
        assert [record.value for record in records] == [b"%d" % each.offset for each in records]
        self.longest = max(self.longest, len(records))
        self.offsets += [record.offset for record in records]

    def _healed(self, topic: str, count: int) -> None:
        self.healed += count


async def _write(kafka: KafkaSettings) -> None:
    async with AIOKafkaProducer(linger_ms=5, **kafka.aiokafka_options()) as producer:
        sent = [await producer.send(_TOPIC, b"%d" % at, partition=0) for at in range(_RECORDS)]
        await asyncio.gather(*sent)


async def test_records_that_were_applied_before_are_dropped(embedded: RunningBroker) -> None:
    applied = Applied(embedded.settings)
    await applied.give(range(5))
    await applied.give([3, 4, 5, 4, 6])
    assert (applied.offsets, applied.healed) == (list(range(7)), 0)


async def test_what_was_passed_over_is_put_through_first_piece_by_piece(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "PIECE_RECORDS_MAX", 50)
    await _write(embedded.settings)
    applied = Applied(embedded.settings)
    await applied.give([0, 1, 200, 201])
    assert (applied.offsets, applied.healed, applied.longest) == (list(range(202)), 198, 50)


async def test_whatever_is_passed_over_and_repeated_every_record_is_applied_once(
    embedded: RunningBroker,
) -> None:
    await _write(embedded.settings)
    for seed in range(5):
        drawn = random.Random(seed)
        applied = Applied(embedded.settings)
        last = 0
        for _ in range(6):
            first = max(0, last + drawn.randint(-20, 20))
            given = sorted(drawn.sample(range(first, first + 40), 15))
            last = max(last, given[-1])
            await applied.give(given)
        assert applied.offsets == list(range(last + 1))
