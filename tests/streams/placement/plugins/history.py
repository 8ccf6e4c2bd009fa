"""Histories of a few nodes, and a filter that follows them the way the placer lets it.

Rows are the nodes in ascending order of names; a change of the nodes moves rows, and a row is
refreshed when it is new or when something changed that the filter says it watches, and at no other
time. After every event the filter's two ways of answering and a plain reading of the rules must
agree.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from schemas.nodes import NodeState
from schemas.pods import Pod
from schemas.policy import LoadAwareSchedulingArgs
from streams.inventory.change import Change
from streams.inventory.estimate import Estimator
from streams.inventory.kind import Kind, kind_of
from streams.inventory.load import NodeLoad
from streams.inventory.node import Held, Node
from streams.placement.plugins.base import Filter
from tests.streams.cluster.strategies import UIDS, node_names, node_states, pods

_ESTIMATOR = Estimator(LoadAwareSchedulingArgs())

Accepts = Callable[[Pod, Node], bool]


@dataclass(frozen=True)
class Removed:
    """A node goes, with the pods on it."""

    node: str


@dataclass(frozen=True)
class Placed:
    """A pod takes room on a node, if that is there."""

    pod: Pod
    node: str


@dataclass(frozen=True)
class Gone:
    """A pod leaves the node that holds it, if any does."""

    uid: str


Event = NodeState | Removed | Placed | Gone


def histories() -> SearchStrategy[list[Event]]:
    """Nodes that appear, then a few events, mostly pods that take room."""
    event: SearchStrategy[Event] = st.one_of(
        node_states(),
        st.builds(Placed, pods(), node_names()),
        st.builds(Placed, pods(), node_names()),
        st.builds(Removed, node_names()),
        st.builds(Gone, st.sampled_from(UIDS)),
    )
    appear: SearchStrategy[list[Event]] = st.lists(node_states(), min_size=1, max_size=5)
    return st.tuples(appear, st.lists(event, max_size=10)).map(lambda parts: parts[0] + parts[1])


def wanted() -> SearchStrategy[list[Kind]]:
    """Kinds that a filter is asked about."""
    return st.lists(pods().map(kind_of), min_size=1, max_size=3)


def new_node(state: NodeState) -> Node:
    """A node as Kubernetes describes it, with nothing on it."""
    node = Node(state.node, NodeLoad(_ESTIMATOR))
    node.describe(state)
    return node


def hold(node: Node, pod: Pod) -> None:
    """Let a pod take room on a node."""
    node.hold(Held(pod=pod, demand=kind_of(pod).demand, assigned_at_ms=0))


class Follower:
    """A filter and the nodes that it knows of."""

    def __init__(self, plugin: Filter, *nodes: Node) -> None:
        self.plugin = plugin
        self.nodes: list[Node] = []
        """By row."""
        self.layout(nodes)

    def layout(self, nodes: Sequence[Node]) -> None:
        """Make these the nodes."""
        rows = {node.name: row for row, node in enumerate(self.nodes)}
        self.nodes = sorted(nodes, key=lambda node: node.name)
        source = [rows.get(node.name, -1) for node in self.nodes]
        self.plugin.relayout(np.array(source, dtype=np.int64))
        for row, old in enumerate(source):
            if old < 0:
                self.plugin.refresh(row, self.nodes[row], 0)

    def apply(self, event: Event) -> None:
        """Let one thing happen."""
        known = {node.name: node for node in self.nodes}
        match event:
            case NodeState() if event.node in known:
                known[event.node].describe(event)
                self._changed(known[event.node], Change.STATE)
            case NodeState():
                self.layout([*self.nodes, new_node(event)])
            case Removed():
                self.layout([node for node in self.nodes if node.name != event.node])
            case Placed() if event.node in known:
                hold(known[event.node], event.pod)
                self._changed(known[event.node], Change.PODS)
            case Gone():
                for node in self.nodes:
                    if node.release(event.uid) is not None:
                        self._changed(node, Change.PODS)

    def passing(self, kind: Kind) -> list[str]:
        """Names of the nodes that pass, by the mask."""
        mask = self.plugin.mask(self.plugin.prepare(kind))
        return [node.name for row, node in enumerate(self.nodes) if mask is None or mask[row]]

    def reasons(self, kind: Kind) -> dict[str, str | None]:
        """Why each node is refused."""
        prepared = self.plugin.prepare(kind)
        return {node.name: self.plugin.reason(prepared, i) for i, node in enumerate(self.nodes)}

    def _changed(self, node: Node, change: int) -> None:
        if change & self.plugin.watches:
            self.plugin.refresh(self.nodes.index(node), node, 0)


def check_history(
    plugin: Filter, history: Sequence[Event], kinds: Sequence[Kind], accepts: Accepts
) -> None:
    """After every event, the mask, the reasons and the rules in plain form agree on every node."""
    follower = Follower(plugin)
    for event in history:
        follower.apply(event)
        for kind in kinds:
            prepared = plugin.prepare(kind)
            mask = plugin.mask(prepared)
            if mask is not None:
                assert mask.shape == (len(follower.nodes),)
                assert mask.dtype == np.bool_
                # The mask is the caller's own: later changes of it must not come back.
                mask[:] = ~mask
            passing = follower.passing(kind)
            for row, node in enumerate(follower.nodes):
                accepted = accepts(kind.pod, node)
                assert (plugin.reason(prepared, row) is None) == accepted
                assert (node.name in passing) == accepted
