"""All records in Kafka after a run, as plain values for the judge."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.storage.tables import CLUSTER_TABLES, WINDOWS
from schemas.topics.catalog import CLUSTER_INPUTS, TOPICS
from streams.aggregate.intake import INPUT as USAGE
from streams.stage import checkpoint, journal
from streams.stage.records import InputRecord

#: Outputs of the cluster stage, in the order of its journal.
SAID = tuple(
    topic.name
    for topic in TOPICS
    if topic.writer == "cluster"
    and topic.stage == "none"
    and topic.name not in (journal.TOPIC, checkpoint.TOPIC)
)
#: Topics that the cluster stage publishes to.
OUTPUTS = (*SAID, "dead-letters")
_PATIENCE_S = 60.0

Partition = tuple[str, int]
"""Topic and number."""


@dataclass
class Changed:
    """Changes to topics while the workers ran."""

    again_at_ms: dict[str, int] = field(default_factory=dict)
    """When outputs were created again: what they held before is gone."""
    foreign: list[tuple[int, bytes]] = field(default_factory=list)
    """Partition and value of records that were put into the journal."""
    ticks: int = 0
    """How many ticks of next year were written."""


@dataclass
class History:
    """The records of all topics of the stages, in the order of their logs."""

    partitions: int
    topics: dict[Partition, list[InputRecord]] = field(default_factory=dict)
    changed: Changed = field(default_factory=Changed)

    def of(self, topic: str, partition: int) -> list[InputRecord]:
        """Return the records of one partition."""
        return self.topics.get((topic, partition), [])


def changelog(table: str) -> str:
    return f"{APP_ID}-{table}-changelog"


async def read(kafka: KafkaSettings, changed: Changed) -> History:
    """Read all topics up to their present ends."""
    tables = [changelog(table) for table in (*CLUSTER_TABLES, WINDOWS)]
    names = [USAGE, *CLUSTER_INPUTS, journal.TOPIC, *OUTPUTS, *tables]
    return History(kafka.partitions, await _read(kafka, names), changed)


async def _read(kafka: KafkaSettings, names: Sequence[str]) -> dict[Partition, list[InputRecord]]:
    places = [TopicPartition(name, index) for name in names for index in range(kafka.partitions)]
    consumer = AIOKafkaConsumer(enable_auto_commit=False, **kafka.aiokafka_options())
    await consumer.start()
    try:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        return await asyncio.wait_for(_read_to(consumer, ends), _PATIENCE_S)
    finally:
        await consumer.stop()


async def _read_to(
    consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]
) -> dict[Partition, list[InputRecord]]:
    records_of: dict[Partition, list[InputRecord]] = {}
    while await _behind(consumer, ends):
        for partition, records in (await consumer.getmany(timeout_ms=200)).items():
            records_of.setdefault((partition.topic, partition.partition), []).extend(
                InputRecord(
                    item.topic, item.partition, item.offset, item.key, item.value, item.timestamp
                )
                for item in records
            )
    return records_of


async def _behind(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    return any([await consumer.position(partition) < end for partition, end in ends.items()])


def rows_of(records: Iterable[InputRecord]) -> dict[str, bytes]:
    """Return the last rows of a changelog."""
    rows: dict[str, bytes] = {}
    for record in records:
        key = (record.key or b"").decode()
        if record.value is None:
            rows.pop(key, None)
        else:
            rows[key] = record.value
    return rows
