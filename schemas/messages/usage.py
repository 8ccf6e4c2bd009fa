"""`node-usage`: usage of a node and of everything on it, as measured by a producer.

One sample covers the whole node: its total, its system part, host applications and pods. The values
are those of an instant, or means over `interval_ms` before `sampled_at_ms`. Memory can have several
readings (with and without page cache). The collect policy of the node's pool chooses one; if a sample
lacks it, `usage["memory"]` is used. A missing value is unknown and not zero.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ClusterName,
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

#: Most pods per sample; the kubelet's default limit is 110.
PODS_PER_SAMPLE_MAX = 2_000
HOST_APPLICATIONS_PER_SAMPLE_MAX = 256

_Bytes = Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="bytes"))]
_Class = Annotated[str, Field(max_length=253)]


#: What a memory figure includes: the working set (everything except inactive page cache), memory that is
#: not available (`MemTotal` minus `MemAvailable`), anonymous memory only, or everything with page cache.
MemoryDefinition = Literal["workingSet", "notAvailable", "anonymous", "withPageCache"]


class MemoryReadings(Part):
    """The same memory with and without page cache; names as in Koordinator's collect policy."""

    usage_without_page_cache_bytes: _Bytes | None = None
    """Anonymous memory only (collect policy usageWithoutPageCache)."""
    usage_with_page_cache_bytes: _Bytes | None = None
    """With all page cache (collect policy usageWithPageCache)."""


class PodUsage(Part):
    """Usage of one pod."""

    namespace: ObjectName
    """Namespace of the pod."""
    name: ObjectName
    """Name of the pod."""
    uid: Uid
    usage: ResourceAmounts
    """Usage of all containers together."""
    memory: MemoryReadings | None = None
    """Other readings of the pod's memory."""
    priority_class: _Class = ""
    """Class of the pod as the node's agent reports it: koord-prod, koord-mid, koord-batch, koord-
    free."""


class HostApplicationUsage(Part):
    """Usage of an application outside of Kubernetes."""

    name: ObjectName
    """Name of the application, unique on its node."""
    usage: ResourceAmounts
    """Usage of all its processes together."""
    memory: MemoryReadings | None = None
    """Other readings of the application's memory."""
    priority_class: _Class = ""
    """Class of the application, as for pods."""


class NodeUsage(Message):
    """One usage sample of one node (key: cluster/node)."""

    cluster: ClusterName
    node: NodeName
    pool: ObjectName | None = None
    """Pool of the node, which determines its collect policy; none: the default policy."""
    sampled_at_ms: EpochMs
    """Time of the sample, or end of the interval."""
    interval_ms: DurationMs = 0
    """Length of the interval that values are means of; 0: values of an instant."""
    usage: ResourceAmounts
    """Usage of the whole node, including everything on it."""
    memory: MemoryReadings | None = None
    """Other readings of the node's memory."""
    memory_is: MemoryDefinition | None = None
    """What `usage["memory"]` includes; none: unknown."""
    system_usage: ResourceAmounts | None = None
    """Usage of the system part; none: computed as node minus pods minus host applications, at least
    0."""
    pods: Annotated[
        tuple[PodUsage, ...], Field(max_length=PODS_PER_SAMPLE_MAX, fail_fast=True)
    ] = ()
    """Usage of each pod on the node."""
    host_applications: Annotated[
        tuple[HostApplicationUsage, ...],
        Field(max_length=HOST_APPLICATIONS_PER_SAMPLE_MAX, fail_fast=True),
    ] = ()
    """Usage of known applications outside of Kubernetes."""
    capacity: ResourceAmounts | None = None
    """Capacity of the node; a sample above 105 % of it is refused. None: unknown."""
    node_created_at_ms: EpochMs | None = None
    """When the node joined the cluster: earlier samples belong to another node of the same name.

    None: unknown.
    """
    source: SourceName | None = None
    """Source that measured the node; other sources may have added missing values."""
