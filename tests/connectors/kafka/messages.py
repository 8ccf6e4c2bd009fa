"""Minimal messages: a usage sample, a decision and a batch of the journal."""

from typing import Any

from schemas.messages.decisions import AsOf, PlacementDecision
from schemas.messages.journal import JournalRecord
from schemas.messages.pods import PodRef
from schemas.messages.usage import NodeUsage
from schemas.topics.codec import encode

NOW_MS = 1_795_000_000_000
GIB = 2**30

REF = PodRef(namespace="web", name="front-1", uid="u1")
AS_OF = AsOf(partition=0, offsets={"clock": 7}, policy_digest="default")


def usage(cluster: str = "blue", node: str = "n1", **more: Any) -> NodeUsage:
    values: dict[str, Any] = {
        "sampled_at_ms": NOW_MS,
        "usage": {"cpu": 1500, "memory": 3 * GIB},
    } | more
    return NodeUsage(cluster=cluster, node=node, **values)


def decision(**more: Any) -> PlacementDecision:
    """Return a placement decision; by default the pod waits."""
    values: dict[str, Any] = {
        "decision_id": "decision-1", "cluster": "blue", "pod": REF, "outcome": "waiting",
        "decided_at_ms": NOW_MS, "as_of": AS_OF,
    }  # fmt: skip
    return PlacementDecision(**(values | more))


def journal_batch(partition: int, offsets: dict[str, int]) -> bytes:
    """Return a batch of the journal that applies the input topics up to these offsets."""
    return encode(JournalRecord(partition=partition, epoch=1, sequence=1, positions=offsets))
