"""Rows of usage statistics: of each pod over its lifetime, and of all pods of a cluster.

Means and deviations are integers in thousandths of the resource's unit (of a millicore, of a byte),
so sums do not depend on the order of their terms.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.base.message import (
    INT64_MAX,
    ByResource,
    ClusterMessage,
    Count,
    Entries,
    EpochMs,
    NodeName,
    Part,
    Uid,
)

_Counts = Entries[Count]
_Figures = Entries[Annotated[int, Field(ge=-1, le=INT64_MAX)]]


class UsageColumns(Part):
    """Usage of one resource, one entry per pod; the last entry is the node's system part."""

    mean: _Figures
    """Mean usage, in thousandths of the unit; -1: not measured."""
    deviation: _Figures
    """Standard deviation, in thousandths of the unit; -1: not measured."""
    recent: _Figures = ()
    """Exponential average over `recentMinutes`, in thousandths of the unit. Empty, like the next
    two, if the policy does not use it or no metric has arrived."""
    recent_root: _Counts = ()
    """Root of the mean square of recent usage beyond the mean, in thousandths of the unit."""
    lasting_ppm: _Counts = ()
    """How much of the usage beyond the mean persists into the next window, in millionths."""


class PodUsageRow(ClusterMessage):
    """Kind `pod_usage`: usage of the pods of one node, and its system part, over their lifetimes."""

    node: NodeName
    extended_at_ms: EpochMs
    """Update time of the last metric that extended the lifetimes."""
    whole: bool = False
    """True: that metric had the usage of the node and no pods, so the system part is the whole
    node."""
    reported: bool = False
    """True: that metric had lifetime usage of pods."""
    uids: Entries[Uid] = ()
    """The pods, in ascending order of their uids."""
    minutes: _Counts
    """Measured minutes of each pod, then of the system part."""
    usage: ByResource[UsageColumns]
    """Usage by resource."""

    @model_validator(mode="after")
    def _check_column_lengths(self) -> Self:
        entries = len(self.minutes)
        if entries - len(self.uids) not in (0, 1):
            raise ValueError(
                f"minutes has {entries} entries for {len(self.uids)} pods; expected one per pod and "
                "at most one more for the system part"
            )
        # All resources have recent usage, or none has it.
        recent_entries = entries if any(columns.recent for columns in self.usage.values()) else 0
        for name, columns in self.usage.items():
            for field, column in columns:
                expected = entries if field in ("mean", "deviation") else recent_entries
                if len(column) != expected:
                    raise ValueError(
                        f"{field} of {name} has {len(column)} entries; expected {expected}"
                    )
        return self


class FleetFigures(Part):
    """Usage of a cluster's pods as a share of their requests of one resource, in millionths."""

    usage_ppm: Count
    """Mean usage as a share of the request; each pod has the same weight."""
    variance_ppm: Count
    """Mean variance of a pod's usage, as a share of its squared request."""
    spread_ppm: Count
    """Variance among pods of their mean usage as a share of the request."""


class FleetUsageRow(ClusterMessage):
    """Kind `fleet_usage`: expected usage of pods that are not measured yet."""

    renewed_at_ms: EpochMs
    """Log time at which the figures were computed."""
    resources: ByResource[FleetFigures]
    """Figures by resource."""
