"""Describes the errors of a record to its producer.

A message names the field by its path, the value found and the values allowed. The allowed values
come from the published JSON Schema, so both always agree. Records are foreign and can be large:
every quoted value is cut to a limit and escaped.
"""

import json
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.base.contract import JsonSchema, resolve_references
from schemas.base.quantities import QUANTITY_PATTERN
from schemas.base.refusals import REASON_CHARS_MAX

#: Errors described per record; further errors are only counted.
ERRORS_MAX = 5
#: Longest quoted value or name in a path.
FOUND_CHARS_MAX = 60
PATH_CHARS_MAX = 120

_ROOT = "the record"
_KEY = "[key]"
#: Error type of our own validators. Their messages already name the value and the allowed values.
_VALIDATOR_ERROR = "value_error"
_VALIDATOR_PREFIX = "Value error, "


def describe_errors(error: ValidationError, schema: JsonSchema) -> str:
    """Return all errors as one text; `schema` is the JSON Schema of the record.

    An unknown version is reported alone, because the fields of another version may mean anything.
    """
    errors = error.errors(include_url=False, include_context=False)
    unknown_version = [e for e in errors if e["loc"][-1:] == ("schema_version",)]
    if unknown_version:
        errors = unknown_version[:1]
    texts = [_describe_error(e, schema) for e in errors[:ERRORS_MAX]]
    if len(errors) > ERRORS_MAX:
        texts.append(f"and {len(errors) - ERRORS_MAX} more")
    return "; ".join(texts)[:REASON_CHARS_MAX]


def describe_value(value: Any) -> str:
    """Return a value of the record as text of at most a few dozen characters."""
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
    # All other values are short: null, true, a number.
    return json.dumps(value, default=lambda other: f"a {type(other).__name__}")


def _describe_error(error: ErrorDetails, root: JsonSchema) -> str:
    loc = list(error["loc"])
    schema = root
    union = root.get("discriminator")
    if union is not None:
        if not loc and error["type"].startswith("union_tag"):
            return _describe_kind(error["input"], union)
        if loc:
            schema = resolve_references({"$ref": union["mapping"][loc.pop(0)]}, root)
    prefix = ""
    if loc[-1:] == [_KEY]:
        loc = loc[:-2]
        prefix = "a name in "
    for step in loc:
        schema = _descend(schema, step, root)
    if prefix:
        schema = schema.get("propertyNames", {})
    path = prefix + _path(loc)
    if error["type"] == "missing":
        return f"{path} is missing; allowed is {_allowed(schema, root)}"
    if error["type"] == _VALIDATOR_ERROR:
        message = error["msg"].removeprefix(_VALIDATOR_PREFIX)
        return f"{path}: {message}" if loc else message
    if loc[-1:] == ["schema_version"]:
        return f"{path} is {describe_value(error['input'])}; known versions: {schema.get('const')}"
    text = f"{path} is {describe_value(error['input'])}; allowed is {_allowed(schema, root)}"
    if _is_whole(error["input"]) and resolve_references(schema, root).get("type") == "integer":
        # 1.0 is an integer for JSON Schema, so the producer's own check cannot find this.
        return f"{text}, written without fraction and exponent"
    return text


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def describe_allowed(error: ErrorDetails, schema: JsonSchema) -> str:
    """Describe the values that are allowed at an error; `schema` describes the whole value."""
    part = schema
    for step in error["loc"]:
        part = _descend(part, step, schema)
    return _allowed(part, schema)


def _describe_kind(record: Any, union: JsonSchema) -> str:
    field = union["propertyName"]
    tags = ", ".join(json.dumps(tag) for tag in union["mapping"])
    text = (
        describe_value(record[field]) if isinstance(record, dict) and field in record else "missing"
    )
    return f"{field} is {text}; allowed is one of {tags}"


def _path(loc: list[int | str]) -> str:
    """Return the path in the form `pods[3].usage["nvidia.com/gpu"]`."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and step.isascii() and len(step) <= FOUND_CHARS_MAX:
            path += f".{step}" if path else step
        else:
            path += f"[{describe_value(step)}]"
    return path[:PATH_CHARS_MAX] or _ROOT


def _descend(schema: JsonSchema, step: int | str, root: JsonSchema) -> JsonSchema:
    """Return the schema of a field, item or map entry; an empty schema if it is not described."""
    schema = resolve_references(schema, root)
    if isinstance(step, int):
        return resolve_references(schema.get("items", {}), root)
    entry = schema.get("properties", {}).get(step, schema.get("additionalProperties"))
    return resolve_references(entry, root) if isinstance(entry, dict) else {}


def _allowed(schema: JsonSchema, root: JsonSchema) -> str:
    schema = resolve_references(schema, root)
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


def _range(schema: JsonSchema, suffix: str, unit: str) -> str:
    minimum, maximum = schema.get(f"min{suffix}"), schema.get(f"max{suffix}")
    above = schema.get("exclusiveMinimum") if suffix == "imum" else None
    if above is not None:
        return f" above {above}" + (f", at most {maximum}" if maximum is not None else "")
    if minimum is not None and maximum is not None:
        return f" {'of' if unit else 'from'} {minimum} to {maximum}{unit}"
    if maximum is not None:
        return f" of at most {maximum}{unit}"
    return "" if minimum is None else f" of at least {minimum}{unit}"
