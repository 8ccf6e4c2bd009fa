"""Key, partition and timestamp of the record of a message.

All three follow from the message alone, so producing a file of messages twice gives the same records.
"""

from dataclasses import dataclass
from typing import Any

from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision, SchedulingRequest
from schemas.messages.metrics import NodeMetric
from schemas.messages.migrations import DrainStatus, MigrationRequest, MigrationStatus
from schemas.messages.moves import MoveOutcome
from schemas.messages.policies import PolicyRecord
from schemas.messages.rounds import RebalanceRound
from schemas.messages.usage import NodeUsage
from schemas.topics.catalog import Topic, node_key

#: Field with the time of a message. Messages that are not listed have no time.
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
class RecordPlace:
    key: bytes
    partition: int | None
    """None: the partition follows from the key by murmur2."""
    timestamp_ms: int | None
    """None: the time of writing."""


def place_record(topic: Topic, message: Any) -> RecordPlace:
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
    return RecordPlace(key.encode(), partition, timestamp_ms)
