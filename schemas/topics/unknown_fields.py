"""Find fields of a record that its reader ignores: mistyped fields, or fields of a newer producer.

Readers ignore unknown fields, so a mistyped optional field has no effect and causes no error.
Commands that accept records written by hand warn about such fields and suggest the right name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import orjson

from schemas.base.contract import JsonSchema, build_schema, resolve_references
from schemas.topics.codec import select_class

#: Unknown fields reported per record.
UNKNOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class UnknownField:
    path: str
    """Path of the field; `[]` stands for every item of a list."""
    similar_name: str | None
    """A known field of the same object with a similar name."""

    def __str__(self) -> str:
        hint = f"; did you mean {self.similar_name}?" if self.similar_name else ""
        return f"{self.path} is not a known field{hint}"


def find_unknown_fields(topic: str, value: bytes) -> list[UnknownField]:
    """Return each unknown field of a valid record once."""
    schema = build_schema(select_class(topic, value)[0])
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError:
        return []  # the validator accepts NaN, which is not JSON
    fields: dict[UnknownField, None] = {}
    for field in _walk(record, schema, schema, ""):
        fields[field] = None
        if len(fields) == UNKNOWN_MAX:
            break
    return list(fields)


def _walk(value: Any, schema: JsonSchema, root: JsonSchema, path: str) -> Iterator[UnknownField]:
    schema = _resolve(value, schema, root)
    if isinstance(value, list):
        for item in value:
            yield from _walk(item, schema.get("items", {}), root, f"{path}[]")
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties")
    entries = schema.get("additionalProperties", {})
    for name, entry in value.items():
        entry_path = f"{path}.{name}" if path else name
        if properties is None:
            if isinstance(entries, dict):
                yield from _walk(entry, entries, root, f"{path}[]")
        elif name in properties:
            yield from _walk(entry, properties[name], root, entry_path)
        else:
            free = [other for other in properties if other not in value]
            similar = get_close_matches(name, free, n=1)
            yield UnknownField(entry_path, similar[0] if similar else None)


def _resolve(value: Any, schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """Follow references, and choose the kind that the record names."""
    schema = resolve_references(schema, root)
    if "discriminator" not in schema:
        return schema
    kind = schema["discriminator"]
    tag = value.get(kind["propertyName"]) if isinstance(value, dict) else None
    return (
        resolve_references({"$ref": kind["mapping"][tag]}, root) if tag in kind["mapping"] else {}
    )
