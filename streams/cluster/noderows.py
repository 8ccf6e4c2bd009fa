"""What is known of a node, as JSON: rows of table `nodes`.

A row is written with each metric. It is the same as `encode` makes of a `NodeRow`, but is put
together from parts: what Kubernetes says of the node stays for hours and is encoded once. A metric
has a part for each pod; values that JSON can take unchanged are not copied before.
"""

from typing import Any

import orjson
from pydantic import BaseModel

from schemas.codec import encode
from schemas.metrics import NodeMetric
from schemas.nodes import NodeState
from streams.inventory.node import Node
from streams.stage.sized_cache import SizedCache

#: Encoded states of nodes that are kept, and bytes of them; the one that came first is dropped
#: first.
KEPT_MAX, KEPT_BYTES_MAX = 50_000, 32 * 1024 * 1024
#: Bytes of an entry besides the text; the state is the node's own.
_ENTRY_BYTES = 500


class NodeRows:
    """Encodes rows of nodes; what is kept in between changes nothing in what comes out."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._states = SizedCache[str, tuple[NodeState, bytes]](KEPT_BYTES_MAX, KEPT_MAX)
        """What Kubernetes says of nodes, by name, and its text."""

    def encode(self, name: str, node: Node | None) -> bytes | None:
        """The row of a node, as `encode` of a `NodeRow` gives it; None: nothing is known of it."""
        if node is None or node.state is None:
            self._states.drop(name)  # nodes come under ever new names
        if node is None:
            return None
        load = node.load
        values: dict[str, Any] = {
            "state": None if node.state is None else self._state(name, node.state),
            "metric": None if load.metric is None else _metric(load.metric),
            "metric_time_ms": load.pods.metric_time_ms,
            "list_id": node.list_id,
        }
        values = {name: value for name, value in values.items() if value is not None}
        if not values:
            return None
        values |= {"cluster": self._cluster, "node": name, "schema_version": 1}
        return orjson.dumps(values, default=_other, option=orjson.OPT_SORT_KEYS)

    def _state(self, name: str, state: NodeState) -> orjson.Fragment:
        known = self._states.get(name)
        if known is None or known[0] is not state:
            # A copy: the bytes that orjson hands out keep up to ten times their length allocated.
            text = bytes(memoryview(encode(state)))
            known = state, text
            self._states.put(name, known, _ENTRY_BYTES + len(text))
        return orjson.Fragment(known[1])


def _metric(metric: NodeMetric) -> dict[str, Any]:
    """A metric as `orjson` takes it, with `_other` for what is left; absent optionals left out."""
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


def _other(part: Any) -> dict[str, Any]:
    if isinstance(part, BaseModel):
        return {name: value for name, value in part.__dict__.items() if value is not None}
    raise TypeError(f"{type(part).__name__} is no part of a node")
