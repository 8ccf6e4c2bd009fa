"""Settings of a process, read from environment variables together."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from schemas.settings.connection import SettingsError
from schemas.settings.environment import problems_of, unknown_variables


def read_settings(groups: Mapping[type[BaseSettings], Mapping[str, Any]]) -> Sequence[Any]:
    """Return the settings of each group, in order.

    `groups` has, per group, the values that override its variables. Raises SettingsError with all
    problems, among them misspelt variables.
    """
    problems = [problem for group in groups for problem in unknown_variables(group)]
    settings = []
    for group, overrides in groups.items():
        try:
            settings.append(group(**overrides))
        except ValidationError as error:
            problems += problems_of(group, error)
    if problems:
        raise SettingsError("\n".join(problems))
    return settings
