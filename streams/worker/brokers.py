"""Asks the brokers where partitions begin and end, outside of any consumer group.

A connection of its own: neither an answer nor its absence holds up the work.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: How long an answer of the brokers is waited for, in seconds.
ANSWER_S = 5.0


class Brokers:
    """Connects with the first question, and anew after a silence."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._consumer: Any = None
        self._silent = False

    async def spans(
        self, places: set[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, int]] | None:
        """First offset and end of each partition; none: no broker has answered in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                spans = await self._spans(sorted(places))
        except Exception as error:
            if not self._silent:
                why = str(error) or type(error).__name__
                logger.warning("the brokers do not answer: %s", why)
            self._silent = True
            await self.leave()
            return None
        if self._silent:
            logger.warning("the brokers answer again")
        self._silent = False
        return spans

    async def leave(self) -> None:
        """Disconnect; the next question connects anew."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()

    async def _spans(
        self, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], tuple[int, int]]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        if self._consumer is None:
            self._consumer = AIOKafkaConsumer(
                enable_auto_commit=False, **self._settings.aiokafka_options()
            )
            await self._consumer.start()
        if not places:
            await self._consumer.topics()  # a worker without partitions still needs its brokers
            return {}
        partitions = [TopicPartition(topic, number) for topic, number in places]
        first = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        return {(tp.topic, tp.partition): (first[tp], ends[tp]) for tp in partitions}
