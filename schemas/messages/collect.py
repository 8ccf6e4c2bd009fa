"""The collect policy of a cluster, as the cluster stage hands it on to where the cluster's samples
are.

A policy comes in the partition that the cluster hashes to; samples of the cluster's nodes come in
all partitions of `node-usage`. So when a policy is applied, the cluster stage writes what it says
about collecting into each of them, among the samples: from that place of the log on, samples of the
cluster become metrics by it. It is written again once in a while, for partitions that have lost it.

The key is that of a node which does not exist: the cluster, a slash, and a name with a number with
which the key hashes to the partition. So the partition follows from the key, as of every record
there.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Count, DurationMs, Message, Part, published
from schemas.messages.decisions import AsOf

#: Most windows that a node's percentiles are kept for.
WINDOWS_MAX = 8
#: Most pools in one record: as many as any version has read in a policy.
POOLS_MAX = 1_024

_PoolName = Annotated[str, Field(min_length=1, max_length=253)]
MemoryCollectPolicy = Literal["usageWithoutPageCache", "usageWithPageCache"]


class NodeCollectPolicy(Part):
    """How the samples of a node become its metric."""

    average_ms: DurationMs
    """Window of the averages."""
    report_ms: DurationMs
    """Time between two reports, in the samples' time."""
    durations_ms: Annotated[
        tuple[DurationMs, ...],
        Field(max_length=WINDOWS_MAX, fail_fast=True, json_schema_extra=published(unit="ms")),
    ]
    """Windows of the percentiles."""
    memory: MemoryCollectPolicy
    """Which reading of memory counts, of those that a sample carries."""


class CollectPolicyRecord(Message):
    """How samples of a cluster become metrics from here on (key: cluster, slash,
    collect-policy-number)."""

    kind: Literal["collect-policy"] = "collect-policy"
    """Says what the record is."""
    cluster: ClusterName
    number: Count = 0
    """Number in the key, with which the key hashes to the partition."""
    default: NodeCollectPolicy
    """The policy of nodes whose samples name no pool, or one that is not listed."""
    pools: Annotated[
        dict[_PoolName, NodeCollectPolicy], Field(max_length=POOLS_MAX, fail_fast=True)
    ] = Field(default_factory=dict)
    """By pool, as samples name it."""
    as_of: AsOf
    """The state that it was handed on from."""

    @property
    def node(self) -> str:
        """What stands in the key where that of a sample has its node."""
        return key_node(self.number)


def key_node(number: int) -> str:
    """What stands for a node in the key of a collect policy with this number."""
    return f"collect-policy-{number}"
