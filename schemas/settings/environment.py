"""Settings from environment variables: what is wrong with them, a sentence for each variable.

A group of settings is a class; a field's variable is the class's prefix and the field's name.
"""

import difflib
import os

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from schemas.base.complaints import allowed, found

#: What all our variables begin with.
_OURS = "LOADSTREAM_"
#: How much a variable with another prefix must be like a setting to be a misspelling of it; no two
#: settings are that much alike.
_MISTYPED = 0.9
#: What the last word of a setting's name says of its unit.
_UNITS = {"s": " (seconds)", "ms": " (milliseconds)", "bytes": " (bytes)", "records": " (records)"}


def problems_of(settings: type[BaseSettings], error: ValidationError) -> list[str]:
    """What is wrong with settings, a sentence for each variable; never with a secret."""
    prefix = settings.model_config.get("env_prefix", "")
    schema = settings.model_json_schema()
    problems = []
    for detail in error.errors(include_url=False):
        field = str(detail["loc"][0]) if detail["loc"] else ""
        own = str(detail["msg"]).removeprefix("Value error, ")
        if detail["type"] != "value_error":
            shown = "" if "password" in field else f"found {found(detail['input'])}; "
            unit = _UNITS.get(field.rpartition("_")[2], "")
            own = f"{shown}allowed is {allowed(detail, schema)}{unit}"
        elif field and "password" not in field and "found" not in own:
            own += f" (found {detail['input']!r})"
        problems.append(f"{prefix}{field.upper()}: {own}" if field else own)
    return problems


def unknown_variables(settings: type[BaseSettings]) -> list[str]:
    """A sentence for each variable that has the settings' prefix, or one much like it, and is none
    of them.

    A misspelt one would otherwise be a setting silently at its default.
    """
    prefix = settings.model_config.get("env_prefix", "")
    known = [prefix + field.upper() for field in settings.model_fields]
    problems = []
    for name in sorted(os.environ):
        upper = name.upper()
        if upper in known or not upper.startswith(_OURS):
            continue
        own = upper.startswith(prefix)
        close = difflib.get_close_matches(upper, known, n=1, cutoff=0.6 if own else _MISTYPED)
        if own or close:
            hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
            problems.append(f"{name}: there is no such setting{hint}")
    return problems
