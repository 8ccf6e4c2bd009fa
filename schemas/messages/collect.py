"""The collect policy of a cluster, as the cluster stage sends it to the aggregate stage.

A policy arrives in one partition, while samples of the cluster's nodes are in all partitions of
`node-usage`. Therefore the cluster stage writes the collect part of a policy into each of these
partitions, between the samples. It applies to all later samples of the cluster. It is written again
from time to time, in case a partition has lost it.

The key is that of a node that does not exist: cluster, slash, and a name with a number that makes the
key hash to the partition. So the key determines the partition, as in all topics.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Count, DurationMs, Message, Part, published
from schemas.messages.decisions import AsOf

#: Most percentile windows per node.
WINDOWS_MAX = 8
#: Most pools in one record.
POOLS_MAX = 1_024

_PoolName = Annotated[str, Field(min_length=1, max_length=253)]
MemoryCollectPolicy = Literal["usageWithoutPageCache", "usageWithPageCache"]


class NodeCollectPolicy(Part):
    """How the samples of a node become its metric."""

    average_ms: DurationMs
    """Length of the average window."""
    report_ms: DurationMs
    """Time between two reports, by the times of the samples."""
    durations_ms: Annotated[
        tuple[DurationMs, ...],
        Field(max_length=WINDOWS_MAX, fail_fast=True, json_schema_extra=published(unit="ms")),
    ]
    """Lengths of the percentile windows."""
    memory: MemoryCollectPolicy
    """Which memory reading of a sample is used."""


class CollectPolicyRecord(Message):
    """How the following samples of a cluster become metrics (key: cluster/collect-policy-number)."""

    kind: Literal["collect-policy"] = "collect-policy"
    """Kind of the record."""
    cluster: ClusterName
    number: Count = 0
    """Number in the key, which makes the key hash to the partition."""
    default: NodeCollectPolicy
    """The policy of nodes without a pool, or whose pool is not listed."""
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
