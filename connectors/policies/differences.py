"""Differences of two policies, field by field, with all defaults filled in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.policy import Policy, effective_values, inline_yaml


@dataclass(frozen=True, slots=True)
class PolicyDifference:
    """A field that two policies set to different values; None: the field is not set."""

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.path}: {_format_value(self.before)} -> {_format_value(self.after)}"


def list_differences(before: Policy, after: Policy) -> list[PolicyDifference]:
    """Return the fields that differ, in the order of the document."""
    return list(_compare("", effective_values(before), effective_values(after)))


def _compare(path: str, before: Any, after: Any) -> Iterator[PolicyDifference]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *(key for key in after if key not in before)):
            child_path = f"{path}.{key}" if path else str(key)
            yield from _compare(child_path, before.get(key), after.get(key))
    elif _is_list_of_maps(before) and _is_list_of_maps(after):
        yield from _compare_lists(path, before, after)
    else:
        yield PolicyDifference(path, before, after)


def _compare_lists(path: str, before: list[Any], after: list[Any]) -> Iterator[PolicyDifference]:
    """Compare entries with the same name, or with the same index if they have no names."""
    old = {_entry_name(index, entry): entry for index, entry in enumerate(before)}
    new = {_entry_name(index, entry): entry for index, entry in enumerate(after)}
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield PolicyDifference(f"{path} (order)", list(old), list(new))
    for name in (*old, *(name for name in new if name not in old)):
        yield from _compare(f"{path}[{name}]", old.get(name), new.get(name))


def _entry_name(index: int, entry: dict[str, Any]) -> str:
    return str(entry.get("name") or index)


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, dict) for item in value)


def _format_value(value: Any) -> str:
    return "not set" if value is None else inline_yaml(value)
