"""Reads records that Faust has not delivered.

Faust sometimes drops fetched records during a rebalance or recovery. If another record of the partition
follows, `intake` notices the gap and reads the missing records. Otherwise they would remain missing, for
example in a quiet cluster. So every few seconds `UndeliveredWatch` compares the ends of the partitions with
the applied offsets. If a partition made no progress between two checks, the missing records are read. If a
partition ends before its applied offset, the worker stops.
"""

import asyncio
import time

from connectors.kafka.extents import Brokers
from schemas.settings.connection import KafkaSettings
from streams.worker.consume.intake import Intake
from streams.worker.store.topic_watch import check_ends

#: Time between two checks, in seconds.
CHECK_INTERVAL_S = 5.0
#: Longest time of one read, in seconds.
READ_MAX_S = 60.0

#: Topic and partition.
Source = tuple[str, int]


class UndeliveredWatch:
    def __init__(self, kafka: KafkaSettings, intake: Intake) -> None:
        self.brokers = Brokers(kafka)
        self._intake = intake
        self._partitions = intake.partitions
        self._behind: dict[Source, int] = {}
        """Next offset of each partition with unapplied records at the last check."""

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
        before = self._behind
        self._behind = {
            source: offset for source, offset in next_offsets.items() if offset < spans[source][1]
        }
        for (topic, partition), offset in self._behind.items():
            if before.get((topic, partition)) == offset:
                end = spans[topic, partition][1]
                until_s = time.monotonic() + READ_MAX_S
                await self._intake.apply_up_to(
                    topic, partition, end, until_s, generation, undelivered=True
                )
