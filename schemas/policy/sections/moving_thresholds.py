"""`movingThresholds`: thresholds that depend on the time of the week. An addition of loadstream.

    movingThresholds:
      filter:
        windows: [{from: "00:00", to: "06:00", utcOffset: "+08:00", usageThresholds: {cpu: 80}}]
      hotspots:
        - pool: web
          windows: [{from: "00:00", to: "06:00", utcOffset: "+08:00", highThresholds: {cpu: 85}}]

The first open window replaces the configured threshold of the same resource. The annotation of a node
overrides both.

While a window with `evictWithoutTarget` is open, batch and free pods of a hot node may be evicted
without a target.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from pydantic import Field

from schemas.policy.parts import (
    Conflict,
    Int64,
    Items,
    Percent,
    PolicyPart,
    ResourceMap,
    get_alias,
    is_false,
)
from schemas.policy.sections.load_aware import LoadAwareSchedulingArgs
from schemas.policy.sections.rebalance import (
    THRESHOLD_MAPS,
    UPPER_BOUNDS,
    Compat,
    LowNodeLoadArgs,
    NodePool,
    Thresholds,
)
from schemas.policy.windows import WINDOWS_MAX, WeeklyWindow


class FilterWindow(WeeklyWindow):
    """Thresholds of the load-aware filter at a time of the week."""

    usage_thresholds: ResourceMap[Percent] = Field(default_factory=dict)
    """Replaces `loadAware.usageThresholds`."""
    prod_usage_thresholds: ResourceMap[Int64] = Field(default_factory=dict)
    """Replaces `loadAware.prodUsageThresholds`."""
    aggregated_usage_thresholds: ResourceMap[Percent] = Field(default_factory=dict)
    """Replaces `loadAware.aggregated.usageThresholds`."""


class HotspotWindow(WeeklyWindow):
    """Thresholds of rebalancing at a time of the week; for deviation thresholds, distances from the
    mean."""

    high_thresholds: Thresholds = Field(default_factory=dict)
    """Replaces the high thresholds of the pool."""
    low_thresholds: Thresholds = Field(default_factory=dict)
    """Replaces its low thresholds."""
    prod_high_thresholds: Thresholds = Field(default_factory=dict)
    """Replaces its high thresholds for prod pods."""
    prod_low_thresholds: Thresholds = Field(default_factory=dict)
    """Replaces its low thresholds for prod pods."""
    evict_without_target: Annotated[bool, Field(exclude_if=is_false)] = False
    """While the window is open, batch and free pods of a hot node are evicted even if no target
    accepts them."""


class MovingFilter(PolicyPart):
    """Moving thresholds of the load-aware filter."""

    windows: Annotated[Items[FilterWindow], Field(max_length=WINDOWS_MAX)] = ()
    """Windows with thresholds; the first open window counts."""


class MovingHotspots(PolicyPart):
    """Moving thresholds of rebalancing in one pool, or in all pools without an entry."""

    pool: Annotated[str, Field(max_length=253)] = ""
    """Name of the pool; none: all pools without an entry."""
    windows: Annotated[Items[HotspotWindow], Field(max_length=WINDOWS_MAX)] = ()
    """Windows with thresholds; the first open window counts."""


class MovingThresholds(PolicyPart):
    filter: MovingFilter | None = None
    """Thresholds of the load filter."""
    hotspots: Items[MovingHotspots] = ()
    """Thresholds of rebalancing, by pool."""

    def conflicts(self) -> Iterable[Conflict]:
        pools = [entry.pool for entry in self.hotspots]
        for index, pool in enumerate(pools):
            if pool in pools[:index]:
                message = f"pool {pool!r} has an entry already"
                yield Conflict(("hotspots", index, "pool"), message, ("hotspots",))

    def of_pool(self, name: str) -> MovingHotspots | None:
        """Return the entry that applies to a pool."""
        pool_entry = next((entry for entry in self.hotspots if entry.pool == name), None)
        return pool_entry or next((entry for entry in self.hotspots if not entry.pool), None)


_READS = ("movingThresholds", "loadAware", "rebalance", "compat")


def find_moving_conflicts(
    moving: MovingThresholds,
    load_aware: LoadAwareSchedulingArgs,
    rebalance: LowNodeLoadArgs,
    compat: Compat,
) -> Iterator[Conflict]:
    """Yield moving thresholds that do not match the configured thresholds they replace."""
    if moving.filter is not None:
        yield from _filter_conflicts(moving.filter, load_aware)
    if moving.hotspots and compat == "koordinator":
        message = "not allowed with compat: koordinator, whose thresholds do not move"
        yield Conflict(("movingThresholds", "hotspots"), message, _READS)
        return
    pools = rebalance.pools(compat)
    entries = [moving.of_pool(pool.name) for pool in pools]
    names = [pool.name for pool in pools]
    for index, entry in enumerate(moving.hotspots):
        at = ("movingThresholds", "hotspots", index)
        if entry.pool and entry.pool not in names:
            message = f"found {entry.pool!r}; the pools are {', '.join(map(repr, names))}"
            yield Conflict((*at, "pool"), message, _READS)
        for pool, applied in zip(pools, entries, strict=True):
            if applied is entry:
                yield from _pool_conflicts(entry, pool, at)


def _filter_conflicts(
    moving: MovingFilter, load_aware: LoadAwareSchedulingArgs
) -> Iterator[Conflict]:
    at = ("movingThresholds", "filter")
    aggregated = load_aware.aggregated
    configured: dict[str, Mapping[str, object]] = {
        "usage_thresholds": load_aware.usage_thresholds,
        "prod_usage_thresholds": load_aware.prod_usage_thresholds,
        "aggregated_usage_thresholds": aggregated.usage_thresholds
        if aggregated is not None and aggregated.filters
        else {},
    }
    for index, window in enumerate(moving.windows):
        for field, thresholds in configured.items():
            yield from _find_unconfigured(window, field, thresholds, (*at, "windows", index))


def _pool_conflicts(
    entry: MovingHotspots, pool: NodePool, at: tuple[str | int, ...]
) -> Iterator[Conflict]:
    fields = THRESHOLD_MAPS
    configured = {field: getattr(pool, field) or {} for field in fields}
    for index, window in enumerate(entry.windows):
        here = (*at, "windows", index)
        for field in fields:
            yield from _find_unconfigured(window, field, configured[field], here)
        merged = {field: {**configured[field], **getattr(window, field)} for field in fields}
        for low, high in UPPER_BOUNDS.items():
            for resource, percent in merged[low].items():
                if percent > merged[high].get(resource, percent):
                    message = (
                        f"in pool {pool.name!r}, {get_alias(HotspotWindow, low)} of {resource!r} would be {percent:g}, "
                        f"more than {get_alias(HotspotWindow, high)} ({merged[high][resource]:g})"
                    )
                    yield Conflict(here, message, _READS)


def _find_unconfigured(
    part: PolicyPart, field: str, configured: Mapping[str, object], at: tuple[str | int, ...]
) -> Iterator[Conflict]:
    """Yield resources without a configured threshold."""
    for resource in getattr(part, field):
        if resource not in configured:
            names = ", ".join(sorted(configured)) or "none"
            message = f"{resource!r} has no configured threshold to replace; configured: {names}"
            yield Conflict((*at, get_alias(type(part), field), resource), message, _READS)
