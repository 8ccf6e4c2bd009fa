"""The plugins that a policy may name: those of the stages, given by the composition root."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.policy import KnownPlugins

_sources: "list[Callable[[], KnownPlugins]]" = []


def know_plugins(source: "Callable[[], KnownPlugins]") -> None:
    """Let policies name the plugins that `source` answers with, instead of the built-in ones."""
    _sources[:] = [source]


def known_plugins() -> "KnownPlugins":
    """The plugins of the stages, or the built-in ones if no root has given any."""
    from schemas.policy import BUILT_IN

    return _sources[0]() if _sources else BUILT_IN
