"""Key, partition and time of a record follow from its message."""

from typing import Any

import pytest

from schemas.messages.collect import CollectPolicyRecord
from schemas.topics.catalog import TOPIC_BY_NAME, TOPICS
from schemas.topics.records import place_record
from tests.connectors.kafka.messages import EXAMPLES

KEYS = {
    "node-usage": b"blue/n1",
    "clock": b"3",
    "journal": b"2",
    "checkpoints": b"2",
    "dead-letters": b"clock",
}


@pytest.mark.parametrize(("topic", "message", "time_ms", "text"), EXAMPLES)
def test_a_record_belongs_where_its_message_says(
    topic: str, message: Any, time_ms: int | None, text: str
) -> None:
    found = place_record(TOPIC_BY_NAME[topic], message)
    policy = isinstance(message, CollectPolicyRecord)
    assert found.key == (b"blue/collect-policy-0" if policy else KEYS.get(topic, b"blue"))
    assert found.timestamp_ms == time_ms
    by_partition = TOPIC_BY_NAME[topic].key == "partition"
    assert found.partition == (message.partition if by_partition else None)


def test_there_is_an_example_of_every_topic() -> None:
    assert {topic for topic, _, _, _ in EXAMPLES} == {topic.name for topic in TOPICS}


def test_a_message_with_a_time_of_its_own_gives_it_to_its_record() -> None:
    timeless = {
        topic
        for topic, message, time_ms, _ in EXAMPLES
        if time_ms is None and any(name.endswith("_at_ms") for name in message.model_fields_set)
    }
    assert timeless == set()
