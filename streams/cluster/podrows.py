"""Rows of table `reserved_pods`, joined from pods that were encoded before.

A decision adds one pod to a node, and the node's row holds all of them: encoding them all again would cost
ten times what the decision does. So the JSON of each pod is kept beside what it was made from, and
made again only when that has been replaced. What is kept is bounded; the rows do not depend on it.
"""

from typing import NamedTuple

import orjson

from schemas.codec import encode
from schemas.pods import Pod
from schemas.rows import HeldPod
from streams.cluster.load import AssignedPod
from streams.cluster.node import Held, Node

#: Bytes of encoded pods that are kept; those of the nodes that changed longest ago are dropped first.
KEPT_BYTES_MAX = 64 * 1024 * 1024


class _Encoded(NamedTuple):
    """A pod as JSON, and what that says; both are replaced and never changed."""

    held: Held
    counted: AssignedPod | None
    json: bytes


class PodRows:
    """Encodes the rows of one cluster."""

    def __init__(self, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._kept: dict[str, dict[str, _Encoded]] = {}
        """By node, the one encoded last at the end, and by pod uid."""
        self.kept_bytes = 0
        """Bytes of JSON that are kept now."""
        self._kept_bytes_max = kept_bytes_max

    def encode(self, cluster: str, node: Node) -> bytes | None:
        """The row of a node, as `encode` of a `ReservedPodsRow` gives it; None: it holds no pod."""
        before = self._forget(node.name)
        if not node.held:
            return None
        pods: dict[str, _Encoded] = {}
        for uid, held in node.held.items():
            counted = node.load.assigned.get(uid)
            pod = before.get(uid)
            if pod is None or pod.held is not held or pod.counted is not counted:
                # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
                json = bytes(memoryview(encode(_held_pod(held, counted))))
                pod = _Encoded(held, counted, json)
            pods[uid] = pod
        self._keep(node.name, pods)
        return orjson.dumps(
            {
                "cluster": cluster,
                "node": node.name,
                "pods": [orjson.Fragment(pod.json) for pod in pods.values()],
                "schema_version": 1,
            }
        )

    def _keep(self, node: str, pods: dict[str, _Encoded]) -> None:
        self._kept[node] = pods
        self.kept_bytes += _size(pods)
        while self.kept_bytes > self._kept_bytes_max:
            self._forget(next(iter(self._kept)))

    def _forget(self, node: str) -> dict[str, _Encoded]:
        pods = self._kept.pop(node, {})
        self.kept_bytes -= _size(pods)
        return pods


def _size(pods: dict[str, _Encoded]) -> int:
    return sum(len(pod.json) for pod in pods.values())


def _held_pod(held: Held, counted: AssignedPod | None) -> HeldPod:
    return HeldPod(
        pod=held.pod,
        counted=None if counted is None or _same(counted.pod, held.pod) else counted.pod,
        counted_at_ms=None if counted is None else counted.cached_at_ms,
        assigned_at_ms=held.assigned_at_ms,
        decision_id=held.decision_id,
        expires_at_ms=held.expires_at_ms,
        requested_at_ms=held.requested_at_ms,
        attempt=held.attempt,
        sequence=held.sequence,
        list_id=held.list_id,
    )


def _same(counted: Pod, newest: Pod) -> bool:
    return counted is newest or counted == newest
