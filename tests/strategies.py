"""Hypothesis strategies for messages, based on their published schemas.

A payload is drawn from the JSON Schema of its message, so strategies follow the message classes. A drawn
payload that the code refuses is a fault of the schema or of the code.
"""

import json
from collections.abc import Iterator
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pydantic import BaseModel

from schemas.base import contract
from schemas.storage.tables import ROW_CLASSES
from schemas.storage.usage_statistics import PodUsageRow
from schemas.topics.catalog import TOPICS

M = TypeVar("M", bound=BaseModel)

#: Longest text, list and map that is drawn, within the published bounds.
_TEXT_MAX = 12
_ITEMS_MAX = 2

Json = Any


#: Every class of messages and rows.
MESSAGE_CLASSES: tuple[type[BaseModel], ...] = tuple(
    dict.fromkeys([cls for topic in TOPICS for cls in topic.classes] + [*ROW_CLASSES.values()])
)


def messages(message_class: type[M]) -> SearchStrategy[M]:
    """Messages, rows or parts of one class."""
    adapter = contract.get_adapter(message_class)
    return payloads(message_class).map(lambda payload: adapter.validate_json(_json(payload)))


def payloads(message: Any) -> SearchStrategy[Json]:
    """JSON values allowed by the published schema of a message class or of a union."""
    root = contract.build_schema(message)
    drawn = _drawn(root, root)
    return drawn.map(_same_columns) if message is PodUsageRow else drawn


def _same_columns(payload: Any) -> Any:
    """A row with columns of equal length, which JSON Schema cannot express."""
    entries = len(payload["minutes"])
    payload["uids"] = [f"u{number}" for number in range(entries)]
    lately = ("recent", "recent_root", "lasting_ppm")
    every = all(columns.get("recent") for columns in payload["usage"].values())
    for columns in payload["usage"].values():
        for name in ("mean", "deviation", *(lately if every else ())):
            columns[name] = (columns.get(name, []) + [0] * entries)[:entries]
        for name in () if every else lately:
            columns.pop(name, None)
    return payload


def json_values() -> SearchStrategy[Json]:
    """Any JSON value, including numbers on which JSON readers differ."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([-1, 2**63, 2**64, 10**30, 1760000000000]),
        st.floats(),
        st.text(max_size=_TEXT_MAX),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    )


def mutate(payload: Any) -> SearchStrategy[Any]:
    """The payload with one value replaced, removed, or renamed."""

    @st.composite
    def mutation(draw: DrawFn) -> Any:
        places = list(places_in(payload))
        if not places:
            return draw(json_values())
        copy = json.loads(json.dumps(payload))
        *above, last = draw(st.sampled_from(places))
        target = copy
        for step in above:
            target = target[step]
        how = draw(st.sampled_from(["replace", "remove", "rename", "repeat"]))
        old = target.pop(last)
        if isinstance(target, list):
            target[last:last] = {
                "replace": [draw(json_values())],
                "repeat": [old] * draw(st.sampled_from([2, 300, 3000])),
            }.get(how, [])
        elif how != "remove":
            name = draw(st.text(max_size=8)) if how == "rename" else last
            target[name] = draw(json_values()) if how == "replace" else old
        return copy

    return mutation()


def places_in(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values inside a JSON value."""
    if not isinstance(value, dict | list):
        return
    for step, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (step,)
        yield from ((step, *below) for below in places_in(inner))


def _drawn(schema: Json, root: Json) -> SearchStrategy[Json]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: _drawn(root["$defs"][name], root))
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return st.one_of([_drawn(member, root) for member in schema[union]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "null":
            return st.none()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            bounds = schema.get("minimum"), schema.get("maximum")
            return st.floats(*bounds, allow_nan=False, allow_infinity=False)
        case "string":
            return _text(schema)
        case "array":
            return _array(schema, root)
        case "object":
            return _map(schema, root) if "propertyNames" in schema else _fields(schema, root)
    raise AssertionError(f"no strategy for {schema}")


def _text(schema: Json) -> SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", _TEXT_MAX)
    if "pattern" in schema:
        matching = st.from_regex(schema["pattern"], fullmatch=True)
        return matching.filter(lambda text: least <= len(text) <= most)
    return st.text(min_size=least, max_size=min(most, max(least, _TEXT_MAX)))


def _array(schema: Json, root: Json) -> SearchStrategy[list[Json]]:
    if "prefixItems" in schema:
        return st.tuples(*(_drawn(item, root) for item in schema["prefixItems"])).map(list)
    most = min(schema.get("maxItems", _ITEMS_MAX), _ITEMS_MAX)
    return st.lists(_drawn(schema["items"], root), max_size=most)


def _map(schema: Json, root: Json) -> SearchStrategy[dict[str, Json]]:
    names = {"type": "string"} | schema["propertyNames"]
    values = _drawn(schema["additionalProperties"], root)
    return st.dictionaries(_drawn(names, root), values, max_size=_ITEMS_MAX)


def _fields(schema: Json, root: Json) -> SearchStrategy[dict[str, Json]]:
    fields = {name: _drawn(field, root) for name, field in schema["properties"].items()}
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {name: field for name, field in fields.items() if name in required},
        optional={name: field for name, field in fields.items() if name not in required},
    )


def _json(payload: Json) -> bytes:
    return json.dumps(payload).encode()
