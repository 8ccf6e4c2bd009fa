"""Bytes to messages and back.

`encode` writes JSON with sorted names, so equal messages are equal bytes whatever the order in
which their maps were filled: state that was recovered says the same as state that was never lost.

`decode` never raises on bad input: it answers with a `Refusal` that says in a sentence which field,
what was found and what is allowed; the caller sends the record to `dead-letters`. It reads what
JSON leaves open like this: of a name given twice the last one holds, unknown names are ignored, and
of a list or map only the first bad item is reported. The time it takes is bounded by the size of
the record.
"""

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.base import contract
from schemas.base.complaints import complaints
from schemas.base.limits import PIECE_HEAD_BYTES_MAX, VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.topics.catalog import TOPIC_BY_NAME

M = TypeVar("M", bound=BaseModel)


def encode(message: BaseModel) -> bytes:
    """The message as JSON, absent optionals left out; equal messages give equal bytes."""
    return encode_fields(message.__pydantic_serializer__.to_python(message, exclude_none=True))


def encode_fields(fields: dict[str, Any]) -> bytes:
    """The bytes that `encode` makes of the message with these fields.

    `fields` are JSON values, with defaults and without optionals that are None.
    """
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def decode(topic: str, value: bytes | None) -> Any | Refusal:
    """The message that a record of `topic` carries, or why it has none; of a framed one its head."""
    return _decoded(*message_of(topic, value), VALUE_BYTES_MAX)


def message_of(topic: str, value: bytes | None) -> tuple[Any, bytes | None]:
    """The class, or union of classes, that a record of `topic` is read as, and its JSON."""
    of_topic = TOPIC_BY_NAME[topic]
    if of_topic.framed and value is not None:
        return of_topic.message, value[:PIECE_HEAD_BYTES_MAX].partition(b"\n")[0]
    if of_topic.inserted is not None and value is not None:
        kind = of_topic.inserted.model_fields["kind"].default
        # Most records are not, and need not be parsed for that.
        if kind.encode() in value and _field(value, "kind") == kind:
            return of_topic.inserted, value
    return of_topic.plain, value


def decode_as(
    message_class: type[M], value: bytes | None, bytes_max: int | None = VALUE_BYTES_MAX
) -> M | Refusal:
    """A message or row of a known class, or why the value is none.

    `bytes_max` none: of any length, as rows are.
    """
    return _decoded(message_class, value, bytes_max)


def adapter(topic: str) -> TypeAdapter[Any]:
    """Validator of what a topic carries."""
    return contract.adapter(TOPIC_BY_NAME[topic].message)


def _field(text: bytes, name: str) -> Any:
    """What a text of JSON has under a name; none: it is no object or does not have it."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found.get(name) if isinstance(found, dict) else None


def _decoded(message: Any, value: bytes | None, bytes_max: int | None) -> Any | Refusal:
    if value is None:
        return Refusal("unreadable", "the record has no value; allowed is a JSON object")
    if bytes_max is not None and len(value) > bytes_max:
        return Refusal(
            "limit", f"the record has {len(value)} bytes; allowed are at most {bytes_max}"
        )
    try:
        return _validated(message, value)
    except Exception as error:  # nothing in a record may stop a worker
        return Refusal("unreadable", f"the record cannot be read: {type(error).__name__}")


def _validated(message: Any, value: bytes) -> Any | Refusal:
    try:
        return contract.adapter(message).validator.validate_json(value)
    except ValidationError as error:
        return _refusal(error, message, value)


def _refusal(error: ValidationError, message: Any, value: bytes) -> Refusal:
    if error.error_count() == 1:
        only = error.errors(include_url=False, include_input=False)[0]
        if only["type"] == "json_invalid":
            return Refusal(
                "unreadable",
                f"the record is no JSON: {only['ctx']['error']}; found are {len(value)} bytes that begin"
                f" with {value[:60]!r}; allowed is a JSON object in UTF-8",
            )
    return Refusal("invalid", complaints(error, contract.json_schema(message)))
