"""Which nodes a cluster has and how they are reached, and which pods are on them.

Measurements name nodes by address and pods by namespace and name. Messages need the node's name and
the pod's uid, so the directory follows nodes and pods (list and watch) and keeps just that: about
350 bytes a pod. Until the first list is complete nothing is known, and nothing is measured.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import datetime
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
from schemas.base.quantities import QuantityError, parse_amount

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
#: Port of a kubelet that does not say which one it listens on.
KUBELET_PORT = 10250

#: Labels that name the pool of a node: ours, then those of providers and autoscalers.
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
    """One node."""

    name: str
    addresses: Mapping[str, str]
    """By type: InternalIP, ExternalIP, Hostname ...; the first of each type."""
    kubelet_port: int
    labels: Mapping[str, str]
    capacity: Mapping[str, int] = field(default_factory=dict)
    """status.capacity, by resource."""
    created_at_ms: int | None = None

    @property
    def pool(self) -> str | None:
        """The pool that its labels name; the first label of `POOL_LABELS` counts."""
        return next((name for label in POOL_LABELS if (name := self.labels.get(label))), None)


@dataclass(frozen=True, slots=True)
class KnownPod:
    """Who a pod is."""

    uid: str
    created_at_ms: int


#: Namespace and name.
PodName = tuple[str, str]


class NodePods:
    """The pods of one node, by namespace and name."""

    __slots__ = ("pods", "version")

    def __init__(self) -> None:
        self.pods: dict[PodName, KnownPod] = {}
        self.version = 0
        """Grows with every change."""


_NONE = NodePods()


class Directory:
    """Nodes and pods of one cluster; `run` keeps it up to date."""

    def __init__(self) -> None:
        self.nodes: dict[str, KnownNode] = {}
        self.nodes_version = 0
        """Grows with every node that comes, goes or changes its address."""
        self.nodes_listed = self.pods_listed = False
        """A list of nodes, or of pods, was completed at least once."""
        self._pods: dict[str, NodePods] = {}
        self._by_address: dict[str, str] = {}
        self._followed: list[ListWatch] = []

    @property
    def failing(self) -> str:
        """Why nodes or pods cannot be listed or followed now; empty: nothing is known to fail."""
        return next((each.why for each in self._followed if each.why), "")

    def pods_on(self, node: str) -> NodePods:
        """The pods of a node; not to be changed by the caller."""
        return self._pods.get(node, _NONE)

    def node_of(self, instance: str) -> str | None:
        """The node that a name, an address, or either with a port stands for."""
        for text in (instance, *_without_port(instance)):
            if text in self.nodes:
                return text
            if found := self._by_address.get(text):
                return found
        return None

    async def run(self, server: ApiServer, *, pods: bool = True) -> None:
        """Follow nodes, and pods where sources need them, until it is cancelled."""
        nodes, all_pods = ListWatch(server, NODES), ListWatch(server, PODS)
        self._followed = [nodes, all_pods] if pods else [nodes]
        async with asyncio.TaskGroup() as group:
            group.create_task(_follow(nodes, self.take_nodes))
            if pods:
                group.create_task(_follow(all_pods, self.take_pods))

    async def take_nodes(self, events: AsyncGenerator[Event, None]) -> None:
        """Take in what a list and watch of nodes says."""
        listed: dict[str, KnownNode] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = {}
                case Present(found) if listed is not None:
                    node = _node(found)
                    listed[node.name] = node
                case Ended() if listed is not None:
                    self.set_nodes(listed.values())
                    listed = None
                case Changed(found):
                    node = _node(found)
                    if self.nodes.get(node.name) != node:
                        self.set_nodes([*self.nodes.values(), node])
                case Deleted(found):
                    gone = found["metadata"]["name"]
                    self.set_nodes(each for each in self.nodes.values() if each.name != gone)

    async def take_pods(self, events: AsyncGenerator[Event, None]) -> None:
        """Take in what a list and watch of pods says."""
        listed: dict[str, NodePods] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = {}
                case Present(found) if listed is not None:
                    _put(listed, found)
                case Ended() if listed is not None:
                    for node, new in listed.items():
                        new.version = self.pods_on(node).version + 1
                    self._pods, listed = listed, None
                    self.pods_listed = True
                case Changed(found):
                    _put(self._pods, found)
                case Deleted(found):
                    self._delete(found)

    def set_nodes(self, nodes: Iterable[KnownNode]) -> None:
        """These are all nodes; of one name the last one holds."""
        self.nodes = {node.name: node for node in nodes}
        addresses: dict[str, str] = {}
        ambiguous = set()
        for node in self.nodes.values():
            for address in set(node.addresses.values()):
                if addresses.setdefault(address, node.name) != node.name:
                    ambiguous.add(address)
        # Nodes behind one address cannot be distinguished: no figure is better than another node's.
        self._by_address = {k: v for k, v in addresses.items() if k not in ambiguous}
        self.nodes_version += 1
        self.nodes_listed = True

    def _delete(self, found: Mapping[str, Any]) -> None:
        metadata, node = found["metadata"], found["spec"].get("nodeName")
        there = self._pods.get(node)
        name = (metadata["namespace"], metadata["name"])
        if there is not None and name in there.pods and there.pods[name].uid == metadata["uid"]:
            del there.pods[name]
            there.version += 1


async def _follow(watch: ListWatch, take: Any) -> None:
    async with aclosing(watch.events()) as events:
        await take(events)


def _node(found: Mapping[str, Any]) -> KnownNode:
    status = found.get("status") or {}
    addresses: dict[str, str] = {}
    for each in status.get("addresses") or ():
        addresses.setdefault(each["type"], each["address"])
    endpoints = status.get("daemonEndpoints") or {}
    port = (endpoints.get("kubeletEndpoint") or {}).get("Port") or KUBELET_PORT
    metadata = found["metadata"]
    return KnownNode(
        metadata["name"],
        addresses,
        port,
        metadata.get("labels") or {},
        _capacity(status.get("capacity") or {}),
        parse_time_ms(metadata.get("creationTimestamp")),
    )


def _capacity(listed: Mapping[str, Any]) -> dict[str, int]:
    capacity = {}
    for name, quantity in listed.items():
        with suppress(QuantityError):
            capacity[name] = parse_amount(name, str(quantity))
    return capacity


def _put(pods: dict[str, NodePods], found: Mapping[str, Any]) -> None:
    node = found["spec"].get("nodeName")
    if not node:
        return
    metadata = found["metadata"]
    there = pods.get(node)
    if there is None:
        there = pods[intern(node)] = NodePods()
    name = (intern(metadata["namespace"]), metadata["name"])
    known = there.pods.get(name)
    if known is None or known.uid != metadata["uid"]:
        there.pods[name] = KnownPod(
            metadata["uid"], parse_time_ms(metadata.get("creationTimestamp")) or 0
        )
        there.version += 1


def parse_time_ms(text: object) -> int | None:
    """Milliseconds of a time as Kubernetes writes it (RFC 3339); none: it is no such time."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(moment.timestamp() * 1_000) if moment.tzinfo is not None else None


def _without_port(text: str) -> tuple[str, ...]:
    found = _PORT.match(text)
    return (found[1].strip("[]"),) if found else ()
