"""Workers around the stages: they read, apply, publish and keep rows, and crash.

A crash loses a batch that was applied and not published, or happens after everything was written, so that
the records come again. (A crash between the two is what the journal is for.) What a worker reads next is
random, within the skew that topics may have.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

from schemas.clock import ClockTick
from streams.aggregate.collect import AggregateLimits, Collecting, CollectPolicy
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.packing import put
from streams.stage.records import InputRecord, Stage, StageResult
from tests.simulation.log import PARTITIONS, Log
from tests.simulation.outside import SKEW_MS

#: Topics that may lag as long as they like: metrics say themselves how old they are.
_LAGGING = ("node-metrics",)


class Worker(ABC):
    """One stage of one partition."""

    topics: tuple[str, ...]

    def __init__(self, random: random.Random, log: Log, partition: int) -> None:
        self.random, self.log, self.partition = random, log, partition
        self.faulty = True
        self.rows: dict[tuple[str, str], bytes] = {}
        self.history: list[InputRecord] = []
        """Records in the order in which they were applied for good."""
        self.outputs: list[bytes] = []
        self.dead_letters = 0
        self._down_until_ms = 0
        self._lag_until_ms = 0
        self.stage: Stage = self.build()

    @abstractmethod
    def build(self) -> Stage:
        """The stage as its rows say."""

    def work(self, now_ms: int) -> None:
        """Read and apply what is there, in batches of any size."""
        if now_ms < self._down_until_ms:
            return
        if self.faulty and self.random.random() < 0.02:
            self._lag_until_ms = now_ms + self.random.randint(5, 30) * 1000
        while batch := self._read(now_ms):
            result = self.stage.apply(batch)
            if self.faulty and self.random.random() < 0.02:
                self._crash(now_ms)
                return
            self._write(batch, result, now_ms)
            if self.faulty and self.random.random() < 0.02:
                self._crash(now_ms)
                return

    def _crash(self, now_ms: int) -> None:
        self._down_until_ms = now_ms + self.random.randint(0, 15) * 1000
        self.stage = self.build()

    def _read(self, now_ms: int) -> list[InputRecord]:
        positions = dict(self.stage.positions)
        most = self.random.choice((1, 5, 50))
        batch: list[InputRecord] = []
        while len(batch) < most:
            heads = []
            for topic in self.topics:
                head = self.log.after(topic, self.partition, positions.get(topic, -1))
                lags = topic in _LAGGING and self.faulty and now_ms < self._lag_until_ms
                if head is not None and not lags:
                    heads.append(head)
            if not heads:
                break
            earliest_ms = min(head.timestamp_ms for head in heads)
            near = [
                head
                for head in heads
                if head.topic in _LAGGING or head.timestamp_ms <= earliest_ms + SKEW_MS
            ]
            record = self.random.choice(near)
            positions[record.topic] = record.offset
            batch.append(record)
        if batch and self.faulty and self.history and self.random.random() < 0.1:
            # Kafka may deliver again what was acknowledged too late.
            batch.insert(0, self.random.choice(self.history[-20:]))
        return batch

    def _write(self, batch: Sequence[InputRecord], result: StageResult, now_ms: int) -> None:
        known = set(map(id, self.history[-20:]))
        self.history += [record for record in batch if id(record) not in known]
        for output in (*result.outputs, *result.dead_letters):
            self.log.publish(output, now_ms)
        self.outputs += [output.value for output in result.outputs]
        self.dead_letters += len(result.dead_letters)
        put(self.rows, result.rows)


class ClusterWorker(Worker):
    """The cluster stage; the worker writes the clock of its partition."""

    topics = (
        "node-state",
        "pod-lifecycle",
        "scheduling-requests",
        "policies",
        "node-metrics",
        "command-outcomes",
        "clock",
    )

    stage: ClusterStage

    def build(self) -> ClusterStage:
        rows = [(table, key, value) for (table, key), value in self.rows.items()]
        self.random.shuffle(rows)
        return ClusterStage.restored(self.partition, PARTITIONS, rows)

    def work(self, now_ms: int) -> None:
        if now_ms >= self._down_until_ms:
            self.log.say("clock", ClockTick(partition=self.partition, now_ms=now_ms), now_ms)
        super().work(now_ms)


class AggregateWorker(Worker):
    """The aggregate stage, over windows of a minute or two."""

    topics = ("node-usage",)
    collecting = Collecting(
        CollectPolicy(average_ms=60_000, report_ms=10_000, durations_ms=(40_000, 120_000))
    )

    stage: AggregateStage

    def build(self) -> AggregateStage:
        rows = {key: value for (_, key), value in self.rows.items()}
        state = restore(self.partition, rows, self.collecting)
        return AggregateStage(state, PARTITIONS, AggregateLimits())
