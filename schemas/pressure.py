"""How much of the time tasks of a node waited for a resource, as the kernel keeps it (PSI).

Usage says how busy a node is, pressure whether that hurts: a node at 100 % CPU without anyone who
waits is well used. Shares are in basis points, a hundredth of a percent, which is what the kernel
prints.
"""

from typing import Annotated

from pydantic import Field

from schemas.base import Count, Part, published

_Share = Annotated[int, Field(ge=0, le=10_000, json_schema_extra=published(unit="1/10000"))]


class Stalled(Part):
    """Share of the time in which tasks waited, as exponential averages."""

    avg10_bp: _Share
    """Share of the last 10 seconds."""
    avg60_bp: _Share
    """Share of the last 60 seconds."""
    avg300_bp: _Share
    """Share of the last 300 seconds."""
    total_us: Annotated[Count, Field(json_schema_extra=published(unit="us"))] | None = None
    """Time since the machine started; two of them give the exact share of the time between."""


class ResourcePressure(Part):
    """Pressure on one resource."""

    some: Stalled
    """At least one task waited."""
    full: Stalled | None = None
    """All tasks that could have run waited; none: it has no meaning, as for the CPU of a node."""


class Pressure(Part):
    """Pressure on the resources of a node; one that is missing was not measured."""

    cpu: ResourcePressure | None = None
    """Tasks that could run and had no CPU."""
    memory: ResourcePressure | None = None
    """Tasks that waited for memory: for reclaim, swap, or pages that were dropped."""
    io: ResourcePressure | None = None
    """Tasks that waited for a disk."""
