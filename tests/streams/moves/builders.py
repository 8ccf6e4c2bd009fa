"""Policies of moves, pods of an owner, and moves that were made; times are seconds."""

from typing import Any

from schemas.messages.moves import FollowedEvictionRow, RecentMove
from schemas.messages.pods import Pod, PodRef
from schemas.policy import Policy, read_policy
from streams.stage.cause import as_of
from tests.streams.cluster.builders import CLUSTER, at, controlled_by

AS_OF = as_of(0, {})


def policy(mode: str = "enforce", **moves: Any) -> Policy:
    """A policy with these fields of `moves`, and rounds so often that they do not matter."""
    fields = ", ".join(f"{name}: {str(value).lower()}" for name, value in moves.items())
    rounds = "descheduling: {deschedulingInterval: 1s}"
    return read_policy(f"mode: {mode}\n{rounds}\nmoves: {{{fields}}}\n")


def pod(uid: str, owner: str = "owner", node: str | None = None) -> Pod:
    """A pod of an owner; its name is its uid."""
    owners = controlled_by(owner)
    return Pod(namespace="shop", name=uid, uid=uid, node=node, owners=owners)


def ref(uid: str) -> PodRef:
    """Which pod."""
    return PodRef(namespace="shop", name=uid, uid=uid)


def eviction(
    uid: str,
    owner: str = "owner",
    source: str = "a",
    seconds: float = 0,
    *,
    number: str = "",
    hot: bool = True,
) -> FollowedEvictionRow:
    """A pod was evicted from a node; commands have the name of the pod, or a number."""
    return FollowedEvictionRow(
        cluster=CLUSTER,
        command_id=f"e-{number or uid}-0000000",
        migration_id=f"m-{number or uid}-0000000",
        pool="web",
        phase="node",
        pod=ref(uid),
        owner=owner,
        source_node=source,
        evicted_at_ms=at(seconds),
        source_hot_before=hot,
    )


def chain(*steps: tuple[str, str, int, int]) -> list[RecentMove]:
    """Moves as source, target, when left, when arrived."""
    return [
        RecentMove(source=source, target=target, left_at_ms=left, arrived_at_ms=arrived)
        for source, target, left, arrived in steps
    ]
