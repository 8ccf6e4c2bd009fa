"""The published documents agree with the code and are valid for other implementations."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator, ValidationError, validators

from schemas.base.refusals import Refusal
from schemas.examples import EXAMPLES
from schemas.messages.policies import PolicyRecord
from schemas.policy import read_policy
from schemas.publish.export import ASYNCAPI_FILE, PUBLISHED, differences, documents, write
from schemas.topics.catalog import TOPIC_BY_NAME, TOPICS, Topic, key_of
from schemas.topics.codec import decode
from tests.strategies import json_values, mutate, payloads

# What every process of a run does when it collects tests; that these are the code's documents, the first
# test shows.
NAMES = sorted(path.name for path in PUBLISHED.glob("*.json"))
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C implementation, if PyYAML has it
ASYNCAPI: dict[str, Any] = yaml.load((PUBLISHED / ASYNCAPI_FILE).read_text(), _LOADER)  # noqa: S506 - safe


def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((PUBLISHED / name).read_text())
    return schema


def _pattern(_: Any, pattern: str, text: Any, __: Any) -> Iterator[ValidationError]:
    # In Python's expressions alone, "$" also matches before a line break at the end.
    if isinstance(text, str) and not re.search(pattern.replace("$", r"\Z"), text):
        yield ValidationError(f"{text!r} does not match {pattern}")


Validator = validators.extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]


def test_published_documents_are_up_to_date() -> None:
    assert differences() == [], "run `loadstream schema export` and check the result in"


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_json_schema(name: str) -> None:
    schema = published(name)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(schema)


def fields_in(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field of a schema with its path."""
    if isinstance(schema, dict):
        for name, field in schema.get("properties", {}).items():
            yield f"{path}.{name}", field
        for step, inner in schema.items():
            if step not in {"examples", "default"}:
                yield from fields_in(inner, f"{path}.{step}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from fields_in(inner, path)


def alternatives(field: dict[str, Any]) -> list[dict[str, Any]]:
    variants: list[dict[str, Any]] = field.get("anyOf", [field])
    return variants


@pytest.mark.parametrize("name", NAMES)
def test_every_field_has_a_description_and_every_number_bounds_and_unit(name: str) -> None:
    fields = list(fields_in(published(name)))
    assert len(fields) > 2
    for path, field in fields:
        parts = [field, *alternatives(field)]
        assert any(part.get("description") for part in parts), f"{path} has no description"
        for part in alternatives(field):
            if part.get("type") == "integer" and "const" not in part:
                assert {"minimum", "maximum"} <= part.keys(), f"{path} has no bounds"
        for suffix, unit in (("_ms", "ms"), ("_bytes", "bytes"), ("_s", "s")):
            if path.endswith(suffix):
                units = [part.get("items", part).get("unit", "") for part in parts]
                assert any(u.split(" ")[0] == unit for u in units), f"{path} has no unit"


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_there_are_examples_of_every_message_and_they_are_valid(topic: Topic) -> None:
    schema = published(f"{topic.name}.json")
    shown = {type(example) for example in EXAMPLES[topic.name]}
    assert shown == set(topic.classes)
    assert schema["examples"] == [example.payload() for example in EXAMPLES[topic.name]]
    for example in EXAMPLES[topic.name]:
        Validator(schema).validate(example.payload())
        end = b"\n" if topic.framed else b""
        assert decode(topic.name, json.dumps(example.payload()).encode() + end) == example
        Validator(schema["x-kafka"]["key"]).validate(key_of(topic.name, example))
        assert key_of(topic.name, example) in schema["x-kafka"]["key"]["examples"]


def test_the_policy_of_the_example_can_be_read() -> None:
    (record,) = EXAMPLES["policies"]
    assert isinstance(record, PolicyRecord)
    assert read_policy(record.document).mode == "enforce"


def has_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    return any(map(has_float, value)) if isinstance(value, list) else isinstance(value, float)


VALIDATORS = {topic.name: Validator(published(f"{topic.name}.json")) for topic in TOPICS}


@settings(max_examples=300)
@given(st.data())
def test_schema_and_code_accept_the_same_records(data: st.DataObject) -> None:
    topic = data.draw(st.sampled_from(TOPICS))
    valid = payloads(topic.message)
    value = data.draw(st.one_of(valid, valid.flatmap(mutate), json_values()))
    if has_float(value):
        return  # JSON Schema takes 1.0 for an integer, the code does not
    answer = decode(topic.name, json.dumps(value).encode())
    errors = [error.message for error in VALIDATORS[topic.name].iter_errors(value)]
    assert isinstance(answer, Refusal) == bool(errors), (answer, errors)


def refs_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from refs_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refs_in(inner)


def resolve(ref: str) -> Any:
    target: Any = ASYNCAPI
    for step in ref.removeprefix("#/").split("/"):
        target = target[step]
    return target


def test_all_references_of_the_asyncapi_document_can_be_resolved() -> None:
    refs = set(refs_in(ASYNCAPI))
    assert len(refs) > 50
    for ref in refs:
        assert ref.startswith("#/")
        assert isinstance(resolve(ref), dict)


def test_the_asyncapi_document_has_all_topics_with_keys_and_partitioner() -> None:
    assert ASYNCAPI["asyncapi"] == "3.0.0"
    assert list(ASYNCAPI["channels"]) == list(TOPIC_BY_NAME)
    for topic in TOPICS:
        channel = ASYNCAPI["channels"][topic.name]
        assert channel["address"] == topic.name
        assert list(channel["messages"]) == [cls.__name__ for cls in topic.classes]
        kafka = channel["bindings"]["kafka"]
        assert kafka["x-key"] == topic.key
        assert kafka["x-partitioner"] == ("by number" if topic.key == "partition" else "murmur2")
        policy = ["compact"] if topic.compacted else ["delete"]
        assert kafka["topicConfiguration"]["cleanup.policy"] == policy


@pytest.mark.parametrize("name", sorted(ASYNCAPI["components"]["messages"]))
def test_messages_of_the_asyncapi_document_are_draft_07_and_fit_their_examples(name: str) -> None:
    message = ASYNCAPI["components"]["messages"][name]
    Draft7Validator.check_schema(resolve(message["payload"]["$ref"]))
    schema = {"allOf": [message["payload"]], "components": ASYNCAPI["components"]}
    assert message["examples"]
    for example in message["examples"]:
        Draft7Validator(schema).validate(example["payload"])
        with pytest.raises(ValidationError):
            Draft7Validator(schema).validate(example["payload"] | {"schema_version": 3})


def test_writing_changes_only_differing_documents(tmp_path: Path) -> None:
    assert sorted(write(tmp_path)) == sorted(documents())
    assert write(tmp_path) == []
    (tmp_path / "clock.json").write_text("{}")
    (tmp_path / "gone.json").write_text(documents()["clock.json"])
    (tmp_path / "notes.txt").write_text("kept")
    (tmp_path / ASYNCAPI_FILE).unlink()
    assert differences(tmp_path) == [ASYNCAPI_FILE, "clock.json", "gone.json"]
    assert write(tmp_path) == [ASYNCAPI_FILE, "clock.json", "gone.json"]
    assert differences(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*documents(), "notes.txt"])
