"""The tables of both stages, their kinds of rows, and the keys.

A table is one changelog topic. It has rows of several kinds that change together. The key of a row is
`partition/cluster/kind/name`; the kind determines the class of the row:

    0/eu-1/nodes/node-7             the node of this name
    0/eu-1/reserved_pods/node-7     all pods with room on it
    0/eu-1/clusters/                the only row of its kind in a cluster: its name is empty
    0//partitions/                  a row of the partition itself: its cluster is empty

Keys begin with the partition, because one store has the rows of all partitions of a worker. Names
come last, because they can contain slashes.
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
from schemas.messages.objects import NamespaceRow, PriorityClassRow
from schemas.messages.rounds import HotspotCounterRow, ThresholdMapsRow
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

#: Kind of the row with the journal position that all other rows reflect. It is written after them.
POSITION = "journal_positions"
#: Kind of the row with the clock and the input offsets of a partition.
PARTITION = "partitions"
#: Table of the aggregate stage.
WINDOWS = "node_percentiles"


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    summary: str
    rows: dict[str, type[Message]]


TABLES: tuple[Table, ...] = (
    Table(
        WINDOWS,
        "Windows of usage samples per node, and the policies that turn them into metrics.",
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
    Table(
        "reserved_pods", "Pods with room on a node, per node.", {"reserved_pods": ReservedPodsRow}
    ),
    Table(
        "pending_requests",
        "Requests that wait for a node, and failed attempts per kind of pod.",
        {"pending_requests": PendingRequestRow, "waiting_groups": WaitingGroupRow},
    ),
    Table(
        "hotspot_counters",
        "How many rounds nodes have been hot, and filled-in thresholds.",
        {"hotspot_counters": HotspotCounterRow, "threshold_maps": ThresholdMapsRow},
    ),
    Table(
        "migrations",
        "Migrations of pods, and the limits and protections that apply to them.",
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
        "Earlier moves: owners of moved pods, cooling nodes, evictions whose outcome is awaited.",
        {
            "recent_moves": RecentMovesRow,
            "cooling_nodes": CoolingNodeRow,
            "followed_evictions": FollowedEvictionRow,
        },
    ),
    Table(
        "cluster",
        "State of a cluster or of a partition as a whole.",
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
    """The parts of a key."""

    partition: int
    cluster: str
    """Empty for a row of the partition itself."""
    kind: str
    name: str
    """Empty if the row is the only one of its kind."""


def row_key(partition: int, cluster: str, kind: str, name: str = "") -> str:
    return f"{partition}/{cluster}/{kind}/{name}"


def parse_row_key(key: str) -> RowKey:
    """Return the parts of a key.

    Raises:
        ValueError: the text is not the key of a row.
    """
    parts = key.split("/", 3)
    if len(parts) < 4 or not parts[0].isdecimal():
        raise ValueError("the key is not of the form partition/cluster/kind/name")
    partition, cluster, kind, name = parts
    return RowKey(int(partition), cluster, kind, name)


def kind_of_key(key: str) -> str:
    """Return the kind of a row; `key` must be a valid key."""
    return key.split("/", 3)[2]


def table_of_key(key: str) -> str:
    """Return the name of the table of a row; `key` must be a valid key of a known kind."""
    return TABLE_OF_KIND[key.split("/", 3)[2]]


def is_of_cluster(key: str, partition: int, cluster: str) -> bool:
    """Tell whether the row belongs to the cluster in this partition."""
    return key.startswith(f"{partition}/{cluster}/")
