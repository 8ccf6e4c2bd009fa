"""`maintenance`: times of the week at which pods may be evicted: for all pods, and by namespace.

A pod of namespace `shop` is evicted only while windows of the policy and of `shop` are open. A list
without windows is always open. The time is log time, so a replay opens and closes the same windows.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated

from pydantic import Field

from schemas.policy.durations import format_duration_ms
from schemas.policy.parts import Conflict, Items, PolicyPart, find_repeated
from schemas.policy.windows import WeeklyWindow, Windows, opens_after_ms


class NamespaceWindows(PolicyPart):
    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the namespace."""
    windows: Windows = ()
    """When its pods may be evicted."""


class MaintenanceArgs(PolicyPart):
    """When evictions may happen."""

    windows: Windows = ()
    """When any pod may be evicted; none: always."""
    namespaces: Items[NamespaceWindows] = ()
    """Windows of single namespaces."""

    def conflicts(self) -> Iterable[Conflict]:
        return find_repeated(self, "namespaces")

    @cached_property
    def _of_namespace(self) -> dict[str, tuple[WeeklyWindow, ...]]:
        return {entry.name: entry.windows for entry in self.namespaces}

    @cached_property
    def _is_always_open(self) -> bool:
        return not any((self.windows, *self._of_namespace.values()))

    def explain_closed(self, namespace: str, at_ms: int) -> str | None:
        """Return why a pod may not be evicted at this time; None: it may."""
        if self._is_always_open:
            return None
        lists = (
            ("the policy", self.windows),
            (f"namespace {namespace}", self._of_namespace.get(namespace, ())),
        )
        for scope, windows in lists:
            wait_ms = opens_after_ms(windows, at_ms)
            if wait_ms:
                text = "; ".join(map(str, windows[:2])) + ("; ..." if len(windows) > 2 else "")
                wait = format_duration_ms(wait_ms)
                return f"outside of the maintenance windows of {scope} ({text}); opens in {wait}"
        return None
