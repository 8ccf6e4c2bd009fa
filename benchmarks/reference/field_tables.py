"""Markdown tables of the fields of pydantic classes: name, type, default, docstring."""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from schemas.base.docstrings import field_docstrings
from schemas.base.message import ResourceName
from schemas.policy.durations import Duration, PositiveDuration, SignedDuration
from schemas.policy.parts import inner_model
from schemas.policy.sections.migration import PriorityThreshold, Share
from schemas.policy.selectors import LabelSelector, Namespaces, SelectorText
from schemas.policy.windows import WeeklyWindow

#: Headings of classes that several fields use; each of these classes has a separate table.
SHARED: dict[type[BaseModel], str] = {
    LabelSelector: "label selector",
    Namespaces: "namespaces",
    PriorityThreshold: "priority threshold",
    WeeklyWindow: "windows",
}
#: Descriptions of types that are recognized by their validators.
_DESCRIPTIONS = {
    Duration: "duration",
    PositiveDuration: "duration above 0",
    SignedDuration: "duration",
    Share: 'number, or percentage such as "10%"',
    SelectorText: "label selector as text",
}
_PLAIN: dict[Any, str] = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "secret text",
}
_BOUNDS = {"gt": "above", "ge": "from", "lt": "below", "le": "to"}
#: Bounds that are left out, because they are only the size of an integer.
_BITS = re.compile(r" of 64 bits(, at least -\d+)?|( from -\d+)? to (2147483647|4294967295)$")


class FieldRow(NamedTuple):
    path: str
    kind: str
    default: str
    meaning: str


def list_fields(
    part: type[BaseModel],
    instance: BaseModel | None = None,
    path: str = "",
    only: Sequence[str] = (),
) -> Iterator[FieldRow]:
    """Yield the fields of a class; the fields of an inner class follow its field.

    Args:
        part: the class.
        instance: instance with the defaults; None: the defaults of the class.
        path: prefix of the names, such as `nodePools[].`.
        only: names of the fields to yield; empty: all fields.
    """
    meanings = field_docstrings(part)
    values = instance or part.model_construct()
    defaults = values.model_dump(mode="json", by_alias=True)
    for name, field in part.model_fields.items():
        if only and name not in only:
            continue
        alias = field.alias or name
        kind = describe_type(field.annotation, field.metadata)
        default = "required"
        if not field.is_required():
            default = format_value(defaults.get(alias, getattr(values, name)))
        row = FieldRow(
            path + alias, kind, "" if kind == "object" else default, meanings.get(name, "")
        )
        inner = inner_model(field.annotation)
        if inner is None or inner in SHARED:
            yield row
            continue
        if row.meaning:
            yield row
        has_entries = get_origin(_drop_none(field.annotation)) in (tuple, dict)
        inner_only = [key for key in inner.model_fields if key not in WeeklyWindow.model_fields]
        inner_instance = None if has_entries else getattr(values, name, None)
        yield from list_fields(
            inner, inner_instance, f"{path}{alias}{'[]' if has_entries else ''}.", inner_only
        )


def format_table(head: str, rows: Iterable[FieldRow]) -> list[str]:
    """Return the lines of a table; `head` is the heading of the first column."""
    lines = [f"| {head} | type | default | meaning |", "|---|---|---|---|"]
    for row in rows:
        cells = map(format_cell, (row.kind, row.default, row.meaning))
        lines.append(f"| `{row.path}` | {' | '.join(cells)} |")
    return lines


def format_cell(text: str) -> str:
    """Return a text as a cell of a table: one line, without bars."""
    return " ".join(text.split()).replace("|", "\\|")


def format_value(value: Any) -> str:
    """Return a default as text for a table."""
    if value is None or value in ("", (), [], {}):
        return "none"
    if isinstance(value, BaseModel):
        return ""
    if isinstance(value, dict):
        pairs = ((name, item) for name, item in value.items() if item is not None)
        return ", ".join(
            f"{name} {format_value(item) if isinstance(item, dict) else item}"
            for name, item in pairs
        )
    if isinstance(value, list | tuple):
        names = (entry.get("name") if isinstance(entry, dict) else entry for entry in value)
        return ", ".join(str(getattr(entry, "name", entry)) for entry in names)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def describe_type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """Return a field's type in words."""
    arguments, origin = get_args(annotation), get_origin(annotation)
    validators = _find_validators(metadata)
    for validated, words in _DESCRIPTIONS.items():
        if validators & _find_validators(get_args(validated)[1:]):
            return words
    if origin is Annotated:
        return describe_type(arguments[0], [*arguments[1:], *metadata])
    if NoneType in arguments:
        return " or ".join(
            describe_type(argument, metadata) for argument in arguments if argument is not NoneType
        )
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in arguments if argument != "")
    if origin is tuple:
        entry = describe_type(arguments[0])
        return "list" if entry == "object" else f"list of {entry}"
    if origin is dict:
        by = "by resource" if arguments[0] == ResourceName else "by name"
        return f"{describe_type(arguments[1])} {by}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        shared = SHARED.get(WeeklyWindow if issubclass(annotation, WeeklyWindow) else annotation)
        return "object" if shared is None else f"[{shared}](#{shared.replace(' ', '-')})"
    return _describe_plain(annotation, validators, metadata)


def _describe_plain(annotation: Any, validators: set[Any], metadata: Sequence[Any]) -> str:
    for function in validators:
        # `schemas.policy.parts.int_range` keeps the bounds in a closure.
        allowed = inspect.getclosurevars(function).nonlocals.get("allowed")
        if isinstance(allowed, str):
            return _BITS.sub("", allowed.removeprefix("an "))
    bounds = [
        bound
        for item in metadata
        for bound in (item.metadata if isinstance(item, FieldInfo) else [item])
    ]
    words = [_PLAIN.get(annotation, "text")]
    for name, word in _BOUNDS.items():
        words += [f"{word} {getattr(bound, name):g}" for bound in bounds if hasattr(bound, name)]
    return " ".join(words)


def _find_validators(metadata: Sequence[Any]) -> set[Any]:
    return {item.func for item in metadata if isinstance(item, BeforeValidator | AfterValidator)}


def _drop_none(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    choices = [choice for choice in get_args(annotation) if choice is not NoneType]
    is_optional = NoneType in get_args(annotation) and len(choices) == 1
    return _drop_none(choices[0]) if is_optional else annotation
