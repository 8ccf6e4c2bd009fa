"""A broker with the records for a query."""

from collections.abc import Iterable

from confluent_kafka import Producer

from schemas.base.message import Message
from schemas.messages.clock import ClockTick
from schemas.topics.catalog import TOPIC_BY_NAME, place_record
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker


class Recorded:
    """A broker whose topics a test fills."""

    def __init__(self, broker: RunningBroker) -> None:
        self.settings = broker.settings
        self._producer = Producer(
            {
                **broker.settings.librdkafka_options(),
                "log_level": 0,
                "partitioner": "murmur2_random",
            }
        )

    def write(self, topic: str, messages: Iterable[Message]) -> None:
        for message in messages:
            target = place_record(TOPIC_BY_NAME[topic], message)
            where = {} if target.partition is None else {"partition": target.partition}
            self._producer.produce(topic, encode(message), key=target.key, **where)
        assert self._producer.flush(60) == 0

    def tick(self, now_ms: int, cluster: str) -> None:
        partition = partition_for(cluster.encode(), self.settings.partitions)
        self.write("clock", [ClockTick(partition=partition, now_ms=now_ms)])
