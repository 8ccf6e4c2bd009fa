"""All topics, with their keys, message classes and retention.

Keys and the murmur2 partitioner are part of the published contract. A record in a partition that its
key does not hash to is refused, because otherwise two workers would write the same cluster.
"""

from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from schemas.base.message import Message
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.journal import CheckpointPiece, JournalRecord
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeStateRecord
from schemas.messages.objects import PodLifecycleRecord
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import CollectPolicyRecord, NodeUsage

KeyKind = Literal["cluster/node", "cluster", "partition", "source topic"]
Writer = Literal["outside", "aggregate", "cluster", "every stage"]

#: Default number of partitions of every topic.
PARTITIONS_DEFAULT = 4

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    message: Any
    """The message class, or an annotated union of classes."""
    key: KeyKind
    summary: str
    stage: Literal["aggregate", "cluster", "none"]
    """The stage that reads the topic."""
    writer: Writer = "outside"
    """A stage, or producers and consumers outside of the worker."""
    compacted: bool = False
    retention_ms: int = 7 * _DAY_MS
    compaction_lag_ms: int = 0
    """Minimum age at which compaction may remove a record."""

    answered: bool = False
    """Senders wait for the effect of a record, so a worker applies it at once; other records of the cluster
    stage wait for more of their kind."""
    before_ticks: bool = True
    """A clock tick waits until older records are applied, because they can confirm reservations that would
    otherwise expire. False for topics whose bursts would delay ticks."""
    framed: bool = False
    """A record is a head (one line of JSON) followed by other bytes."""
    inserted: type[Message] | None = None
    """Class of the records that the cluster stage writes between records from outside; they differ by
    `kind`."""

    @property
    def outside_message(self) -> Any:
        """The class or union of the records from outside."""
        return self.message if self.inserted is None else self.classes[0]

    def is_written_by(self, stage: str) -> bool:
        """Tell whether a stage writes any record of the topic."""
        is_inserted = self.inserted is not None and stage == "cluster"
        return is_inserted or self.writer in (stage, "every stage")

    @property
    def classes(self) -> tuple[type[Message], ...]:
        """The message classes: one, or the members of the union."""
        if isinstance(self.message, type):
            return (self.message,)
        if isinstance(self.message, UnionType):
            return get_args(self.message)
        return get_args(get_args(self.message)[0])


#: Reports of rebalancing for people and tools. No decision depends on them.
StatusRecord = Annotated[
    RebalanceRound | MigrationStatus | DrainStatus | MoveOutcome, Field(discriminator="kind")
]

TOPICS: tuple[Topic, ...] = (
    Topic(
        "node-usage", NodeUsage | CollectPolicyRecord, "cluster/node", "What a node and everything on it used.", "aggregate",
        inserted=CollectPolicyRecord,
    ),
    Topic("node-state", NodeStateRecord, "cluster", "Nodes added, changed and removed, with full lists.", "cluster"),
    Topic("pod-lifecycle", PodLifecycleRecord, "cluster", "What happens to pods, their workloads, disruption budgets, namespaces and priority classes, with full lists.", "cluster"),
    Topic(
        "scheduling-requests", SchedulingRequest, "cluster", "Pods that need a node.", "cluster",
        answered=True, before_ticks=False,
    ),
    Topic(
        "policies", PolicyRecord, "cluster", "The whole policy of a cluster; pause and resume.", "cluster",
        compacted=True, compaction_lag_ms=30 * _DAY_MS, answered=True,
    ),
    Topic(
        "node-metrics", NodeMetric, "cluster", "Averages and percentiles of a node.", "cluster", "aggregate",
        before_ticks=False,
    ),
    Topic(
        "clock", ClockTick, "partition", "The time, once a second.", "cluster", "cluster",
        answered=True, before_ticks=False,
    ),
    Topic(
        "journal", JournalRecord, "partition", "Applied records in their order, with the resulting changes.", "none", "cluster",
        framed=True,
    ),
    Topic(
        "checkpoints", CheckpointPiece, "partition", "Rows of a partition at a position of the journal, from which a replay can start.", "none", "cluster",
        framed=True,
        # Longer than the journal, so that a replay of its oldest records has a checkpoint to start from.
        retention_ms=8 * _DAY_MS,
    ),
    Topic("placement-decisions", PlacementDecision, "cluster", "A node for a pod, or why the pod has none.", "none", "cluster"),
    Topic("eviction-commands", EvictionCommand, "cluster", "Pods to evict, and why.", "none", "cluster"),
    Topic("command-outcomes", CommandOutcome, "cluster", "Results of bindings and evictions.", "cluster"),
    Topic("status", StatusRecord, "cluster", "Reports of rebalancing: rounds, progress of migrations and drains, outcomes of moves.", "none", "cluster"),
    Topic("migration-requests", MigrationRequest, "cluster", "Requests of users: migrate, pause, abort, drain.", "cluster", answered=True),
    Topic("dead-letters", DeadLetter, "source topic", "Records that could not be read or were refused.", "none", "every stage"),
)  # fmt: skip

TOPIC_BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}

#: Name of the topic by message class.
TOPIC_OF: dict[type[Message], str] = {cls: topic.name for topic in TOPICS for cls in topic.classes}

#: Inputs of the cluster stage. Partition n of all of them determines the state of the clusters in partition n.
CLUSTER_INPUTS: tuple[str, ...] = tuple(t.name for t in TOPICS if t.stage == "cluster")


def node_key(cluster: str, node: str) -> str:
    """Return the key of `node-usage`."""
    return f"{cluster}/{node}"


def key_of(topic: str, message: Any) -> str:
    """Return the key that a message of a topic must have."""
    match TOPIC_BY_NAME[topic].key:
        case "cluster/node":
            return node_key(message.cluster, message.node)
        case "cluster":
            return str(message.cluster)
        case "partition":
            return str(message.partition)
        case "source topic":
            return str(message.topic)


@dataclass(frozen=True, slots=True)
class RecordPlace:
    key: bytes
    partition: int | None
    """None: the partition follows from the key by murmur2."""
    timestamp_ms: int | None
    """None: the time of writing."""


def place_record(topic: Topic, message: Any) -> RecordPlace:
    """Return the place of a message's record, which follows from the message alone.

    So producing a file of messages twice gives the same records.
    """
    timestamp_ms = getattr(message, message.record_time) if message.record_time else None
    partition = message.partition if topic.key == "partition" else None
    return RecordPlace(key_of(topic.name, message).encode(), partition, timestamp_ms)
