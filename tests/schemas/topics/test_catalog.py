"""Key, partition and time of a record are derived from its message."""

from typing import Any

import pytest

from schemas.examples import EXAMPLES
from schemas.topics.catalog import TOPIC_BY_NAME, TOPICS, key_of, place_record

#: Fields with the time to which a message refers.
_TIMES = (
    "sampled_at_ms", "requested_at_ms", "applied_at_ms", "updated_at_ms", "decided_at_ms",
    "happened_at_ms", "ended_at_ms", "now_ms",
)  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "message"),
    [(topic, message) for topic, examples in EXAMPLES.items() for message in examples],
)
def test_key_and_time_of_a_record_are_derived_from_its_message(topic: str, message: Any) -> None:
    record = place_record(TOPIC_BY_NAME[topic], message)
    assert record.key == key_of(topic, message).encode()
    times = [getattr(message, name) for name in _TIMES if name in message.model_fields_set]
    # A piece of a checkpoint has the log's time of the checkpoint, and is kept longer.
    assert record.timestamp_ms == (times[0] if times and topic != "checkpoints" else None)
    by_partition = TOPIC_BY_NAME[topic].key == "partition"
    assert record.partition == (message.partition if by_partition else None)


def test_there_is_an_example_of_every_topic() -> None:
    assert set(EXAMPLES) == {topic.name for topic in TOPICS}
