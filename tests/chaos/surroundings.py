"""Faults of topics and clock under running workers: the fault, its notice, and the operator's remedy.

The notice must come within `SEEN_WITHIN_S`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Producer

from connectors.kafka.admin import create_topics
from connectors.kafka.client import Connection, connect
from connectors.kafka.topics import expected_topics
from schemas.messages.clock import ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import encode
from streams.stage import journal
from tests.chaos.history import Changed
from tests.chaos.member import Member
from tests.chaos.plan import Change
from tests.conftest import delete_topic
from tests.streams.noticing import SEEN_WITHIN_S, metric, problems

#: Topic of each fault.
_TOPICS: dict[Change, str] = {"output gone": "status", "dead letters gone": "dead-letters"}
_YEAR_MS = 365 * 86_400_000
_FOREIGN = (b"not ours", b'{"partition":7}', b'{"schema_version":2}\n')
#: Longest wait until all workers are ready after the remedy, in seconds.
_WELL_WITHIN_S = 60.0


class Surroundings:
    """The topics and the clock of a run."""

    def __init__(self, kafka: KafkaSettings, members: Sequence[Member]) -> None:
        self._kafka, self._members = kafka, members
        self._connection: Connection = connect(kafka)
        self.changed = Changed()
        """What the verdict must know of."""

    async def change(self, change: Change) -> float:
        """Cause the fault, wait for its notice, apply the remedy; return the seconds until the notice."""
        match change:
            case "output gone" | "dead letters gone":
                return await self._lose(_TOPICS[change])
            case "foreign records":
                return await self._write_foreign()
            case "clock ahead":
                return await self._run_ahead()

    # --- topics -----------------------------------------------------------------------------------

    async def _lose(self, topic: str) -> float:
        await asyncio.to_thread(delete_topic, self._connection, topic)
        began_s = time.monotonic()
        await self._until(
            lambda: all(member.worker.ended for member in self._members),
            f"all workers to stop without {topic}",
            SEEN_WITHIN_S,
        )
        seen_s = time.monotonic() - began_s
        for member in self._members:
            assert f"topic {topic} was deleted" in member.worker.log()
            assert await asyncio.to_thread(member.worker.wait) == 1
        await self._create()
        self.changed.again_at_ms[topic] = time.time_ns() // 1_000_000
        for member in self._members:
            member.start()
        await self._well()
        return seen_s

    async def _create(self) -> None:
        # A broker may still be deleting the topic.
        await asyncio.to_thread(create_topics, self._connection, expected_topics(self._kafka))

    # --- journal and clock ------------------------------------------------------------------------

    async def _write_foreign(self) -> float:
        places = [(number, value) for number in range(self._kafka.partitions) for value in _FOREIGN]
        self.changed.foreign += [(number, value) for number, value in places]
        await asyncio.to_thread(self._produce, journal.TOPIC, places)
        return await self._logged("was skipped", len(places))

    async def _run_ahead(self) -> float:
        ahead_ms = time.time_ns() // 1_000_000 + _YEAR_MS
        places = [
            (number, encode(ClockTick(partition=number, now_ms=ahead_ms)))
            for number in range(self._kafka.partitions)
        ]
        await asyncio.to_thread(self._produce, "clock", places)
        line = 'loadstream_dead_letters_total{category="future",stage="cluster",topic="clock"}'
        began_s = time.monotonic()
        self.changed.ticks += len(places)
        await self._until(
            lambda: sum(metric(member.port, line) for member in self._members) >= len(places),
            "metrics to count the ticks as refused",
            SEEN_WITHIN_S,
        )
        return time.monotonic() - began_s

    def _produce(self, topic: str, places: Sequence[tuple[int, bytes]]) -> None:
        producer = Producer({**self._kafka.librdkafka_options(), "log_level": 0})
        for partition, value in places:
            producer.produce(topic, value, key=b"by mistake", partition=partition)
        assert producer.flush(30) == 0

    # --- workers ----------------------------------------------------------------------------------

    async def _logged(self, words: str, times: int) -> float:
        began_s = time.monotonic()
        await self._until(
            lambda: sum(one.worker.whole_log().count(words) for one in self._members) >= times,
            f"logs to say {words!r} {times} times",
            SEEN_WITHIN_S,
        )
        return time.monotonic() - began_s

    async def _well(self) -> None:
        await self._until(
            lambda: not any(problems(member.port, "/readyz") for member in self._members),
            "all workers to be ready",
            _WELL_WITHIN_S,
        )

    async def _until(self, holds: Callable[[], Any], condition: str, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        while not await asyncio.to_thread(holds):
            if time.monotonic() > deadline_s:
                logs = "\n".join(member.worker.log() for member in self._members)
                raise TimeoutError(f"waited {within_s:.0f} s for {condition}; the workers:\n{logs}")
            await asyncio.sleep(0.2)
