"""What a cluster says, ready to be published."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from schemas.codec import encode
from schemas.collect import CollectPolicyRecord
from schemas.decisions import PlacementDecision
from schemas.partitions import for_each_partition
from schemas.topics import TOPIC_OF, key_of
from streams.cluster.state import ClusterState, Output
from streams.stage.records import OutputRecord


@dataclass(frozen=True, slots=True)
class Spoken:
    """One message of a cluster, ready to be published."""

    message: Any
    output: OutputRecord
    waited_s: int | None = None
    """For a pod that was given a node: how long it has waited for one; none: it is not known."""


def answered(
    said: Output, partitions: int, state: ClusterState, now_ms: int | None
) -> Iterator[Spoken]:
    """An answer of a cluster; what is for all partitions of samples, as each of them gets it."""
    if isinstance(said, CollectPolicyRecord):
        for each in for_each_partition(said, partitions):
            yield spoken(each, now_ms)
    else:
        yield spoken(said, now_ms, _waited_s(said, state))


def spoken(message: Any, now_ms: int | None, waited_s: int | None = None) -> Spoken:
    """A message at the log's time; None: before its clock ticked first."""
    topic = TOPIC_OF[type(message)]
    output = OutputRecord(
        topic=topic,
        key=key_of(topic, message),
        value=encode(message),
        timestamp_ms=now_ms or 0,
    )
    return Spoken(message, output, waited_s)


def _waited_s(said: Output, state: ClusterState) -> int | None:
    if not isinstance(said, PlacementDecision) or said.outcome != "placed":
        return None
    held = state.inventory.held(said.pod.uid)
    if held is None or held[1].requested_at_ms is None:
        return None
    # Producers' clocks may be ahead of the log's.
    return max(0, said.decided_at_ms - held[1].requested_at_ms) // 1000
