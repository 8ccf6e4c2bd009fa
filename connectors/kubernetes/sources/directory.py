"""The nodes of a cluster with their addresses, and the uids of the pods on them.

Measurements identify nodes by address, and pods by namespace and name. Messages need the node's name and
the pod's uid. Therefore the directory lists and watches nodes and pods, and keeps about 350 bytes per
pod. Nothing is measured before the first list is complete.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from connectors.kubernetes.api.list_watch import (
    Begun,
    Changed,
    Deleted,
    Ended,
    Event,
    ListWatch,
    Present,
)
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.api.times import parse_time_ms
from schemas.base.quantities import QuantityError, parse_amount

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
#: Default port of a kubelet.
KUBELET_PORT = 10250

#: Labels with the pool of a node: loadstream's label, then labels of providers and autoscalers.
POOL_LABELS = (
    "loadstream.io/pool",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)

_PORT = re.compile(r"^(.*?):[0-9]{1,5}$")


@dataclass(frozen=True, slots=True)
class KnownNode:
    name: str
    addresses: Mapping[str, str]
    """The first address of each type: InternalIP, ExternalIP, Hostname ..."""
    kubelet_port: int
    labels: Mapping[str, str]
    capacity: Mapping[str, int] = field(default_factory=dict)
    """status.capacity, by resource."""
    created_at_ms: int | None = None

    @property
    def pool(self) -> str | None:
        """The pool by the first label of `POOL_LABELS` that the node has."""
        return next((name for label in POOL_LABELS if (name := self.labels.get(label))), None)


@dataclass(frozen=True, slots=True)
class PodIdentity:
    uid: str
    created_at_ms: int


#: Namespace and name.
PodName = tuple[str, str]


class NodePods:
    """The pods of one node, by namespace and name."""

    __slots__ = ("pods", "version")

    def __init__(self) -> None:
        self.pods: dict[PodName, PodIdentity] = {}
        self.version = 0
        """Incremented with every change."""


_NONE = NodePods()


class Directory:
    """Nodes and pods of one cluster; `run` keeps it up to date."""

    def __init__(self) -> None:
        self.nodes: dict[str, KnownNode] = {}
        self.nodes_version = 0
        """Incremented with every change of a node."""
        self.nodes_listed = self.pods_listed = False
        """A list of nodes, or of pods, was completed at least once."""
        self._pods: dict[str, NodePods] = {}
        self._by_address: dict[str, str] = {}
        self._followed: list[ListWatch] = []

    @property
    def failing(self) -> str:
        """Why nodes or pods cannot be listed or watched now; empty: no known failure."""
        return next((list_watch.why for list_watch in self._followed if list_watch.why), "")

    def pods_on(self, node: str) -> NodePods:
        """Return the pods of a node; the caller must not change them."""
        return self._pods.get(node, _NONE)

    def node_of(self, instance: str) -> str | None:
        """Return the name of the node with this name or address, with or without a port."""
        for text in (instance, *_strip_port(instance)):
            if text in self.nodes:
                return text
            if name := self._by_address.get(text):
                return name
        return None

    async def run(self, server: ApiServer, *, pods: bool = True) -> None:
        """Follow nodes, and optionally pods, until it is cancelled."""
        nodes, all_pods = ListWatch(server, NODES), ListWatch(server, PODS)
        self._followed = [nodes, all_pods] if pods else [nodes]
        async with asyncio.TaskGroup() as group:
            group.create_task(nodes.follow(self.take_nodes))
            if pods:
                group.create_task(all_pods.follow(self.take_pods))

    async def take_nodes(self, events: AsyncGenerator[Event, None]) -> None:
        """Apply the events of a list and watch of nodes."""
        listed: dict[str, KnownNode] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = {}
                case Present(obj) if listed is not None:
                    node = _convert_node(obj)
                    listed[node.name] = node
                case Ended() if listed is not None:
                    self.set_nodes(listed.values())
                    listed = None
                case Changed(obj):
                    node = _convert_node(obj)
                    if self.nodes.get(node.name) != node:
                        self.set_nodes([*self.nodes.values(), node])
                case Deleted(obj):
                    deleted = obj["metadata"]["name"]
                    self.set_nodes(node for node in self.nodes.values() if node.name != deleted)

    async def take_pods(self, events: AsyncGenerator[Event, None]) -> None:
        """Apply the events of a list and watch of pods."""
        listed: dict[str, NodePods] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = {}
                case Present(pod) if listed is not None:
                    _put_pod(listed, pod)
                case Ended() if listed is not None:
                    for node, new in listed.items():
                        new.version = self.pods_on(node).version + 1
                    self._pods, listed = listed, None
                    self.pods_listed = True
                case Changed(pod):
                    _put_pod(self._pods, pod)
                case Deleted(pod):
                    self._delete(pod)

    def set_nodes(self, nodes: Iterable[KnownNode]) -> None:
        """Replace all nodes; of several nodes with one name, the last one counts."""
        self.nodes = {node.name: node for node in nodes}
        addresses: dict[str, str] = {}
        ambiguous = set()
        for node in self.nodes.values():
            for address in set(node.addresses.values()):
                if addresses.setdefault(address, node.name) != node.name:
                    ambiguous.add(address)
        # Nodes that share an address cannot be distinguished: no figure is better than a wrong figure.
        self._by_address = {k: v for k, v in addresses.items() if k not in ambiguous}
        self.nodes_version += 1
        self.nodes_listed = True

    def _delete(self, obj: Mapping[str, Any]) -> None:
        metadata, node = obj["metadata"], obj["spec"].get("nodeName")
        on_node = self._pods.get(node)
        name = (metadata["namespace"], metadata["name"])
        pod = None if on_node is None else on_node.pods.get(name)
        if on_node is not None and pod is not None and pod.uid == metadata["uid"]:
            del on_node.pods[name]
            on_node.version += 1


def _convert_node(obj: Mapping[str, Any]) -> KnownNode:
    status = obj.get("status") or {}
    addresses: dict[str, str] = {}
    for address in status.get("addresses") or ():
        addresses.setdefault(address["type"], address["address"])
    endpoints = status.get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port") or KUBELET_PORT
    metadata = obj["metadata"]
    return KnownNode(
        metadata["name"],
        addresses,
        port,
        metadata.get("labels") or {},
        _parse_capacity(status.get("capacity") or {}),
        parse_time_ms(metadata.get("creationTimestamp")),
    )


def _parse_capacity(listed: Mapping[str, Any]) -> dict[str, int]:
    capacity = {}
    for name, quantity in listed.items():
        with suppress(QuantityError):
            capacity[name] = parse_amount(name, str(quantity))
    return capacity


def _put_pod(pods: dict[str, NodePods], obj: Mapping[str, Any]) -> None:
    node = obj["spec"].get("nodeName")
    if not node:
        return
    metadata = obj["metadata"]
    on_node = pods.get(node)
    if on_node is None:
        on_node = pods[intern(node)] = NodePods()
    name = (intern(metadata["namespace"]), metadata["name"])
    identity = on_node.pods.get(name)
    if identity is None or identity.uid != metadata["uid"]:
        on_node.pods[name] = PodIdentity(
            metadata["uid"], parse_time_ms(metadata.get("creationTimestamp")) or 0
        )
        on_node.version += 1


def _strip_port(text: str) -> tuple[str, ...]:
    match = _PORT.match(text)
    return (match[1].strip("[]"),) if match else ()
