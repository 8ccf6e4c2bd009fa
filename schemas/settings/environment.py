"""Read settings from environment variables; wrong and unknown ones are described in a sentence each.

A group of settings is a class. The variable of a field is the prefix of the class and the name of the
field.
"""

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from schemas.base.validation_errors import describe_allowed, describe_value

#: Prefix of all variables of loadstream.
_COMMON_PREFIX = "LOADSTREAM_"
#: A variable this similar to a setting is a misspelling of it; no two settings are so similar.
_MISSPELLING_RATIO = 0.9
#: Units by the last word of a setting's name.
_UNITS = {"s": " (seconds)", "ms": " (milliseconds)", "bytes": " (bytes)", "records": " (records)"}


class SettingsError(ValueError):
    """Settings that cannot work. The message names all problems by their environment variables."""


def read_settings(groups: Mapping[type[BaseSettings], Mapping[str, Any]]) -> Sequence[Any]:
    """Return the settings of each group, in order.

    `groups` has overriding values per group. Raises SettingsError with all problems, including misspelt
    variables.
    """
    problems = [problem for group in groups for problem in find_unknown_variables(group)]
    settings = []
    for group, overrides in groups.items():
        try:
            settings.append(group(**overrides))
        except ValidationError as error:
            problems += describe_problems(group, error)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def describe_problems(settings: type[BaseSettings], error: ValidationError) -> list[str]:
    """Return a sentence for each wrong variable; secrets are not shown."""
    prefix = settings.model_config.get("env_prefix", "")
    schema = settings.model_json_schema()
    problems = []
    for detail in error.errors(include_url=False):
        field = str(detail["loc"][0]) if detail["loc"] else ""
        message = str(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] != "value_error":
            shown = "" if "password" in field else f"found {describe_value(detail['input'])}; "
            unit = _UNITS.get(field.rpartition("_")[2], "")
            message = f"{shown}allowed is {describe_allowed(detail, schema)}{unit}"
        elif field and "password" not in field and "found" not in message:
            message += f" (found {detail['input']!r})"
        problems.append(f"{prefix}{field.upper()}: {message}" if field else message)
    return problems


def find_unknown_variables(settings: type[BaseSettings]) -> list[str]:
    """Return a sentence for each variable with the settings' prefix, or a similar one, that is not a setting.

    Otherwise a misspelt variable would silently leave the setting at its default.
    """
    prefix = settings.model_config.get("env_prefix", "")
    variables = [prefix + field.upper() for field in settings.model_fields]
    problems = []
    for name in sorted(os.environ):
        upper = name.upper()
        if upper in variables or not upper.startswith(_COMMON_PREFIX):
            continue
        has_prefix = upper.startswith(prefix)
        similar = difflib.get_close_matches(
            upper, variables, n=1, cutoff=0.6 if has_prefix else _MISSPELLING_RATIO
        )
        if has_prefix or similar:
            allowed = f"; the settings are {', '.join(variables)}"
            hint = f"; did you mean {similar[0]}?" if similar else allowed
            problems.append(f"{name}: unknown setting{hint}")
    return problems
