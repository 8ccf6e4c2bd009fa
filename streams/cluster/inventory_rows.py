"""Rows of nodes and of the pods on them."""

from typing import Any

import orjson
from pydantic import BaseModel

from schemas.messages.pods import Pod
from schemas.storage.rows import GonePod as GonePodPart
from schemas.storage.rows import NodeRow, ReservedPod, ReservedPodsRow
from schemas.topics.codec import encode
from streams.inventory.inventory import Inventory
from streams.inventory.node import GonePod, Node, RestoredPod
from streams.pods.held_pod import HeldPod
from streams.pods.kind import intern_pod
from streams.stage.tracked_rows import TrackedRows
from streams.usage.node_usage import AssignedPod

#: Fields of a pod that are lists of messages.
_LISTS = ("containers", "init_containers", "owners", "required_node_affinity", "tolerations")


class NodeRows(TrackedRows[str, Node]):
    """Rows of kind `nodes` of one cluster, by node."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("nodes")
        self._cluster, self._inventory = cluster, inventory
        self.rows, self.changed = inventory.nodes, inventory.changed_nodes

    def build_row(self, key: str) -> NodeRow | None:
        """Return the row of a node; None if nothing is known of the node."""
        node = self.rows.get(key)
        if node is None:
            return None
        row = NodeRow(
            cluster=self._cluster,
            node=key,
            state=node.state,
            metric=node.usage.metric,
            metric_time_ms=node.usage.metric_time_ms,
            list_id=node.list_id,
            gone=tuple(GonePodPart(at_ms=pod.at_ms, usage=dict(pod.usage)) for pod in node.gone),
        )
        known = (row.state, row.metric, row.metric_time_ms, row.list_id)
        return None if all(part is None for part in known) else row

    def restore_row(self, row: NodeRow) -> None:
        if row.state is not None:
            self._inventory.apply_node(row.state)
        node = self._inventory.get_or_create_node(row.node)
        node.list_id = row.list_id
        node.usage.metric_time_ms = row.metric_time_ms
        if row.metric is not None:
            self._inventory.apply_metric(row.metric, restored=True)
        node.gone = tuple([GonePod(pod.at_ms, pod.usage) for pod in row.gone])


class PodRows(TrackedRows[tuple[str, str], HeldPod]):
    """Rows of kind `reserved_pods` of one cluster, by node and uid."""

    def __init__(self, inventory: Inventory) -> None:
        super().__init__("reserved_pods")
        self._inventory = inventory
        self.changed = inventory.changed_pods

    def encode(self, key: tuple[str, str]) -> bytes | None:
        """Return the bytes of a `ReservedPod`; None if the node does not hold the pod."""
        name, uid = key
        node = self._inventory.nodes.get(name)
        held = None if node is None else node.held.get(uid)
        if node is None or held is None:
            return None
        return encode_held(held, node.usage.assigned.get(uid))

    def restore_row(self, row: ReservedPodsRow) -> None:
        """Restore all pods of a node."""
        pods = []
        for item in row.pods:
            pod, kind = item.pod, intern_pod(item.pod)
            held = HeldPod(
                pod=pod,
                kind=kind,
                assigned_at_ms=item.assigned_at_ms,
                decision_id=item.decision_id,
                expires_at_ms=item.expires_at_ms,
                requested_at_ms=item.requested_at_ms,
                attempt=item.attempt,
                sequence=item.sequence,
                list_id=item.list_id,
                arrival=item.arrival,
            )
            pods.append(RestoredPod(held, _build_counted_pod(item, pod), item.counted_at_ms))
        self._inventory.restore_held(row.node, pods)


def encode_held(held: HeldPod, counted: AssignedPod | None) -> bytes:
    """Return the bytes of a `ReservedPod`; `counted` is None if estimation ignores the pod.

    They equal those of `schemas.topics.codec.encode`, which takes twice as long.
    """
    values: dict[str, Any] = {
        "pod": _get_pod_values(held.pod),
        "assigned_at_ms": held.assigned_at_ms,
        "attempt": held.attempt,
        "arrival": held.arrival,
        "sequence": held.sequence,
    }
    if counted is not None:
        values["counted_at_ms"] = counted.counted_at_ms
        if counted.pod.labels != held.pod.labels:
            values["counted_labels"] = counted.pod.labels
        if counted.pod.annotations != held.pod.annotations:
            values["counted_annotations"] = counted.pod.annotations
    if held.decision_id is not None:
        values["decision_id"] = held.decision_id
    if held.expires_at_ms is not None:
        values["expires_at_ms"] = held.expires_at_ms
    if held.requested_at_ms is not None:
        values["requested_at_ms"] = held.requested_at_ms
    if held.list_id is not None:
        values["list_id"] = held.list_id
    # Copy: the bytes that orjson returns keep up to ten times their length allocated.
    text = orjson.dumps(values, default=_encode_part, option=orjson.OPT_SORT_KEYS)
    return bytes(memoryview(text))


def _get_pod_values(pod: Pod) -> dict[str, Any]:
    values = {name: value for name, value in pod.__dict__.items() if value is not None}
    for name in _LISTS:
        if values.get(name):
            values[name] = orjson.Fragment(b"[" + b",".join(map(encode, values[name])) + b"]")
    return values


def _encode_part(part: Any) -> orjson.Fragment:
    if isinstance(part, BaseModel):
        return orjson.Fragment(encode(part))
    raise TypeError(f"cannot encode {type(part).__name__} as a part of a pod")


def _build_counted_pod(item: ReservedPod, pod: Pod) -> Pod:
    counted = {"labels": item.counted_labels, "annotations": item.counted_annotations}
    update = {name: value for name, value in counted.items() if value is not None}
    return pod.model_copy(update=update) if update else pod
