"""Where a message belongs: its key, its partition and the timestamp of its record.

All three follow from the message alone, so a file of messages needs nothing beside it, and
producing it twice produces the same records.
"""

from dataclasses import dataclass
from typing import Any

from schemas.messages.clock import ClockTick
from schemas.messages.decisions import PlacementDecision
from schemas.messages.evictions import EvictionCommand
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import Topic, node_key

#: Field with the time that a message is about. The other messages have none.
_TIME_FIELDS: dict[type, str] = {
    NodeUsage: "sampled_at_ms",
    SchedulingRequest: "requested_at_ms",
    PolicyRecord: "applied_at_ms",
    NodeMetric: "updated_at_ms",
    ClockTick: "now_ms",
    PlacementDecision: "decided_at_ms",
    EvictionCommand: "decided_at_ms",
    CommandOutcome: "happened_at_ms",
    RebalanceRound: "decided_at_ms",
    MigrationRequest: "requested_at_ms",
    MigrationStatus: "happened_at_ms",
    DrainStatus: "happened_at_ms",
    MoveOutcome: "ended_at_ms",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message belongs."""

    key: bytes
    partition: int | None
    """None: the one that murmur2 of the key says."""
    timestamp_ms: int | None
    """None: the time of writing."""


def place(topic: Topic, message: Any) -> Place:
    """Where a message of this topic belongs."""
    field = _TIME_FIELDS.get(type(message))
    timestamp_ms = getattr(message, field) if field is not None else None
    partition = None
    if topic.key == "cluster/node":
        key = node_key(message.cluster, message.node)
    elif topic.key == "cluster":
        key = message.cluster
    elif topic.key == "partition":
        partition = message.partition
        key = str(partition)
    else:
        key = message.topic
    return Place(key.encode(), partition, timestamp_ms)
