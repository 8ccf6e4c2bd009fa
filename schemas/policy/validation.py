"""Build a model from plain values, or report every problem at once.

pydantic does not check rules between fields if one field is invalid. Therefore invalid fields are
removed and the rest is validated again, until no new problem appears. Rules that use a removed field
are ignored.
"""

import copy
import re
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.policy.errors import PROBLEMS_MAX, Path, PolicyError, Problem, format_path
from schemas.policy.parts import field_names, inner_model
from schemas.policy.wording import describe, nearest

M = TypeVar("M", bound=BaseModel)

#: Most validations of one document; rules are nested less deeply than that.
_ROUNDS_MAX = 6

#: Allowed values by pydantic's error type; `{}` takes values from the error's context.
_ALLOWED = {
    "int_type": "an integer",
    "int_parsing_size": "an integer of at most 64 bits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text in Unicode",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "string_pattern_mismatch": "text of the form {pattern}",
    "dict_type": "a map",
    "model_type": "a map",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_long": "at most {max_length} entries",
    "literal_error": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number, at least {ge}",
    "less_than_equal": "a number, at most {le}",
    "allowed": "{allowed}",
}


def _find_model(root: type[BaseModel], path: Path) -> type[BaseModel]:
    """Return the model whose fields are at `path` below `root`."""
    model = root
    for step in path:
        for name, field in model.model_fields.items():
            if step in (field.alias, name):
                model = inner_model(field.annotation) or model
    return model


def _describe(root: type[BaseModel], error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    path = tuple(error["loc"])
    if kind == "extra_forbidden":
        names = field_names(_find_model(root, path[:-1]))
        return f"unknown field{nearest(str(path[-1]), names)}"
    if kind == "missing":
        return "required, but not given"
    if kind == "conflict":
        return error["msg"]
    allowed = _ALLOWED.get(kind)
    if allowed is None:
        return f"found {describe(error['input'])}; {error['msg']}"
    text = f"found {describe(error['input'])}; allowed is {allowed.format(**context)}"
    if kind == "literal_error" and isinstance(error["input"], str):
        suggestion = nearest(error["input"], re.findall(r"'([^']+)'", context["expected"]))
        text += suggestion if "did you mean" in suggestion else ""
    return text


def _find_path(error: ErrorDetails) -> Path:
    """Return the path of an error; for a wrong key of a map, pydantic adds one more step."""
    path = tuple(error["loc"])
    return path[:-1] if path and path[-1] == "[key]" else path


def _remove_paths(data: Any, paths: Iterable[Path]) -> Any:
    """Return a copy without the values at `paths`.

    Instead of a list item, the whole list is removed.
    """
    pruned = copy.deepcopy(data)
    for path in paths:
        lists = [index for index, step in enumerate(path) if isinstance(step, int)]
        path = path[: lists[0]] if lists else path
        holder = pruned
        for step in path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and path:
            holder.pop(path[-1], None)
    return pruned


def _overlap(one: Path, other: Path) -> bool:
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _find_part_path(error: ErrorDetails) -> Path:
    """Return the path of the part that reports a conflict."""
    return tuple(error["loc"])[: len(error["loc"]) - error["ctx"]["depth"]]


def _list_dependencies(error: ErrorDetails) -> list[Path]:
    """Return the paths that an error depends on: its own path, or the paths that a conflict uses."""
    names = error["ctx"]["reads"] if error["type"] == "conflict" else ()
    return [(*_find_part_path(error), name) for name in names] or [_find_path(error)]


def _find_errors(
    model: type[BaseModel], data: Any, context: dict[str, Any] | None
) -> list[ErrorDetails]:
    """Return all errors, including errors that pydantic reports only after the removal of others."""
    all_errors: list[ErrorDetails] = []
    removed: list[Path] = []
    for _ in range(_ROUNDS_MAX):
        try:
            model.model_validate(
                data, by_alias=True, by_name=False, context={**(context or {}), "removed": removed}
            )
        except ValidationError as error:
            errors = error.errors(include_url=False)
        else:
            break
        # After the first validation a field may be missing because it was removed.
        new_errors = [
            error
            for error in errors
            if not any(_overlap(*pair) for pair in product(_list_dependencies(error), removed))
        ]
        if not new_errors:
            break
        all_errors += new_errors
        if len(all_errors) > PROBLEMS_MAX:
            break
        paths = [path for error in new_errors for path in _list_dependencies(error)]
        data = _remove_paths(data, paths)
        removed += paths
    return all_errors


def build_model(
    model: type[M],
    data: Any,
    *,
    context: dict[str, Any] | None = None,
    locate: Callable[[Path], tuple[str, int | None]] = lambda path: (format_path(path), None),
) -> M:
    """Return the model; `locate` returns path and line of a value for messages.

    Raises `PolicyError` with every problem.
    """
    try:
        return model.model_validate(data, by_alias=True, by_name=False, context=context)
    except ValidationError:
        errors = _find_errors(model, data, context)
    raise PolicyError(
        Problem(path, _describe(model, error), line)
        for error in errors
        for path, line in [locate(_find_path(error))]
    )
