"""Records the inputs and outputs of the aggregate stage."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from schemas.messages.usage import NodeUsage
from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.storage.percentiles import Progress
from schemas.topics.codec import encode
from streams.aggregate.collect_policies import PoolRules
from streams.stage.records import InputRecord, OutputRecord
from tests.streams.worker_process import PATIENCE_S, Worker
from tests.streams.world import aggregate_stage

CHANGELOG = f"{APP_ID}-node_percentiles-changelog"
TOPICS = ("node-usage", "node-metrics", "dead-letters", CHANGELOG)


class AggregateWorker(Worker):
    """A worker that runs the aggregate stage alone."""

    def __init__(self, kafka: KafkaSettings, directory: Path, **settings: str) -> None:
        directory.mkdir(exist_ok=True)
        super().__init__(kafka, directory, stages="aggregate", **settings)


class Observer:
    """Produces samples and keeps every record of the topics of the stage."""

    def __init__(self, producer: Any, consumer: Any) -> None:
        self._producer, self._consumer = producer, consumer
        self.records: dict[str, list[Any]] = defaultdict(list)
        """Records by topic, as aiokafka has them."""
        self.sent = 0
        """How many samples were sent."""

    async def send(self, samples: Iterable[NodeUsage]) -> None:
        """Send samples under their nodes' keys and wait until the broker has them."""
        sent = [
            await self._producer.send(
                "node-usage", key=f"{sample.cluster}/{sample.node}".encode(), value=encode(sample)
            )
            for sample in samples
        ]
        await asyncio.gather(*sent)
        self.sent += len(sent)

    async def write_row(self, partition: int, key: str, value: bytes | None) -> None:
        """Write to the table's changelog, as the stage does."""
        await self._producer.send_and_wait(
            CHANGELOG, key=key.encode(), value=value, partition=partition
        )

    async def until(self, enough: Callable[[], bool], *workers: Worker) -> None:
        """Collect until there is enough; fails with a worker's log when it takes too long or dies."""
        deadline = time.monotonic() + PATIENCE_S
        while not enough():
            for worker in workers:
                worker.check()
            logs = "\n".join(worker.log() for worker in workers)
            assert time.monotonic() < deadline, f"still waiting; the workers:\n{logs}"
            await self.look()

    async def look(self, timeout_ms: int = 200) -> None:
        """Collect the new records."""
        for records in (await self._consumer.getmany(timeout_ms=timeout_ms)).values():
            for record in records:
                self.records[record.topic].append(record)

    def applied(self) -> int:
        """How many input records the rows in the changelog stand for."""
        ends: Counter[int] = Counter()
        for record in self.records[CHANGELOG]:
            if record.value is not None and b"/progress/" in record.key:
                progress = Progress.model_validate_json(record.value)
                ends[record.partition] = max(ends[record.partition], progress.position + 1)
        return ends.total()

    def expected(self, partitions: int) -> list[OutputRecord]:
        """The outputs of the pure stage for the same input, partition by partition."""
        outputs: list[OutputRecord] = []
        for partition in range(partitions):
            subject = aggregate_stage(
                None, partition=partition, partitions=partitions, collecting=PoolRules()
            )
            records = [
                InputRecord(
                    item.topic, item.partition, item.offset, item.key, item.value, item.timestamp
                )
                for item in self.records["node-usage"]
                if item.partition == partition
            ]
            records.sort(key=lambda record: record.offset)
            result = subject.apply(records)
            outputs += [*result.outputs, *result.dead_letters]
        return outputs

    def published(self) -> Counter[tuple[str, str, bytes]]:
        """Outputs as they arrived: topic, key and value, and how often."""
        return Counter(
            (topic, record.key.decode(), record.value)
            for topic in ("node-metrics", "dead-letters")
            for record in self.records[topic]
        )


@asynccontextmanager
async def observer(kafka: KafkaSettings) -> AsyncIterator[Observer]:
    """An observer that reads everything from the beginning."""
    options = kafka.aiokafka_options()
    producer = AIOKafkaProducer(**options)
    consumer = AIOKafkaConsumer(*TOPICS, auto_offset_reset="earliest", **options)
    await producer.start()
    try:
        await consumer.start()
        try:
            yield Observer(producer, consumer)
        finally:
            await consumer.stop()
    finally:
        await producer.stop()
