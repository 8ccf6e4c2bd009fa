"""What a schema refuses that an older one took: the changes by which a rolling upgrade would break."""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "minLength", "minItems", "minProperties")


def narrowings(old: Schema, new: Schema) -> list[str]:
    """Sentences, each with the place in the message; none: whatever was written can be read."""
    return list(_Comparison(old, new).at("", old, new))


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str]] = set()

    def at(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        """Compare two schemas of one place."""
        names = str(old.get("$ref", "")), str(new.get("$ref", ""))
        if all(names):
            if names in self._seen:
                return
            self._seen.add(names)
        old, new = _resolved(self._old, old), _resolved(self._new, new)
        if "anyOf" in old or "oneOf" in old or "anyOf" in new or "oneOf" in new:
            yield from self._alternatives(place, old, new)
            return
        yield from _values(place, old, new)
        yield from _bounds(place, old, new)
        yield from self._fields(place, old, new)
        for keyword in ("items", "additionalProperties", "propertyNames"):
            inner_old, inner_new = old.get(keyword), new.get(keyword)
            if isinstance(inner_new, dict):
                yield from self.at(f"{place}[]", inner_old or {}, inner_new)
            elif inner_new is False and inner_old is not False:
                yield f"{place or 'the message'}: {keyword} are not allowed any more"

    def _alternatives(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        allowed = _choices(new)
        for each in _choices(old):
            seen = set(self._seen)
            found = []
            for other in allowed:
                self._seen = set(seen)
                found.append(list(self.at(place, each, other)))
            if all(found):
                yield min(found, key=len)[0]

    def _fields(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        fields_old, fields_new = old.get("properties", {}), new.get("properties", {})
        required = set(new.get("required", ())) - set(old.get("required", ()))
        for name in sorted(required):
            yield f"{place}.{name}: is required now"
        for name, field in fields_old.items():
            if name in fields_new:
                yield from self.at(f"{place}.{name}", field, fields_new[name])
            else:
                yield f"{place}.{name}: is gone"


def _resolved(root: Schema, schema: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema


def _choices(schema: Schema) -> list[Schema]:
    found: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return found


def _values(place: str, old: Schema, new: Schema) -> Iterator[str]:
    taken, allowed = _enumerated(old), _enumerated(new)
    if allowed is not None:
        if taken is None:
            yield f"{place}: only {allowed} are allowed now"
        else:
            gone = [each for each in taken if each not in allowed]
            if gone:
                yield f"{place}: {gone} are not allowed any more"
    if old.get("type") != new.get("type") and "type" in new:
        yield f"{place}: was of type {old.get('type')}, is of type {new['type']}"


def _enumerated(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _bounds(place: str, old: Schema, new: Schema) -> Iterator[str]:
    for keyword in _UPPER:
        if keyword in new and (keyword not in old or new[keyword] < old[keyword]):
            yield f"{place}: {keyword} is {new[keyword]}, was {old.get(keyword, 'none')}"
    for keyword in _LOWER:
        if keyword in new and (keyword not in old or new[keyword] > old[keyword]):
            yield f"{place}: {keyword} is {new[keyword]}, was {old.get(keyword, 'none')}"
    if "pattern" in new and new["pattern"] != old.get("pattern"):
        yield f"{place}: pattern is {new['pattern']}, was {old.get('pattern', 'none')}"
