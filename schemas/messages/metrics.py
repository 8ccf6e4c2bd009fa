"""`node-metrics`: averages and percentiles of a node, from the aggregate stage.

The fields follow Koordinator's NodeMetric objects, which are aggregates already and can be written to
this topic directly. `updated_at_ms` is the time of the newest sample and not of the emission, so a
backlog does not look fresh. Without `usage`, the usage of the node is unknown.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    AMOUNTS_UNIT,
    INT64_MAX,
    ByResource,
    ClusterMessage,
    Count,
    DurationMs,
    Entries,
    EpochMs,
    NodeName,
    ObjectName,
    Part,
    ResourceAmounts,
)
from schemas.messages.usage import NodeFacts

AggregationType = Literal["avg", "p50", "p90", "p95", "p99"]
AGGREGATION_TYPES: tuple[AggregationType, ...] = ("avg", "p50", "p90", "p95", "p99")

PODS_PER_METRIC_MAX = 2_000
AGGREGATES_PER_METRIC_MAX = 64


class AggregatedUsage(Part):
    """Statistics over one window; a type that is missing or empty was not measured."""

    duration_ms: DurationMs
    """Length of the window."""
    usage: Annotated[dict[AggregationType, ResourceAmounts], Field(fail_fast=True)]
    """Amounts per statistic: the mean and nearest-rank percentiles."""


_Column = Annotated[
    Entries[Annotated[int, Field(ge=-1, le=INT64_MAX)]], Field(max_length=PODS_PER_METRIC_MAX)
]
_LifetimeFigures = Annotated[ByResource[_Column], AMOUNTS_UNIT]


class PodLifetimes(Part):
    """Usage of pods over their lifetimes, at most the last week.

    Each column has one entry per pod of the metric, in the same order; a metric with a column of
    another length is refused.
    """

    minutes: Annotated[Entries[Count], Field(max_length=PODS_PER_METRIC_MAX)]
    """Measured minutes of each pod; 0: its lifetime usage is not reported."""
    mean: _LifetimeFigures
    """Mean usage, by resource; -1: not measured."""
    deviation: _LifetimeFigures
    """Standard deviation of the usage, by resource; -1: not measured."""


class PodMetric(Part):
    """Average usage of one pod."""

    namespace: ObjectName
    """Namespace of the pod."""
    name: ObjectName
    """Name of the pod."""
    usage: ResourceAmounts
    """Mean usage of the pod; empty: not measured."""
    priority_class: Annotated[str, Field(max_length=253)] = ""
    """Class of the pod as the node's agent reports it: koord-prod, koord-mid, koord-batch, koord-
    free."""


class HostApplicationMetric(Part):
    """Average usage of one process outside of Kubernetes."""

    name: ObjectName
    """Name of the application, unique on its node."""
    usage: ResourceAmounts
    """Mean usage of the application."""
    priority_class: Annotated[str, Field(max_length=253)] = ""
    """Class of the application, as for pods."""


_Aggregates = Annotated[Entries[AggregatedUsage], Field(max_length=AGGREGATES_PER_METRIC_MAX)]


class NodeMetric(ClusterMessage, NodeFacts):
    """Aggregated usage of one node (key: cluster)."""

    record_time: ClassVar = "updated_at_ms"

    node: NodeName
    removed: bool = False
    """The node's metric was deleted (a NodeMetric object): its usage is unknown from now on."""
    updated_at_ms: EpochMs | None = None
    """Time of the newest sample in the metric."""
    report_interval_ms: DurationMs | None = None
    """Time between two reports; none: 60 s; 0 is a valid value."""
    usage: ResourceAmounts | None = None
    """Mean usage of the whole node; none: unknown."""
    system_usage: ResourceAmounts = Field(default_factory=dict)
    """Mean usage of the system part: everything except pods and host applications."""
    aggregated: _Aggregates = ()
    """Statistics of the whole node, one entry per window."""
    aggregated_system: _Aggregates = ()
    """Statistics of the system part, one entry per window."""
    pods: Annotated[Entries[PodMetric], Field(max_length=PODS_PER_METRIC_MAX)] = ()
    """Mean usage of each pod."""
    lifetimes: PodLifetimes | None = None
    """Usage of each pod over its lifetime, once per window; none: not in this metric."""
    host_applications: Annotated[Entries[HostApplicationMetric], Field(max_length=256)] = ()
    """Mean usage of each known process outside of Kubernetes."""
    samples: Count = 0
    """Number of samples in the average window; 0: unknown."""
