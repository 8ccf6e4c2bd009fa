"""Rows of nodes and of the pods that take room on them.

Rows of nodes are written with each metric, and rows of pods with each decision, so both are put
together from encoded parts:

- What Kubernetes says of a node stays for hours and is encoded once. A metric has a part for each pod;
  values that JSON can take unchanged are not copied before.
- Containers and other large parts of a pod, which all pods of a kind have in common, are encoded once
  per kind. Of the state by which a pod counts for estimation only labels and annotations are kept,
  where they differ.

The bytes are those that `schemas.topics.codec.encode` makes of the rows' classes.
"""

from typing import Any

import orjson
from pydantic import BaseModel

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.storage.rows import HeldPod, NodeRow, ReservedPodsRow
from schemas.topics.codec import encode
from streams.inventory.inventory import Inventory
from streams.inventory.node import GonePod, Node, RestoredPod
from streams.placement.reservations import Reservations
from streams.pods.held import Held
from streams.pods.kind import kind_of, share_parts
from streams.stage.sized_cache import SizedCache
from streams.stage.tracked_rows import TrackedRows
from streams.usage.assigned_pods import AssignedPod

#: Encoded states of nodes that are kept, and bytes of them; the one that came first is dropped first.
STATES_MAX, STATES_BYTES_MAX = 50_000, 32 * 1024 * 1024
#: Bytes of an entry besides the text; the state is the node's own.
_ENTRY_BYTES = 500
#: Fields of a pod that hold messages of their own and are the same for all pods of a kind.
_LARGE = ("containers", "init_containers", "required_node_affinity", "tolerations")
#: Encoded parts of pods that are kept, and bytes of them.
PARTS_MAX, PARTS_BYTES_MAX = 8_192, 32 * 1024 * 1024
#: A part and its text take this many times the bytes of the text.
_BYTES_PER_CHARACTER = 10
#: By identity of the part, which is kept too, so that no other takes its place. Of all clusters:
#: hundreds of them keep no more than one.
_PARTS: SizedCache[int, tuple[Any, orjson.Fragment]] = SizedCache(PARTS_BYTES_MAX, PARTS_MAX)


class NodeRows(TrackedRows[str, Node]):
    """Rows of kind `nodes` of one cluster, by node."""

    def __init__(self, cluster: str, inventory: Inventory) -> None:
        super().__init__("nodes")
        self._cluster, self._inventory = cluster, inventory
        self.rows, self.changed = inventory.nodes, inventory.changed_nodes
        self._states = SizedCache[str, tuple[NodeState, bytes]](STATES_BYTES_MAX, STATES_MAX)
        """What Kubernetes says of nodes, by name, and its text."""

    def encode(self, key: str) -> bytes | None:
        """The row of a node; None: nothing is known of it."""
        node = self.rows.get(key)
        if node is None or node.state is None:
            self._states.drop(key)  # nodes come under ever new names
        if node is None:
            return None
        usage = node.usage
        values: dict[str, Any] = {
            "state": None if node.state is None else self._encode_state(key, node.state),
            "metric": None if usage.metric is None else _metric_values(usage.metric),
            "metric_time_ms": usage.metric_time_ms,
            "list_id": node.list_id,
        }
        values = {name: value for name, value in values.items() if value is not None}
        if not values:
            return None
        values["gone"] = [{"at_ms": each.at_ms, "usage": each.usage} for each in node.gone]
        values |= {"cluster": self._cluster, "node": key, "schema_version": 1}
        return orjson.dumps(values, default=_values, option=orjson.OPT_SORT_KEYS)

    def take(self, row: NodeRow) -> None:
        """Take over a row as it was written."""
        if row.state is not None:
            self._inventory.apply_node(row.state)
        node = self._inventory.node(row.node)
        node.list_id = row.list_id
        node.usage.metric_time_ms = row.metric_time_ms
        if row.metric is not None:
            self._inventory.apply_metric(row.metric, again=True)
            node.usage.metric_time_ms = row.metric_time_ms
        node.gone = tuple([GonePod(each.at_ms, each.usage) for each in row.gone])

    def _encode_state(self, name: str, state: NodeState) -> orjson.Fragment:
        known = self._states.get(name)
        if known is None or known[0] is not state:
            # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
            text = bytes(memoryview(encode(state)))
            known = state, text
            self._states.put(name, known, _ENTRY_BYTES + len(text))
        return orjson.Fragment(known[1])


class PodRows(TrackedRows[tuple[str, str], Held]):
    """Rows of kind `reserved_pods` of one cluster: the journal has them one by one, by node and uid."""

    def __init__(self, inventory: Inventory, reservations: Reservations) -> None:
        super().__init__("reserved_pods")
        self._inventory, self._reservations = inventory, reservations
        self.changed = inventory.changed_pods

    def encode(self, key: tuple[str, str]) -> bytes | None:
        """A pod that takes room on a node, as `encode` of a `HeldPod` gives it; None: it does not."""
        name, uid = key
        node = self._inventory.nodes.get(name)
        held = None if node is None else node.held.get(uid)
        if node is None or held is None:
            return None
        return encode_held(held, node.usage.assigned.get(uid))

    def take(self, row: ReservedPodsRow) -> None:
        """Take over all pods of a node as they were written."""
        pods = []
        for item in row.pods:
            kind = kind_of(item.pod)
            pod = share_parts(item.pod, kind)
            held = Held(
                pod=pod,
                demand=kind.demand,
                assigned_at_ms=item.assigned_at_ms,
                decision_id=item.decision_id,
                expires_at_ms=item.expires_at_ms,
                requested_at_ms=item.requested_at_ms,
                attempt=item.attempt,
                sequence=item.sequence,
                list_id=item.list_id,
                place=item.place,
            )
            pods.append(RestoredPod(held, _counted_pod(item, pod), item.counted_at_ms))
            self._reservations.expect_end(held)
        self._inventory.restore_held(row.node, pods)


def encode_held(held: Held, counted: AssignedPod | None) -> bytes:
    """A held pod, as `encode` of a `HeldPod` gives it.

    Args:
        held: the pod and why it is held.
        counted: the pod as it counts for estimation; None: it does not.
    """
    values: dict[str, Any] = {
        "pod": _pod_values(held.pod),
        "assigned_at_ms": held.assigned_at_ms,
        "attempt": held.attempt,
        "place": held.place,
        "sequence": held.sequence,
    }
    if counted is not None:
        values["counted_at_ms"] = counted.cached_at_ms
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
    # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
    text = orjson.dumps(values, default=_fragment, option=orjson.OPT_SORT_KEYS)
    return bytes(memoryview(text))


def _pod_values(pod: Pod) -> dict[str, Any]:
    values = {name: value for name, value in pod.__dict__.items() if value is not None}
    for name in _LARGE:
        if values.get(name):
            values[name] = _encode_part(values[name])
    if pod.owners:
        values["owners"] = orjson.Fragment(_text(pod.owners))
    return values


def _encode_part(part: tuple[BaseModel, ...]) -> orjson.Fragment:
    known = _PARTS.get(id(part))
    if known is not None:
        return known[1]
    text = _text(part)
    fragment = orjson.Fragment(text)
    _PARTS.put(id(part), (part, fragment), _BYTES_PER_CHARACTER * len(text))
    return fragment


def _text(part: tuple[BaseModel, ...]) -> bytes:
    return b"[" + b",".join(map(encode, part)) + b"]"


def _fragment(part: Any) -> orjson.Fragment:
    """Smaller parts that few pods have, such as volume claims."""
    if isinstance(part, BaseModel):
        return orjson.Fragment(encode(part))
    raise TypeError(f"{type(part).__name__} is no part of a pod")


def _counted_pod(item: HeldPod, pod: Pod) -> Pod:
    """The state by which a held pod counts for estimation; `pod` is its newest one."""
    counted = {"labels": item.counted_labels, "annotations": item.counted_annotations}
    update = {name: value for name, value in counted.items() if value is not None}
    return pod.model_copy(update=update) if update else pod


def _metric_values(metric: NodeMetric) -> dict[str, Any]:
    """A metric as `orjson` takes it, with `_values` for what is left; absent optionals left out."""
    values = {name: value for name, value in metric.__dict__.items() if value is not None}
    values["pods"] = [
        {
            "name": pod.name,
            "namespace": pod.namespace,
            "priority_class": pod.priority_class,
            "usage": pod.usage,
        }
        for pod in metric.pods
    ]
    return values


def _values(part: Any) -> dict[str, Any]:
    if isinstance(part, BaseModel):
        return {name: value for name, value in part.__dict__.items() if value is not None}
    raise TypeError(f"{type(part).__name__} is no part of a node")
