"""Looks at the stages of a worker every few seconds, from within its event loop.

The results are the `Look` that `/metrics` shows, and the signs of life that `/healthz` and
`/readyz` use. The brokers are asked for the ends of topics over a separate connection: so a broker
that is away shows, and neither the answer nor its absence holds up the work. Nothing here can stop
a worker.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Protocol

from schemas.connection import KafkaSettings
from streams.stage.records import Stage
from streams.worker.brokers import Brokers
from streams.worker.gauges import Gauges, Look
from streams.worker.health import Health, Watched

logger = logging.getLogger(__name__)

#: Time between two signs of life, and between two looks, in seconds. After partitions were taken
#: over the next look comes with the next sign of life.
BEAT_S = 1.0
LOOK_S = 5.0


class Observed(Watched, Protocol):
    """A stage's runner as the observer sees it."""

    @property
    def topics(self) -> frozenset[str]:
        """Input topics."""
        ...

    @property
    def stages(self) -> Mapping[int, Stage]:
        """The state of each partition."""
        ...

    @property
    def written_bytes(self) -> Mapping[str, int]:
        """What was given to the brokers since the start, by topic."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """Offset applied last of a topic; -1: none."""
        ...


class Observer:
    """Watches runners; `run` it for as long as the worker lives."""

    def __init__(self, settings: KafkaSettings, gauges: Gauges, health: Health) -> None:
        self._brokers = Brokers(settings)
        self._gauges = gauges
        self._health = health
        self._runners: list[Observed] = []

    def watch(self, runner: Observed) -> None:
        """Look at this runner too."""
        self._runners.append(runner)
        self._health.watch(runner)

    async def run(self) -> None:
        """Look on until cancelled."""
        looking = asyncio.create_task(self._look_on())
        try:
            while True:
                self._health.beat()
                await asyncio.sleep(BEAT_S)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await self.stop()

    async def stop(self) -> None:
        """Disconnect."""
        await self._brokers.leave()

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                # A defect of the view must not end the work.
                logger.exception("looking at the stages failed")
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(BEAT_S)
            while time.monotonic() < due_s and not self._health.uncounted():
                await asyncio.sleep(BEAT_S)

    async def look(self) -> None:
        """Look once."""
        places = [
            (runner.name, topic, partition)
            for runner in self._runners
            for partition in runner.stages
            for topic in sorted(runner.topics)
        ]
        spans = await self._brokers.spans({(topic, partition) for _, topic, partition in places})
        lags = {}
        if spans is not None:
            runners = {runner.name: runner for runner in self._runners}
            for name, topic, partition in places:
                # Partitions can be lost while the brokers are asked.
                runner = runners[name]
                if partition in runner.stages and (topic, partition) in spans:
                    first, end = spans[topic, partition]
                    following = runner.position(topic, partition) + 1
                    lags[name, topic, partition] = max(0, end - max(first, following))
            counted = {(name, partition) for name, _, partition in places}
            self._health.heard(sum(lags.values()), counted)
        self._gauges.show(
            Look(
                at_ms=time.time_ns() // 1_000_000,
                lags=lags,
                figures={
                    (runner.name, partition): stage.figures()
                    for runner in self._runners
                    for partition, stage in runner.stages.items()
                },
                written_bytes={
                    (runner.name, topic): count
                    for runner in self._runners
                    for topic, count in runner.written_bytes.items()
                },
                broker_up=spans is not None,
            )
        )
