"""Fields of a record that its reader passes over: a newer producer's, or mistyped ones.

Readers ignore what they do not know, so that a producer may be newer. So a mistyped optional field
changes nothing in silence; who writes a record by hand is notified of it, with the field that may
be meant.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import orjson

from schemas.base.contract import JsonSchema, json_schema
from schemas.topics.codec import message_of

#: Most unknown fields of one record that are named.
UNKNOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that no reader of this version knows."""

    path: str
    """Where it is; items of lists as `[]`, so that a fault of every item is one."""
    close: str | None
    """A field of the same object that it may be meant to be."""

    def __str__(self) -> str:
        meant = f"; did you mean {self.close}?" if self.close else ""
        return f"{self.path} is no field that is read{meant}"


def unknown_fields(topic: str, value: bytes) -> list[UnknownField]:
    """Each unknown field of a record that could be read, once."""
    schema = json_schema(message_of(topic, value)[0])
    try:
        record = orjson.loads(value)
    except orjson.JSONDecodeError:
        return []  # NaN is read, and is no JSON
    found: dict[UnknownField, None] = {}
    for field in _below(record, schema, schema, ""):
        found[field] = None
        if len(found) == UNKNOWN_MAX:
            break
    return list(found)


def _below(value: Any, schema: JsonSchema, root: JsonSchema, path: str) -> Iterator[UnknownField]:
    schema = _resolved(value, schema, root)
    if isinstance(value, list):
        for item in value:
            yield from _below(item, schema.get("items", {}), root, f"{path}[]")
        return
    if not isinstance(value, dict):
        return
    known = schema.get("properties")
    entries = schema.get("additionalProperties", {})
    for name, each in value.items():
        where = f"{path}.{name}" if path else name
        if known is None:
            if isinstance(entries, dict):
                yield from _below(each, entries, root, f"{path}[]")
        elif name in known:
            yield from _below(each, known[name], root, where)
        else:
            free = [other for other in known if other not in value]
            close = get_close_matches(name, free, n=1)
            yield UnknownField(where, close[0] if close else None)


def _resolved(value: Any, schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """The schema itself: behind references, beside a permitted null, of the kind that a record
    names."""
    while True:
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
        elif "discriminator" in schema:
            kind = schema["discriminator"]
            named = value.get(kind["propertyName"]) if isinstance(value, dict) else None
            if named not in kind["mapping"]:
                return {}
            schema = {"$ref": kind["mapping"][named]}
        else:
            return schema
