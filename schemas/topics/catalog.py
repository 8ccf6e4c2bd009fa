"""The topics: the one place that the app, the admin command and the documents read.

Keys and the murmur2 partitioner are part of the published contract: a record in a partition to
which its key does not hash is refused, because two writers would otherwise hold one cluster.
"""

from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from schemas.base.message import Message
from schemas.messages.checkpoints import CheckpointPiece
from schemas.messages.clock import ClockTick
from schemas.messages.collect import CollectPolicyRecord
from schemas.messages.dead_letters import DeadLetter
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.journal import JournalRecord
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.nodes import NodeStateRecord
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage
from schemas.messages.workloads import PodLifecycleRecord

KeyKind = Literal["cluster/node", "cluster", "partition", "source topic"]
Writer = Literal["outside", "aggregate", "cluster", "every stage"]

#: Default number of partitions of every topic.
PARTITIONS_DEFAULT = 4

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: what it carries, by which key, and how long it is kept."""

    name: str
    message: Any
    """The message class, or the annotated union of several."""
    key: KeyKind
    summary: str
    stage: Literal["aggregate", "cluster", "none"]
    """The stage that reads it."""
    writer: Writer = "outside"
    """Who writes it: a stage, or producers and consumers outside of the worker."""
    compacted: bool = False
    retention_ms: int = 7 * _DAY_MS
    compaction_lag_ms: int = 0
    """Least age at which a compacted record may go."""

    framed: bool = False
    """A record is a line of JSON, its head, with other bytes after it."""
    inserted: type[Message] | None = None
    """The class of records that the cluster stage writes among those from outside, which differ
    from them by their `kind`; none: there are none."""

    @property
    def plain(self) -> Any:
        """What records from outside carry."""
        return self.message if self.inserted is None else self.classes[0]

    def written_by(self, stage: str) -> bool:
        """Whether a stage writes any of its records."""
        inserted = self.inserted is not None and stage == "cluster"
        return inserted or self.writer in (stage, "every stage")

    @property
    def classes(self) -> tuple[type[Message], ...]:
        """The message classes: one, or those of the union."""
        if isinstance(self.message, type):
            return (self.message,)
        if isinstance(self.message, UnionType):
            return get_args(self.message)
        return get_args(get_args(self.message)[0])


#: What rebalancing does, for people and their tools; no decision is made from it.
StatusRecord = Annotated[
    RebalanceRound | MigrationStatus | DrainStatus | MoveOutcome, Field(discriminator="kind")
]

TOPICS: tuple[Topic, ...] = (
    Topic(
        "node-usage", NodeUsage | CollectPolicyRecord, "cluster/node", "What a node and everything on it used.", "aggregate",
        inserted=CollectPolicyRecord,
    ),
    Topic("node-state", NodeStateRecord, "cluster", "Nodes added, changed and removed, with full lists.", "cluster"),
    Topic("pod-lifecycle", PodLifecycleRecord, "cluster", "What happens to pods, their workloads, disruption budgets, namespaces, priority classes and volumes, with full lists.", "cluster"),
    Topic("scheduling-requests", SchedulingRequest, "cluster", "Pods that want a node.", "cluster"),
    Topic(
        "policies", PolicyRecord, "cluster", "A cluster's whole policy; pause and resume.", "cluster",
        compacted=True, compaction_lag_ms=30 * _DAY_MS,
    ),
    Topic("node-metrics", NodeMetric, "cluster", "Averages and percentiles of a node.", "cluster", "aggregate"),
    Topic("clock", ClockTick, "partition", "The time, once a second.", "cluster", "cluster"),
    Topic(
        "journal", JournalRecord, "partition", "What was applied, in which order, and what it changed.", "none", "cluster",
        framed=True,
    ),
    Topic(
        "checkpoints", CheckpointPiece, "partition", "Rows of a partition at a place of the journal, where a replay may begin.", "none", "cluster",
        framed=True,
        # Longer than the journal: what it still has must have something to begin at.
        retention_ms=8 * _DAY_MS,
    ),
    Topic("placement-decisions", PlacementDecision, "cluster", "A node for a pod, or why there is none.", "none", "cluster"),
    Topic("eviction-commands", EvictionCommand, "cluster", "Pods to evict, and why.", "none", "cluster"),
    Topic("command-outcomes", CommandOutcome, "cluster", "What came of a binding or an eviction.", "cluster"),
    Topic("status", StatusRecord, "cluster", "What rebalancing does: rounds, how far migrations and drains have come, outcomes of moves.", "none", "cluster"),
    Topic("migration-requests", MigrationRequest, "cluster", "What users want of migrations: migrate, pause, abort, drain.", "cluster"),
    Topic("dead-letters", DeadLetter, "source topic", "Records that could not be read or were refused.", "none", "every stage"),
)  # fmt: skip

TOPIC_BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}

#: The topic that carries a class of messages.
TOPIC_OF: dict[type[Message], str] = {cls: topic.name for topic in TOPICS for cls in topic.classes}

#: Topics whose partition n together make up the state of partition n's clusters.
CLUSTER_INPUTS: tuple[str, ...] = tuple(t.name for t in TOPICS if t.stage == "cluster")


def node_key(cluster: str, node: str) -> str:
    """Key of `node-usage`."""
    return f"{cluster}/{node}"


def key_of(topic: str, message: Any) -> str:
    """The key that a message of a topic must have."""
    match TOPIC_BY_NAME[topic].key:
        case "cluster/node":
            return node_key(message.cluster, message.node)
        case "cluster":
            return str(message.cluster)
        case "partition":
            return str(message.partition)
        case "source topic":
            return str(message.topic)
