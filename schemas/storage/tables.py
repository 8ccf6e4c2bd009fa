"""The tables of both stages: their kinds of rows, and the keys of these.

A table is one changelog topic, with rows of several kinds that change together. The key of a row is
`partition/cluster/kind/name`, and the kind says of which class the row is:

    0/eu-1/nodes/node-7             the node of this name
    0/eu-1/reserved_pods/node-7     all pods that take room on it
    0/eu-1/clusters/                the one row of its kind of a cluster: its name is empty
    0//partitions/                  a row of the partition itself: its cluster is empty

Keys begin with the partition, since a worker that owns several partitions holds the rows of all of
them in one store. Names come last, as they may hold slashes.
"""

from dataclasses import dataclass
from typing import NamedTuple

from schemas.base.message import Message
from schemas.messages.migrations import (
    DisruptionBudgetRow,
    DrainRow,
    EvictionLimiterRow,
    MigrationRow,
    MigrationStateRow,
    WorkloadRow,
)
from schemas.messages.moves import CoolingNodeRow, FollowedEvictionRow, RecentMovesRow
from schemas.messages.namespaces import NamespaceRow, PriorityClassRow
from schemas.messages.rounds import HotspotCounterRow, UsageHistoryRow
from schemas.storage.percentiles import (
    ClusterCollectPolicy,
    NodeMembers,
    PodColumns,
    Progress,
    SampleColumns,
    TopicIds,
)
from schemas.storage.rows import (
    ClusterPolicyRow,
    ClusterRow,
    FailedClusterRow,
    JournalPositionRow,
    NodeRow,
    PartitionRow,
    PendingRequestRow,
    ReservedPodsRow,
    WaitingGroupRow,
)
from schemas.storage.usage_statistics import FleetUsageRow, PodUsageRow

#: Kind of the row that says up to where in the journal all other rows reflect it. It is written
#: after them.
POSITION = "journal_positions"
#: Kind of the row that says which time it is in a partition, and how far its inputs were read.
PARTITION = "partitions"
#: Table of the aggregate stage.
WINDOWS = "node_percentiles"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its kinds of rows, each with the class of them."""

    name: str
    summary: str
    rows: dict[str, type[Message]]


TABLES: tuple[Table, ...] = (
    Table(
        WINDOWS,
        "Windows of usage samples per node, and policies by which they become metrics.",
        {
            "progress": Progress,
            "members": NodeMembers,
            "samples": SampleColumns,
            "pod_samples": PodColumns,
            "collect_policies": ClusterCollectPolicy,
            "topics": TopicIds,
        },
    ),
    Table(
        "nodes",
        "Nodes with their newest metrics, and usage of their pods over their lifetimes.",
        {"nodes": NodeRow, "pod_usage": PodUsageRow},
    ),
    Table("reserved_pods", "Pods that take room, per node.", {"reserved_pods": ReservedPodsRow}),
    Table(
        "pending_requests",
        "Requests that wait for a node, and what is known of kinds of pods that wait.",
        {"pending_requests": PendingRequestRow, "waiting_groups": WaitingGroupRow},
    ),
    Table(
        "hotspot_counters",
        "For how many rounds nodes have been hot, and mean usage of the newest rounds.",
        {"hotspot_counters": HotspotCounterRow, "usage_history": UsageHistoryRow},
    ),
    Table(
        "migrations",
        "Pods on their way from node to node, and what limits and protects them.",
        {
            "migrations": MigrationRow,
            "migration_state": MigrationStateRow,
            "drains": DrainRow,
            "eviction_limiters": EvictionLimiterRow,
            "workloads": WorkloadRow,
            "disruption_budgets": DisruptionBudgetRow,
        },
    ),
    Table(
        "moves",
        "Earlier moves: owners of moved pods, nodes that cool down, evictions that are followed.",
        {
            "recent_moves": RecentMovesRow,
            "cooling_nodes": CoolingNodeRow,
            "followed_evictions": FollowedEvictionRow,
        },
    ),
    Table(
        "cluster",
        "What belongs to a cluster or to a partition as a whole.",
        {
            "clusters": ClusterRow,
            "cluster_policies": ClusterPolicyRow,
            "failed_clusters": FailedClusterRow,
            "fleet_usage": FleetUsageRow,
            "namespaces": NamespaceRow,
            "priority_classes": PriorityClassRow,
            PARTITION: PartitionRow,
            POSITION: JournalPositionRow,
        },
    ),
)

#: The class of the rows of a kind.
ROW_CLASSES: dict[str, type[Message]] = {
    kind: row for table in TABLES for kind, row in table.rows.items()
}
#: Name of the table that has the rows of a kind.
TABLE_OF_KIND: dict[str, str] = {kind: table.name for table in TABLES for kind in table.rows}
#: Names of the tables of the cluster stage.
CLUSTER_TABLES: tuple[str, ...] = tuple(table.name for table in TABLES if table.name != WINDOWS)


class RowKey(NamedTuple):
    """A key in its parts."""

    partition: int
    cluster: str
    """Empty: the row is one of the partition itself."""
    kind: str
    name: str
    """Empty: the row is the only one of its kind."""


def row_key(partition: int, cluster: str, kind: str, name: str = "") -> str:
    """Return the key of a row."""
    return f"{partition}/{cluster}/{kind}/{name}"


def parse_row_key(key: str) -> RowKey:
    """Return the parts of a key.

    Raises:
        ValueError: it is no key of a row.
    """
    parts = key.split("/", 3)
    if len(parts) < 4 or not parts[0].isdecimal():
        raise ValueError("the key is not of the form partition/cluster/kind/name")
    partition, cluster, kind, name = parts
    return RowKey(int(partition), cluster, kind, name)


def kind_of_key(key: str) -> str:
    """Return the kind of a row, whose key is one."""
    return key.split("/", 3)[2]


def table_of_key(key: str) -> str:
    """Return the name of the table that has a row, whose key is one of a known kind."""
    return TABLE_OF_KIND[key.split("/", 3)[2]]


def of_cluster(key: str, partition: int, cluster: str) -> bool:
    """Whether a row is of a cluster of this partition."""
    return key.startswith(f"{partition}/{cluster}/")
