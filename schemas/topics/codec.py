"""Encode and decode messages.

`encode` writes JSON with sorted names, so equal messages give equal bytes, and recovered state
produces the same output as state that was never lost.

`decode` never raises on bad input. It returns a `Refusal` that names the field, the value found and
the values allowed; the caller sends the record to `dead-letters`. If a name is repeated, its last
value counts. Unknown names are ignored. Only the first bad item of a list or map is reported. So the
time to read a record is limited by its size.
"""

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.base import contract
from schemas.base.limits import PIECE_HEAD_BYTES_MAX, VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.base.validation_errors import describe_errors
from schemas.topics.catalog import TOPIC_BY_NAME

M = TypeVar("M", bound=BaseModel)


def encode(message: BaseModel) -> bytes:
    """Return the message as JSON, without optional fields that are None; equal messages give equal
    bytes."""
    return encode_fields(message.__pydantic_serializer__.to_python(message, exclude_none=True))


def encode_fields(fields: dict[str, Any]) -> bytes:
    """Return the bytes that `encode` returns for the message with these fields.

    `fields` are JSON values with all defaults, without optional fields that are None.
    """
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def decode(topic: str, value: bytes | None) -> Any | Refusal:
    """Return the message of a record, or a refusal; of a framed topic, the head of the record."""
    return _decode(*select_class(topic, value), VALUE_BYTES_MAX)


def select_class(topic: str, value: bytes | None) -> tuple[Any, bytes | None]:
    """Return the class (or union) that reads a record of `topic`, and the JSON of the record."""
    definition = TOPIC_BY_NAME[topic]
    if definition.framed and value is not None:
        return definition.message, value[:PIECE_HEAD_BYTES_MAX].partition(b"\n")[0]
    if definition.inserted is not None and value is not None:
        kind = definition.inserted.model_fields["kind"].default
        # Searching the bytes first avoids parsing most records twice.
        if kind.encode() in value and _field(value, "kind") == kind:
            return definition.inserted, value
    return definition.outside_message, value


def decode_as(
    message_class: type[M], value: bytes | None, bytes_max: int | None = VALUE_BYTES_MAX
) -> M | Refusal:
    """Return a message or row of a known class, or a refusal.

    Rows may have any length: `bytes_max` is None for them.
    """
    return _decode(message_class, value, bytes_max)


def get_topic_adapter(topic: str) -> TypeAdapter[Any]:
    return contract.get_adapter(TOPIC_BY_NAME[topic].message)


def _field(text: bytes, name: str) -> Any:
    """Return the value of a field of a JSON object; None if it has no such field."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value.get(name) if isinstance(value, dict) else None


def _decode(message: Any, value: bytes | None, bytes_max: int | None) -> Any | Refusal:
    if value is None:
        return Refusal("unreadable", "the record has no value; expected a JSON object")
    if bytes_max is not None and len(value) > bytes_max:
        return Refusal(
            "limit", f"the record has {len(value)} bytes; allowed are at most {bytes_max}"
        )
    try:
        return _validate(message, value)
    except Exception as error:  # nothing in a record may stop a worker
        return Refusal("unreadable", f"the record cannot be read: {type(error).__name__}")


def _validate(message: Any, value: bytes) -> Any | Refusal:
    try:
        return contract.get_adapter(message).validator.validate_json(value)
    except ValidationError as error:
        return _refusal(error, message, value)


def _refusal(error: ValidationError, message: Any, value: bytes) -> Refusal:
    if error.error_count() == 1:
        only = error.errors(include_url=False, include_input=False)[0]
        if only["type"] == "json_invalid":
            return Refusal(
                "unreadable",
                f"the record is not JSON: {only['ctx']['error']}; found {len(value)} bytes that begin"
                f" with {value[:60]!r}; expected a JSON object in UTF-8",
            )
    return Refusal("invalid", describe_errors(error, contract.build_schema(message)))
