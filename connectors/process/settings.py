"""Read several groups of settings from environment variables."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from schemas.settings.connection import SettingsError
from schemas.settings.environment import describe_problems, find_unknown_variables


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
