"""Examples of every message, one JSON file per topic. The published documents show them."""

from collections.abc import Mapping
from pathlib import Path

import orjson

from schemas.base.message import Message
from schemas.topics.catalog import TOPICS
from schemas.topics.codec import get_topic_adapter

DIRECTORY = Path(__file__).parent


def _read_examples(topic: str) -> tuple[Message, ...]:
    examples = orjson.loads((DIRECTORY / f"{topic}.json").read_bytes())
    return tuple(
        get_topic_adapter(topic).validate_json(orjson.dumps(example)) for example in examples
    )


#: Topic to its examples: at least one of every message that it carries.
EXAMPLES: Mapping[str, tuple[Message, ...]] = {
    topic.name: _read_examples(topic.name) for topic in TOPICS
}
