"""Reads records that Faust has not delivered.

Faust sometimes drops fetched records during a rebalance or recovery. If another record of the partition
follows, `intake` notices the gap and reads the missing records. Otherwise they would remain missing, for
example in a quiet cluster. So every few seconds `UndeliveredWatch` compares the ends of the partitions with
the applied offsets. If a partition made no progress between two checks, the missing records are read. If a
partition ends before its applied offset, the worker stops.
"""

import asyncio
import logging
import time

from connectors.kafka.extents import Brokers
from schemas.settings.connection import KafkaSettings
from streams.worker.consume.intake import Intake
from streams.worker.store.topic_watch import check_ends

logger = logging.getLogger(__name__)

#: Time between two checks, in seconds.
CHECK_INTERVAL_S = 5.0
#: Number of successive checks without progress before records are read.
CHECKS_WITHOUT_PROGRESS = 2
#: Longest time of one read, in seconds.
READ_MAX_S = 60.0

#: Topic and partition.
Source = tuple[str, int]


class UndeliveredWatch:
    def __init__(self, kafka: KafkaSettings, intake: Intake) -> None:
        self.brokers = Brokers(kafka)
        self._intake = intake
        self._partitions = intake.partitions
        self._stalled: dict[Source, tuple[int, int]] = {}
        """Next offset, and number of checks without progress, of each partition with unapplied records."""

    async def run(self) -> None:
        """Check every `CHECK_INTERVAL_S` until cancelled."""
        try:
            while True:
                await asyncio.sleep(CHECK_INTERVAL_S)
                if self._partitions.recovered:
                    await self.check_once()
        finally:
            await self.brokers.leave()

    async def check_once(self) -> None:
        """Check once, and read records that were not delivered in time.

        Raises:
            TopicChanged: a partition ends before its applied offset.
        """
        partitions = self._partitions
        generation = partitions.generation
        inputs = {(topic, number) for topic in partitions.topics for number in partitions.stages}
        positions = {source: partitions.position(*source) for source in inputs}
        spans = await self.brokers.spans(inputs)
        if spans is None:
            return
        check_ends(positions, {source: end for source, (_, end) in spans.items()})
        if not partitions.is_current(generation):
            return
        next_offsets = {source: partitions.next_offset(*source) for source in sorted(inputs)}
        self._stalled = {
            source: self._count_checks(source, offset)
            for source, offset in next_offsets.items()
            if offset < spans[source][1]
        }
        for source, (_, checks) in self._stalled.items():
            if checks >= CHECKS_WITHOUT_PROGRESS:
                await self._read(generation, source, spans[source][1])

    def _count_checks(self, source: Source, next_offset: int) -> tuple[int, int]:
        before, checks = self._stalled.get(source, (-1, 0))
        return next_offset, checks + 1 if before == next_offset else 1

    async def _read(self, generation: int, source: Source, end: int) -> None:
        topic, partition = source
        if not self._partitions.is_current(generation):
            return
        position = self._partitions.position(topic, partition)
        until_s = time.monotonic() + READ_MAX_S
        if not await self._intake.apply_up_to(
            topic, partition, end, until_s, generation, undelivered=True
        ):
            return
        # Without progress, the last offsets have no records, such as transaction markers.
        if self._partitions.position(topic, partition) > position:
            logger.warning(
                "%s, partition %d: read the offsets %d to %d, which were not delivered",
                topic,
                partition,
                position + 1,
                end - 1,
            )
