"""Reads policies that must be refused, and returns the problems."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.policy import PolicyError, read_policy


def refused(read: Callable[..., Any], *arguments: Any) -> PolicyError:
    """Return the error of a reader that must refuse its arguments."""
    with pytest.raises(PolicyError) as caught:
        read(*arguments)
    return caught.value


def lines(text: str) -> list[str]:
    """Return the problems of a policy's text as they are reported."""
    return str(refused(read_policy, text)).splitlines()


def problems(read: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """Return the problems of arguments: messages by path."""
    return {problem.path: problem.message for problem in refused(read, *arguments).problems}
