"""Policies of moves, pods of an owner, and moves that were made; times are seconds."""

from typing import Any

from schemas.decisions import AsOf
from schemas.moves import FollowedEvictionRow, Phase, RecentMove
from schemas.pods import Pod, PodRef
from schemas.policy import Policy, read_policy
from tests.streams.cluster.builders import CLUSTER, at, controlled_by

AS_OF = AsOf(partition=0, offsets={}, policy_digest="default")
#: What a node has, and above what it is hot.
CAPACITY = {"cpu": 10_000, "memory": 1_000}
HIGH = {"cpu": 7_000, "memory": 800}


def policy(mode: str = "enforce", **moves: Any) -> Policy:
    """A policy with these fields of `moves`, and rounds so often that they do not matter."""
    fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in moves.items())
    rounds = "descheduling: {deschedulingInterval: 1s}"
    return read_policy(f"mode: {mode}\n{rounds}\nmoves: {{{fields}}}\n")


def pod(uid: str, owner: str = "owner", node: str | None = None, *, ready: bool = True) -> Pod:
    """A pod of an owner; its name is its uid."""
    owners = controlled_by(owner)
    return Pod(namespace="shop", name=uid, uid=uid, node=node, owners=owners, ready=ready)


def ref(uid: str) -> PodRef:
    """Which pod."""
    return PodRef(namespace="shop", name=uid, uid=uid)


def move(
    source: str = "elsewhere",
    target: str | None = None,
    *,
    left: float = 0,
    came: float = 0,
    cpu: int | None = 1_000,
    phase: Phase = "node",
) -> FollowedEvictionRow:
    """A pod has left a node, and come to another one; times are seconds."""
    return FollowedEvictionRow(
        cluster=CLUSTER,
        command_id="e-other-000000",
        migration_id="m-other-000000",
        pool="p",
        phase=phase,
        pod=ref("other"),
        owner="other",
        source_node=source,
        dry_run=False,
        evicted_at_ms=at(left),
        target_node=target,
        arrived_at_ms=None if target is None else at(came),
        usage={} if cpu is None else {"cpu": cpu},
    )


def chain(*steps: tuple[str, str, int, int]) -> list[RecentMove]:
    """Moves as source, target, when left, when arrived."""
    return [
        RecentMove(source=source, target=target, left_at_ms=left, arrived_at_ms=arrived)
        for source, target, left, arrived in steps
    ]
