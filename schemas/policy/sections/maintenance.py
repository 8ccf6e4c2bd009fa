"""`maintenance`: times of the week at which pods may be evicted: for all pods, by pool and by namespace.

Every list with windows must have an open one. A pod of namespace `shop` on a node of pool `web` is
evicted only while windows of the policy, of `web` and of `shop` are open. A list without windows is
always open. The time is log time, so a replay opens and closes the same windows.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from schemas.policy.durations import format_duration_ms
from schemas.policy.parts import Conflict, Items, PolicyPart, find_repeated
from schemas.policy.windows import WeeklyWindow, Windows, opens_after_ms

_ONE_ENTRY = "expected one entry"


class PoolWindows(PolicyPart):
    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of a pool of `rebalance`; `__default_node_pool__`: nodes of no other pool."""
    windows: Windows = ()
    """When pods of its nodes may be evicted."""


class NamespaceWindows(PolicyPart):
    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the namespace."""
    windows: Windows = ()
    """When its pods may be evicted."""


class MaintenanceArgs(PolicyPart):
    """When evictions may happen."""

    windows: Windows = ()
    """When any pod may be evicted; none: always."""
    pools: Items[PoolWindows] = ()
    """Windows of single pools of nodes."""
    namespaces: Items[NamespaceWindows] = ()
    """Windows of single namespaces."""

    def conflicts(self) -> Iterable[Conflict]:
        yield from find_repeated("pools", [pool.name for pool in self.pools], _ONE_ENTRY)
        yield from find_repeated(
            "namespaces", [entry.name for entry in self.namespaces], _ONE_ENTRY
        )

    def find_unknown_pools(self, pools: Sequence[str]) -> Iterator[Conflict]:
        """Yield a conflict for each entry whose pool the policy does not have."""
        for index, entry in enumerate(self.pools):
            if entry.name not in pools:
                message = f"found {entry.name!r}; the pools are {', '.join(map(repr, pools))}"
                reads = ("maintenance", "rebalance", "compat")
                yield Conflict(("maintenance", "pools", index, "name"), message, reads)

    @cached_property
    def _of_pool(self) -> dict[str, tuple[WeeklyWindow, ...]]:
        return {pool.name: pool.windows for pool in self.pools}

    @cached_property
    def _of_namespace(self) -> dict[str, tuple[WeeklyWindow, ...]]:
        return {entry.name: entry.windows for entry in self.namespaces}

    @cached_property
    def _is_always_open(self) -> bool:
        lists = (self.windows, *self._of_pool.values(), *self._of_namespace.values())
        return not any(lists)

    def explain_closed(self, pool: str, namespace: str, at_ms: int) -> str | None:
        """Return why a pod may not be evicted at this time; None: it may."""
        if self._is_always_open:
            return None
        lists = (
            ("the policy", self.windows),
            (f"pool {pool}", self._of_pool.get(pool, ())),
            (f"namespace {namespace}", self._of_namespace.get(namespace, ())),
        )
        for whose, windows in lists:
            wait_ms = opens_after_ms(windows, at_ms)
            if wait_ms:
                named = "; ".join(map(str, windows[:2])) + ("; ..." if len(windows) > 2 else "")
                wait = format_duration_ms(wait_ms)
                return f"outside of the maintenance windows of {whose} ({named}); opens in {wait}"
        return None
