"""`node-usage`: what a node and everything on it used, as a producer measured it.

One sample carries the whole node: its own total, its system part, host applications and each pod. A
sample either holds for an instant or is the mean over `interval_ms` before `sampled_at_ms`. Memory
may be given in several readings (with and without page cache); the collect policy of the node's
pool picks one of them, and where the picked reading is missing the plain `usage["memory"]` stands.
What is not there is unknown, never zero.
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
    SourceName,
    Uid,
    published,
)

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


#: Most pods that one sample may carry; the kubelet's own limit is 110 by default.
PODS_PER_SAMPLE_MAX = 2_000
HOST_APPLICATIONS_PER_SAMPLE_MAX = 256

_Bytes = Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="bytes"))]
_Class = Annotated[str, Field(max_length=253)]


#: What a figure of memory counts: the working set (all but inactive page cache), what is not available
#: (`MemTotal` less `MemAvailable`), anonymous memory alone, or all with page cache.
MemoryDefinition = Literal["workingSet", "notAvailable", "anonymous", "withPageCache"]


class MemoryReadings(Part):
    """The same memory with and without page cache; names as in Koordinator's collect policy."""

    usage_without_page_cache_bytes: _Bytes | None = None
    """Anonymous memory alone (collect policy usageWithoutPageCache)."""
    usage_with_page_cache_bytes: _Bytes | None = None
    """With all page cache (collect policy usageWithPageCache)."""


class PodUsage(Part):
    """What one pod used."""

    namespace: ObjectName
    """Namespace of the pod."""
    name: ObjectName
    """Name of the pod."""
    uid: Uid
    usage: ResourceAmounts
    """What all its containers used together."""
    memory: MemoryReadings | None = None
    """Other readings of the pod's memory."""
    priority_class: _Class = ""
    """Class that the node's agent knows the pod by: koord-prod, koord-mid, koord-batch, koord-free."""


class HostApplicationUsage(Part):
    """What a process outside of Kubernetes used."""

    name: ObjectName
    """Name of the application, unique on its node."""
    usage: ResourceAmounts
    """What its processes used together."""
    memory: MemoryReadings | None = None
    """Other readings of the application's memory."""
    priority_class: _Class = ""
    """Class of the application, as for pods."""


class NodeUsage(Message):
    """One usage sample of one node (key: cluster/node)."""

    cluster: ClusterName
    node: NodeName
    pool: ObjectName | None = None
    """Pool of the node, which names its collect policy; none: the default policy."""
    sampled_at_ms: EpochMs
    """When the sample was taken; with an interval: its end."""
    interval_ms: DurationMs = 0
    """Length of time over which the figures are the mean; 0: they hold for an instant."""
    usage: ResourceAmounts
    """What the whole node used, everything on it included."""
    memory: MemoryReadings | None = None
    """Other readings of the node's memory."""
    memory_is: MemoryDefinition | None = None
    """What `usage["memory"]` counts; none: not said."""
    system_usage: ResourceAmounts | None = None
    """The system part; none: computed as node minus pods minus host applications, at least 0."""
    pods: Annotated[
        tuple[PodUsage, ...], Field(max_length=PODS_PER_SAMPLE_MAX, fail_fast=True)
    ] = ()
    """What each pod on the node used."""
    host_applications: Annotated[
        tuple[HostApplicationUsage, ...],
        Field(max_length=HOST_APPLICATIONS_PER_SAMPLE_MAX, fail_fast=True),
    ] = ()
    """What processes outside of Kubernetes used that are known by name."""
    pressure: Pressure | None = None
    """How much of the time tasks of the node waited; none: not measured."""
    capacity: ResourceAmounts | None = None
    """What the node has; a sample with more than 105 % of it is refused. None: not known."""
    node_created_at_ms: EpochMs | None = None
    """When the node was added to the cluster: earlier samples are of another node of its name. None:
    not known."""
    source: SourceName | None = None
    """What measured the node; what it lacked may have been filled in by another source."""
