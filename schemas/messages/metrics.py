"""`node-metrics`: averages and percentiles of a node, as the aggregate stage emits them.

The shape follows Koordinator's NodeMetric, whose objects are aggregates already and may be written
to this topic as they are. `updated_at_ms` is the time of the newest sample behind the figures,
never the time of emission, so a backlog never looks fresh. `usage` absent means that nothing is
known.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ClusterName,
    Count,
    DurationMs,
    EpochMs,
    Message,
    NodeName,
    ObjectName,
    Part,
    ResourceAmounts,
    ResourceName,
    SourceName,
    published,
)
from schemas.messages.usage import MemoryDefinition, Pressure

AggregationType = Literal["avg", "p50", "p90", "p95", "p99"]
AGGREGATION_TYPES: tuple[AggregationType, ...] = ("avg", "p50", "p90", "p95", "p99")

PODS_PER_METRIC_MAX = 2_000
AGGREGATES_PER_METRIC_MAX = 64


class AggregatedUsage(Part):
    """Figures over one duration; an aggregation type that is missing or empty was not measured."""

    duration_ms: DurationMs
    """Length of time that the figures are over."""
    usage: Annotated[dict[AggregationType, ResourceAmounts], Field(fail_fast=True)]
    """Amounts per kind of figure: the mean and nearest-rank percentiles."""


_LifetimeFigures = Annotated[
    dict[
        ResourceName,
        Annotated[
            tuple[Annotated[int, Field(ge=-1, le=INT64_MAX)], ...],
            Field(max_length=PODS_PER_METRIC_MAX, fail_fast=True),
        ],
    ],
    Field(
        max_length=64,
        fail_fast=True,
        json_schema_extra=published(
            unit="cpu: millicores; every other resource: its base unit (bytes, pieces)"
        ),
    ),
]


class PodLifetimes(Part):
    """Usage of pods over their lifetimes, of which the last week counts. Each column has one entry for
    each of the metric's `pods`, in their order; a metric with a column of another length is refused."""

    minutes: Annotated[tuple[Count, ...], Field(max_length=PODS_PER_METRIC_MAX, fail_fast=True)]
    """For how many minutes each has been measured; 0: its lifetime is not reported."""
    mean: _LifetimeFigures
    """Mean usage, by resource; -1: not measured."""
    deviation: _LifetimeFigures
    """Standard deviation of its samples, by resource; -1: not measured."""


class PodMetric(Part):
    """Average usage of one pod and the class by which the node's agent knows it."""

    namespace: ObjectName
    """Namespace of the pod."""
    name: ObjectName
    """Name of the pod."""
    usage: ResourceAmounts
    """Mean usage of the pod; empty: not measured."""
    priority_class: Annotated[str, Field(max_length=253)] = ""
    """Class that the node's agent knows the pod by: koord-prod, koord-mid, koord-batch, koord-free."""


class HostApplicationMetric(Part):
    """Average usage of one process outside of Kubernetes."""

    name: ObjectName
    """Name of the application, unique on its node."""
    usage: ResourceAmounts
    """Mean usage of the application."""
    priority_class: Annotated[str, Field(max_length=253)] = ""
    """Class of the application, as for pods."""


_Aggregates = Annotated[
    tuple[AggregatedUsage, ...], Field(max_length=AGGREGATES_PER_METRIC_MAX, fail_fast=True)
]


class NodeMetric(Message):
    """Aggregated usage of one node (key: cluster)."""

    cluster: ClusterName
    node: NodeName
    removed: bool = False
    """The node's metric is gone (a deleted NodeMetric object): the node is unknown from now on."""
    updated_at_ms: EpochMs | None = None
    """Time of the newest sample behind the figures."""
    report_interval_ms: DurationMs | None = None
    """How often figures are reported; none: 60 s. 0 is a real value."""
    usage: ResourceAmounts | None = None
    """Mean usage of the whole node; none: nothing is known of the node."""
    system_usage: ResourceAmounts = Field(default_factory=dict)
    """Mean usage of what is neither pod nor host application."""
    aggregated: _Aggregates = ()
    """Figures of the whole node, one entry a duration."""
    aggregated_system: _Aggregates = ()
    """Figures of the system part, one entry a duration."""
    pods: Annotated[
        tuple[PodMetric, ...], Field(max_length=PODS_PER_METRIC_MAX, fail_fast=True)
    ] = ()
    """Mean usage of each pod."""
    lifetimes: PodLifetimes | None = None
    """Usage of each pod over its lifetime, once per window; none: not reported this time."""
    host_applications: Annotated[
        tuple[HostApplicationMetric, ...], Field(max_length=256, fail_fast=True)
    ] = ()
    """Mean usage of each process outside of Kubernetes that is known by name."""
    samples: Count = 0
    """How many samples stand behind the average window; 0: not said."""
    pressure: Pressure | None = None
    """Pressure on the node as its newest sample has it, without totals; none: not measured."""
    memory_is: MemoryDefinition | None = None
    """What figures of memory count in the newest sample, or in the aggregate; none: not said."""
    source: SourceName | None = None
    """What measured the newest sample, or the aggregate; none: not said."""
