"""Plain values to a model, or every problem at once.

pydantic stops before rules between fields as soon as one field is wrong. So the wrong fields are
noted, taken out, and the rest is looked at again for the sake of those rules, until nothing new is
found; a rule that reads a field which was taken out says nothing.
"""

import copy
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.policy.errors import PROBLEMS_MAX, Path, PolicyError, Problem, path_text
from schemas.policy.parts import field_names, inner_model
from schemas.policy.wording import describe, nearest

M = TypeVar("M", bound=BaseModel)

#: Most times that a document is looked at again; rules are nested less deeply than that.
_ROUNDS_MAX = 6

#: What is allowed, by pydantic's name of the error; `{}` takes values from the error's context.
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


def _model_at(root: type[BaseModel], path: Path) -> type[BaseModel]:
    """The model whose fields stand at `path` below `root`."""
    model = root
    for step in path:
        for name, field in model.model_fields.items():
            if step in (field.alias, name):
                model = inner_model(field.annotation) or model
    return model


def _message(root: type[BaseModel], error: ErrorDetails) -> str:
    """The sentence that an error of pydantic comes to."""
    kind, context = error["type"], error.get("ctx", {})
    path = tuple(error["loc"])
    if kind == "extra_forbidden":
        known = field_names(_model_at(root, path[:-1]))
        return f"unknown field{nearest(str(path[-1]), known)}"
    if kind == "missing":
        return "required, but not given"
    if kind == "conflict":
        return error["msg"]
    allowed = _ALLOWED.get(kind)
    if allowed is None:
        return f"found {describe(error['input'])}; {error['msg']}"
    text = f"found {describe(error['input'])}; allowed is {allowed.format(**context)}"
    if kind == "literal_error" and isinstance(error["input"], str):
        meant = nearest(error["input"], re.findall(r"'([^']+)'", context["expected"]))
        text += meant if "did you mean" in meant else ""
    return text


def _place(error: ErrorDetails) -> Path:
    """Where an error stands; pydantic marks a wrong key of a map by one more step."""
    path = tuple(error["loc"])
    return path[:-1] if path and path[-1] == "[key]" else path


def _without(data: Any, paths: Iterable[Path]) -> Any:
    """A copy of `data` without what stands at `paths`; of a list nothing is taken out but the
    whole."""
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


def _part(error: ErrorDetails) -> Path:
    """The part that reports a conflict."""
    return tuple(error["loc"])[: len(error["loc"]) - error["ctx"]["depth"]]


def _looked_at(error: ErrorDetails) -> list[Path]:
    """The values that an error is about: its own place, or all that a conflict has read."""
    if error["type"] != "conflict":
        return [_place(error)]
    return [(*_part(error), name) for name in error["ctx"]["reads"]] or [_place(error)]


def _problems(
    model: type[BaseModel], data: Any, context: dict[str, Any] | None
) -> list[ErrorDetails]:
    """All errors of `data`, those that pydantic finds only when others are out of the way as well."""
    found: list[ErrorDetails] = []
    out: list[Path] = []
    for _ in range(_ROUNDS_MAX):
        try:
            model.model_validate(
                data, by_alias=True, by_name=False, context={**(context or {}), "taken_out": out}
            )
        except ValidationError as error:
            errors = error.errors(include_url=False)
        else:
            break
        # After the first round a field may be missed only because it was taken out.
        new = [
            each
            for each in errors
            if not any(_overlap(path, gone) for path in _looked_at(each) for gone in out)
        ]
        if not new:
            break
        found += new
        if len(found) > PROBLEMS_MAX:
            break
        gone = [path for each in new for path in _looked_at(each)]
        data = _without(data, gone)
        out += gone
    return found


def validated(
    model: type[M],
    data: Any,
    *,
    context: dict[str, Any] | None = None,
    place: Callable[[Path], tuple[str, int | None]] = lambda path: (path_text(path), None),
) -> M:
    """The model that `data` makes; `place` gives path and line of a value for messages.

    Raises `PolicyError` with every problem.
    """
    try:
        return model.model_validate(data, by_alias=True, by_name=False, context=context)
    except ValidationError:
        errors = _problems(model, data, context)
    raise PolicyError(
        Problem(path, _message(model, each), line)
        for each in errors
        for path, line in [place(_place(each))]
    )
