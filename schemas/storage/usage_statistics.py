"""Rows of usage of pods over their lifetimes, and of what a whole cluster uses of its requests.

Means and deviations are in thousandths of the resource's unit: of a millicore, of a byte. They are
kept as integers, so that sums of them do not depend on the order in which they are added up.
"""

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.base.message import (
    INT64_MAX,
    ClusterName,
    Count,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceName,
    Uid,
)

_Counts = Annotated[tuple[Count, ...], Field(fail_fast=True)]
_Figures = Annotated[tuple[Annotated[int, Field(ge=-1, le=INT64_MAX)], ...], Field(fail_fast=True)]


class UsageColumns(Part):
    """Usage of one resource, one entry a pod; the last entry is the node's system part."""

    mean: _Figures
    """Mean usage, in thousandths of the unit; -1: not measured."""
    deviation: _Figures
    """Standard deviation, in thousandths of the unit; -1: not measured."""
    recent: _Figures = ()
    """Average that forgets within `recentMinutes`, in thousandths of the unit; empty, as are the two
    after it: it is not asked for, or no metric has said it yet."""
    recent_root: _Counts = ()
    """Root of the mean square of what that is beyond the mean, in thousandths of the unit."""
    lasting_ppm: _Counts = ()
    """How much of what is beyond the mean is so in the next window too, in millionths."""

    def asked(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and entries of the columns that must have one a pod."""
        yield "mean", self.mean
        yield "deviation", self.deviation
        if self.recent or self.recent_root or self.lasting_ppm:
            yield "recent", self.recent
            yield "recent_root", self.recent_root
            yield "lasting_ppm", self.lasting_ppm


class PodUsageRow(Message):
    """Kind `pod_usage`: usage of the pods of one node, and its system part, over their lifetimes."""

    cluster: ClusterName
    node: NodeName
    extended_at_ms: EpochMs
    """Update time of the metric that extended the lifetimes last."""
    whole: bool = False
    """That metric said what the node used and named no pod: the system part is the whole node."""
    reported: bool = False
    """That metric had lifetimes of pods."""
    uids: Annotated[tuple[Uid, ...], Field(fail_fast=True)] = ()
    """The pods, in ascending order of their uids."""
    minutes: _Counts
    """For how many minutes each pod, and last the system part, has been measured."""
    usage: Annotated[dict[ResourceName, UsageColumns], Field(max_length=64, fail_fast=True)]
    """Usage by resource."""

    @model_validator(mode="after")
    def _columns_are_of_the_same_pods(self) -> Self:
        entries = len(self.minutes)
        if not len(self.uids) <= entries <= len(self.uids) + 1:
            raise ValueError(
                f"minutes has {entries} entries for {len(self.uids)} pods; expected one a pod, and "
                "at most one more for the system part"
            )
        for name, columns in self.usage.items():
            for field, column in columns.asked():
                if len(column) != entries:
                    raise ValueError(
                        f"{field} of {name} has {len(column)} entries; expected {entries}, as "
                        "minutes has"
                    )
        lately = [name for name, columns in self.usage.items() if columns.recent]
        if lately and len(lately) < len(self.usage):
            without = next(name for name, columns in self.usage.items() if not columns.recent)
            raise ValueError(
                f"recent of {without} is empty, and that of {lately[0]} is not; expected it of all "
                "resources or of none"
            )
        return self


class FleetFigures(Part):
    """What the pods of a cluster use of their requests of one resource, in millionths."""

    usage_ppm: Count
    """Mean usage as a share of the request, with the same weight for each pod."""
    variance_ppm: Count
    """Mean variance of a pod's usage, as a share of its request squared."""
    spread_ppm: Count
    """Variance, among pods, of their mean usage as a share of the request."""


class FleetUsageRow(Message):
    """Kind `fleet_usage`: what pods that nobody has measured yet are expected to use."""

    cluster: ClusterName
    renewed_at_ms: EpochMs
    """The log's time at which the figures were worked out."""
    resources: Annotated[dict[ResourceName, FleetFigures], Field(max_length=64, fail_fast=True)]
    """Figures by resource."""
