"""How a policy that must be refused is read, and what is said of it."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.policy import PolicyError, read_policy


def refused(read: Callable[..., Any], *arguments: Any) -> PolicyError:
    """The error of a reader that must refuse what it is given."""
    with pytest.raises(PolicyError) as caught:
        read(*arguments)
    return caught.value


def lines(text: str) -> list[str]:
    """The problems of a policy's text as they are reported."""
    return str(refused(read_policy, text)).splitlines()


def problems(read: Callable[..., Any], *arguments: Any) -> dict[str, str]:
    """The problems of arguments: messages by path."""
    return {problem.path: problem.message for problem in refused(read, *arguments).problems}
