"""The AsyncAPI 3.0 document: all topics with their writers, readers, keys and retention.

It is self-contained, so that tools can generate clients and pages from it. It includes the message
schemas in AsyncAPI's dialect, which is JSON Schema draft-07 with a simpler discriminator.
"""

from collections.abc import Iterator
from inspect import cleandoc
from sys import modules
from typing import Any

from pydantic import TypeAdapter

from schemas.base import contract
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.message import NAME_PATTERN
from schemas.examples import EXAMPLES
from schemas.topics.catalog import PARTITIONS_DEFAULT, TOPIC_BY_NAME, TOPICS, KeyKind, Topic, key_of
from schemas.topics.partitions import KEY_BYTES_MAX

#: Version of the contract; its first number is the version of the messages.
CONTRACT_VERSION = "1.0.0"

_BINDING_VERSION = "0.5.0"
_NAME = NAME_PATTERN.strip("^$")

_DESCRIPTION = f"""
loadstream keeps the real load of Kubernetes clusters even. All its inputs and outputs are records of
these Kafka topics.

**Values** are JSON objects in UTF-8, of at most {VALUE_BYTES_MAX} bytes. In `journal` and `checkpoints`
further bytes follow the object. Numbers are integers of at most 64 bits, written without fraction and
exponent. Unknown fields are ignored. An absent optional field and null mean the same. An unknown
`schema_version` is refused. Times are milliseconds since 1970-01-01 UTC. A missing value is unknown, not
zero.

**Keys** are text in UTF-8, of at most {KEY_BYTES_MAX} bytes. A record whose key does not match its content
is refused.

**Partitions** follow from keys by the default partitioner of Kafka's Java producer: murmur2 of the key,
sign bit cleared, modulo the number of partitions. With librdkafka set `partitioner=murmur2_random`. A
record in another partition is refused, because each cluster has one writer. Records of `clock`, `journal`
and `checkpoints` are written to the partition that their key names.

**The number of partitions** is {PARTITIONS_DEFAULT} by default. All topics that the cluster stage reads
or writes have the same number, and it cannot be changed while there is state.

**Records that cannot be read or are refused** go to `dead-letters` as a whole, with the reason.
"""


def document() -> dict[str, Any]:
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "loadstream",
            "version": CONTRACT_VERSION,
            "description": _DESCRIPTION.strip(),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in TOPICS},
        "operations": {name: value for topic in TOPICS for name, value in _operations(topic)},
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def key_schema(key: KeyKind, examples: list[str]) -> dict[str, Any]:
    """Return the JSON Schema of a topic's key."""
    description, pattern = {
        "cluster": ("Name of the cluster.", f"^{_NAME}$"),
        "cluster/node": ("Name of the cluster, a slash, name of the node.", f"^{_NAME}/{_NAME}$"),
        "partition": ("Number of the partition that the record is written to.", "^[0-9]+$"),
        "source topic": ("Name of the topic that the record came from.", "^[A-Za-z0-9._-]+$"),
    }[key]
    return {"type": "string", "description": description, "pattern": pattern, "examples": examples}


def partitioner(topic: Topic) -> str:
    return "by number" if topic.key == "partition" else "murmur2"


def topic_settings(topic: Topic) -> dict[str, Any]:
    if topic.compacted:
        return {"cleanup.policy": ["compact"], "min.compaction.lag.ms": topic.compaction_lag_ms}
    return {"cleanup.policy": ["delete"], "retention.ms": topic.retention_ms}


def _channel(topic: Topic) -> dict[str, Any]:
    description = cleandoc(modules[topic.classes[0].__module__].__doc__ or "")
    return {
        "address": topic.name,
        "summary": topic.summary,
        "description": description.removeprefix(f"`{topic.name}`: "),
        "messages": {
            cls.__name__: _ref("components/messages", cls.__name__) for cls in topic.classes
        },
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": PARTITIONS_DEFAULT,
                "topicConfiguration": topic_settings(topic),
                "x-key": topic.key,
                "x-partitioner": partitioner(topic),
                "bindingVersion": _BINDING_VERSION,
            }
        },
    }


def _operations(topic: Topic) -> Iterator[tuple[str, dict[str, Any]]]:
    ends: list[tuple[str, str, tuple[type, ...]]] = []
    if topic.stage != "none":
        ends.append(("receive", f"The {topic.stage} stage reads {topic.name}.", topic.classes))
    if topic.writer == "every stage":
        ends.append(("send", f"Every stage writes {topic.name}.", topic.classes))
    elif topic.writer != "outside":
        ends.append(("send", f"The {topic.writer} stage writes {topic.name}.", topic.classes))
    elif topic.inserted is not None:
        summary = f"The cluster stage writes {topic.inserted.__name__} into {topic.name}."
        ends.append(("send", summary, (topic.inserted,)))
    for action, summary, classes in ends:
        yield (
            f"{action}-{topic.name}",
            {
                "action": action,
                "channel": _ref("channels", topic.name),
                "summary": summary,
                "messages": [
                    _ref(f"channels/{topic.name}/messages", cls.__name__) for cls in classes
                ],
            },
        )


def _messages() -> dict[str, Any]:
    """Describe every message once; the messages of full lists belong to two topics."""
    messages: dict[str, Any] = {}
    for topic in TOPICS:
        for cls in topic.classes:
            examples = [e for e in EXAMPLES[topic.name] if isinstance(e, cls)]
            keys = sorted({key_of(topic.name, example) for example in examples})
            messages[cls.__name__] = {
                "name": cls.__name__,
                "title": cls.__name__,
                "description": cleandoc(cls.__doc__ or ""),
                **({"contentType": "application/octet-stream"} if topic.framed else {}),
                "payload": _ref("components/schemas", cls.__name__),
                "bindings": {
                    "kafka": {
                        "key": key_schema(topic.key, keys),
                        "bindingVersion": _BINDING_VERSION,
                    }
                },
                "examples": [{"payload": example.payload()} for example in examples],
            }
    return messages


def _schemas() -> dict[str, Any]:
    classes = dict.fromkeys(cls for topic in TOPIC_BY_NAME.values() for cls in topic.classes)
    _, schemas = TypeAdapter.json_schemas(
        [(cls, "validation", contract.get_adapter(cls)) for cls in classes],
        ref_template="#/components/schemas/{model}",
        schema_generator=contract.SchemaGenerator,
    )
    return dict(schemas["$defs"])


def _ref(section: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/{section}/{name}"}
