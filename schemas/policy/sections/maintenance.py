"""`maintenance`: the times of the week at which pods may be evicted, for all, by pool and by
namespace.

Each list that names windows must have one open: a pod of namespace `shop` on a node of pool `web`
is evicted only while the windows of the policy, of `web` and of `shop` are. A list without windows
is always open. The time is the log's, so a replay opens and closes the same windows.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from schemas.policy.durations import format_duration_ms
from schemas.policy.parts import Conflict, Items, PolicyPart, repeated
from schemas.policy.windows import WeeklyWindow, Windows, opens_after_ms

_ONCE = "allowed is one entry"


class PoolWindows(PolicyPart):
    """Windows of one pool of nodes."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of a pool of `rebalance`; `__default_node_pool__`: nodes of no other pool."""
    windows: Windows = ()
    """When pods of its nodes may be evicted."""


class NamespaceWindows(PolicyPart):
    """Windows of one namespace."""

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
        """A pool and a namespace have one entry each."""
        yield from repeated("pools", [pool.name for pool in self.pools], _ONCE)
        yield from repeated("namespaces", [each.name for each in self.namespaces], _ONCE)

    def unknown(self, pools: Sequence[str]) -> Iterator[Conflict]:
        """Entries of pools that the policy has not; their windows would hold for no node."""
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
        return {each.name: each.windows for each in self.namespaces}

    @cached_property
    def _always(self) -> bool:
        """No list names a window."""
        lists = (self.windows, *self._of_pool.values(), *self._of_namespace.values())
        return not any(lists)

    def closed(self, pool: str, namespace: str, at_ms: int) -> str | None:
        """Why a pod of a namespace on a node of a pool may not be evicted at a time; None: it may."""
        if self._always:
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
