"""Complaints: what is wrong with a record, in a sentence for the person who produces it.

A complaint names the field by its path, what was found there and what is allowed, and the latter is
read from the same JSON Schema that is published, so the two cannot differ; where fields do not fit
each other, it is what their validator says. Records are foreign and large, therefore everything
quoted from one is cut to a bound and escaped.
"""

import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.base.contract import JsonSchema
from schemas.base.quantities import QUANTITY_PATTERN
from schemas.base.refusals import REASON_CHARS_MAX

#: Most complaints about one record; the others are counted.
COMPLAINTS_MAX = 5
#: Most characters of a value, of a name in a path, and of a path.
FOUND_CHARS_MAX = 60
PATH_CHARS_MAX = 120

_ROOT = "the record"
_KEY = "[key]"
#: What a validator of ours raises, which says itself what it has found and what is allowed: no JSON
#: Schema holds one field against another.
_OWN = "value_error"
_OWN_PREFIX = "Value error, "


def complaints(error: ValidationError, schema: JsonSchema) -> str:
    """All that is wrong, as one text; `schema` is the JSON Schema that the record was held against.

    An unknown version is the only complaint, since the fields of another version may mean anything.
    """
    errors = error.errors(include_url=False, include_context=False)
    unknown_version = [e for e in errors if e["loc"][-1:] == ("schema_version",)]
    if unknown_version:
        errors = unknown_version[:1]
    texts = [_complaint(e, schema) for e in errors[:COMPLAINTS_MAX]]
    if len(errors) > COMPLAINTS_MAX:
        texts.append(f"and {len(errors) - COMPLAINTS_MAX} more")
    return "; ".join(texts)[:REASON_CHARS_MAX]


def found(value: Any) -> str:
    """A value as it stood in the record, in at most a few dozen characters."""
    if isinstance(value, str):
        quoted = json.dumps(value[:FOUND_CHARS_MAX])
        if len(value) <= FOUND_CHARS_MAX and len(quoted) <= FOUND_CHARS_MAX + 2:
            return quoted
        return f'{quoted[: FOUND_CHARS_MAX + 1]}..." ({len(value)} characters)'
    if isinstance(value, list | tuple):
        return f"an array of {len(value)} items"
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, int) and abs(value) >= 10**FOUND_CHARS_MAX:
        return f"an integer of {value.bit_length()} bits"
    # What is left is short: null, true, a number; NaN and Infinity by these names.
    return json.dumps(value, default=lambda other: f"a {type(other).__name__}")


def _complaint(error: ErrorDetails, root: JsonSchema) -> str:
    loc = list(error["loc"])
    schema = root
    union = root.get("discriminator")
    if union is not None:
        if not loc and error["type"].startswith("union_tag"):
            return _about_kind(error["input"], union)
        if loc:
            schema = _resolved({"$ref": union["mapping"][loc.pop(0)]}, root)
    known = ""
    if loc[-1:] == [_KEY]:
        loc = loc[:-2]
        known = "a name in "
    for step in loc:
        schema = _below(schema, step, root)
    if known:
        schema = schema.get("propertyNames", {})
    path = known + _path(loc)
    if error["type"] == "missing":
        return f"{path} is missing; allowed is {_allowed(schema, root)}"
    if error["type"] == _OWN:
        said = error["msg"].removeprefix(_OWN_PREFIX)
        return f"{path}: {said}" if loc else said
    if loc[-1:] == ["schema_version"]:
        return f"{path} is {found(error['input'])}; known versions: {schema.get('const')}"
    text = f"{path} is {found(error['input'])}; allowed is {_allowed(schema, root)}"
    if _is_whole(error["input"]) and _resolved(schema, root).get("type") == "integer":
        # JSON Schema takes it for an integer, so a producer that checks there cannot see what is wrong.
        return f"{text}, written without fraction and exponent"
    return text


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def allowed(error: ErrorDetails, schema: JsonSchema) -> str:
    """What is allowed in the place of an error, in words; `schema`: of what was read."""
    place = schema
    for step in error["loc"]:
        place = _below(place, step, schema)
    return _allowed(place, schema)


def _about_kind(record: Any, union: JsonSchema) -> str:
    field = union["propertyName"]
    tags = ", ".join(json.dumps(tag) for tag in union["mapping"])
    text = found(record[field]) if isinstance(record, dict) and field in record else "missing"
    return f"{field} is {text}; allowed is one of {tags}"


def _path(loc: list[int | str]) -> str:
    """Like `pods[3].usage["nvidia.com/gpu"]`."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and step.isascii() and len(step) <= FOUND_CHARS_MAX:
            path += f".{step}" if path else step
        else:
            path += f"[{found(step)}]"
    return path[:PATH_CHARS_MAX] or _ROOT


def _resolved(schema: JsonSchema, root: JsonSchema) -> JsonSchema:
    """The schema itself, behind references and beside a permitted null."""
    while True:
        if "$ref" in schema:
            schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next(s for s in schema["anyOf"] if s.get("type") != "null")
        else:
            return schema


def _below(schema: JsonSchema, step: int | str, root: JsonSchema) -> JsonSchema:
    """The schema of a field, an item or an entry; of what is not described nothing is known."""
    schema = _resolved(schema, root)
    if isinstance(step, int):
        return _resolved(schema.get("items", {}), root)
    entry = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    return _resolved(entry, root) if isinstance(entry, dict) else {}


def _allowed(schema: JsonSchema, root: JsonSchema) -> str:
    """What a JSON Schema allows, in words."""
    schema = _resolved(schema, root)
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "oneOf" in schema:
        return "an object"
    match schema.get("type"):
        case "string":
            return _allowed_string(schema)
        case "integer":
            unit = f" ({schema['unit']})" if "unit" in schema else ""
            return "an integer" + _range(schema, "imum", "") + unit
        case "number":
            return "a number" + _range(schema, "imum", "")
        case "boolean":
            return "true or false"
        case "array":
            return "an array" + _range(schema, "Items", " items")
        case "object":
            return "an object" + _range(schema, "Properties", " entries")
    return "what the schema says"


def _allowed_string(schema: JsonSchema) -> str:
    pattern = schema.get("pattern", "")
    if pattern.endswith(QUANTITY_PATTERN[-20:]):
        return "a Kubernetes quantity such as 250m, 1.5Gi or 1e3, not below 0"
    words = "a string" + _range(schema, "Length", " characters")
    if pattern.startswith("^[^"):
        return (
            words
            + (' without "/", blanks' if "/" in pattern else " without blanks")
            + " and control characters"
        )
    return words + (f" that matches {pattern}" if pattern else "")


def _range(schema: JsonSchema, of: str, unit: str) -> str:
    least, most = schema.get(f"min{of}"), schema.get(f"max{of}")
    above = schema.get("exclusiveMinimum") if of == "imum" else None
    if above is not None:
        return f" above {above}" + (f", at most {most}" if most is not None else "")
    if least is not None and most is not None:
        return f" {'of' if unit else 'from'} {least} to {most}{unit}"
    if most is not None:
        return f" of at most {most}{unit}"
    return "" if least is None else f" of at least {least}{unit}"
