"""`node-usage`: usage samples of nodes, and collect policies between them.

One sample covers the whole node: its total, its system part, host applications and pods. The values
are readings at an instant, or means over `interval_ms` before `sampled_at_ms`. Memory can have several
readings (with and without page cache). The collect policy of the node's pool chooses a reading; if a
sample lacks it, `usage["memory"]` is used. A missing value is unknown and not zero.

A cluster's policy arrives in one partition, while samples of its nodes are in all partitions of
`node-usage`. Therefore the cluster stage writes the collect part of the policy into each of these
partitions, and repeats the record from time to time, in case a partition has lost it. A record applies to
all later samples of the cluster. Its key has the form of a sample's key with a node that does not exist:
`collect-policy-NUMBER`, with a number for which the key hashes to the partition.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    AMOUNT_MAX,
    AMOUNTS_UNIT,
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
    SourceName,
    Uid,
    published,
)
from schemas.messages.decisions import AsOf

#: Most pods per sample; the kubelet's default limit is 110.
PODS_PER_SAMPLE_MAX = 2_000
HOST_APPLICATIONS_PER_SAMPLE_MAX = 256

_Bytes = Annotated[int, Field(ge=0, le=AMOUNT_MAX, json_schema_extra=published(unit="bytes"))]
_Amounts = Annotated[ByResource[Annotated[int, Field(ge=0, le=AMOUNT_MAX)]], AMOUNTS_UNIT]
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
    usage: _Amounts
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
    usage: _Amounts
    """Usage of all its processes together."""
    memory: MemoryReadings | None = None
    """Other readings of the application's memory."""
    priority_class: _Class = ""
    """Class of the application, as for pods."""


class NodeFacts(Part):
    """Facts about a node and its measurement; a metric has the facts of its newest sample."""

    memory_is: MemoryDefinition | None = None
    """What memory figures include; none: unknown."""
    source: SourceName | None = None
    """Source that measured the node, to which other sources may have added missing values; none:
    unknown."""


class NodeUsage(ClusterMessage, NodeFacts):
    """One usage sample of one node (key: cluster/node)."""

    record_time: ClassVar = "sampled_at_ms"

    node: NodeName
    pool: ObjectName | None = None
    """Pool of the node, which determines its collect policy; none: the default policy."""
    sampled_at_ms: EpochMs
    """Time of the sample, or end of the interval."""
    interval_ms: DurationMs = 0
    """Length of the interval that values are means of; 0: values of an instant."""
    usage: _Amounts
    """Usage of the whole node, including everything on it."""
    memory: MemoryReadings | None = None
    """Other readings of the node's memory."""
    system_usage: _Amounts | None = None
    """Usage of the system part; none: computed as node minus pods minus host applications, at least
    0."""
    pods: Annotated[Entries[PodUsage], Field(max_length=PODS_PER_SAMPLE_MAX)] = ()
    """Usage of each pod on the node."""
    host_applications: Annotated[
        Entries[HostApplicationUsage], Field(max_length=HOST_APPLICATIONS_PER_SAMPLE_MAX)
    ] = ()
    """Usage of known applications outside of Kubernetes."""
    capacity: ResourceAmounts | None = None
    """Capacity of the node; a sample above 105 % of it is refused. None: unknown."""
    node_created_at_ms: EpochMs | None = None
    """When the node joined the cluster: earlier samples belong to another node of the same name.
    None: unknown."""


#: Most percentile windows per node.
WINDOWS_MAX = 8
#: Most pools in one record.
POOLS_MAX = 1_024

_PoolName = Annotated[str, Field(min_length=1, max_length=253)]
MemoryCollectPolicy = Literal["usageWithoutPageCache", "usageWithPageCache"]
_MEMORY_FIELDS: dict[MemoryCollectPolicy, str] = {
    "usageWithoutPageCache": "usage_without_page_cache_bytes",
    "usageWithPageCache": "usage_with_page_cache_bytes",
}


class NodeCollectPolicy(Part):
    """How the samples of a node become its metric."""

    average_ms: DurationMs
    """Length of the average window."""
    report_ms: DurationMs
    """Time between two reports, by the times of the samples."""
    durations_ms: Annotated[Entries[DurationMs], Field(max_length=WINDOWS_MAX)]
    """Lengths of the percentile windows."""
    memory: MemoryCollectPolicy
    """The memory reading of a sample that is used."""

    @property
    def memory_field(self) -> str:
        """Field of `MemoryReadings` that has this reading."""
        return _MEMORY_FIELDS[self.memory]


class CollectPolicyRecord(ClusterMessage):
    """How the following samples of a cluster become metrics (key: cluster/collect-policy-number)."""

    kind: Literal["collect-policy"] = "collect-policy"
    """Kind of the record."""
    number: Count = 0
    """Number in the key, which makes the key hash to the partition."""
    default: NodeCollectPolicy
    """The policy of nodes without a pool, or with a pool that is not listed."""
    pools: Annotated[
        dict[_PoolName, NodeCollectPolicy], Field(max_length=POOLS_MAX, fail_fast=True)
    ] = Field(default_factory=dict)
    """Policies by pool, as named in samples."""
    as_of: AsOf
    """The state from which the policy was sent."""

    @property
    def node(self) -> str:
        """The part of the key that is the node name in keys of samples."""
        return key_node(self.number)


def key_node(number: int) -> str:
    return f"collect-policy-{number}"
