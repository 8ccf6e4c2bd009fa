"""Statuses of migrations and drains of cluster blue, in seconds after `NOW_MS`."""

from typing import Any

from schemas.messages.decisions import AsOf
from schemas.messages.migrations import DrainStatus, MigrationStatus
from schemas.messages.pods import PodRef

NOW_MS = 1_795_000_000_000
AS_OF = AsOf(partition=0, offsets={}, policy_digest="default")


def status(number: int, phase: Any = "Running", seconds: int = 0, **fields: Any) -> MigrationStatus:
    """The state of a migration of pod web-<number>."""
    return MigrationStatus(
        **{
            "cluster": "blue", "migration_id": f"migration-{number}", "phase": phase,
            "pod": PodRef(namespace="shop", name=f"web-{number}", uid=f"uid-{number}"),
            "source_node": "worker-1", "mode": "EvictDirectly", "trigger": "rebalance",
            "deadline_ms": NOW_MS, "created_at_ms": NOW_MS, "changed_at_ms": NOW_MS,
            "happened_at_ms": NOW_MS + seconds * 1000, "as_of": AS_OF,
        } | fields
    )  # fmt: skip


def drained(phase: Any, seconds: int = 0, request_id: str = "request-1") -> DrainStatus:
    """The state of the drain of node worker-9."""
    return DrainStatus(
        cluster="blue", node="worker-9", phase=phase, pods_left=2, pods_protected=0,
        request_id=request_id, happened_at_ms=NOW_MS + seconds * 1000, as_of=AS_OF,
    )  # fmt: skip
