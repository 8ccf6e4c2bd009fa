"""How a plugin is driven: refreshed and moved as the placer does it, and asked both ways.

Rows are the nodes in ascending order of names; a change of the nodes moves rows, and a row is
refreshed when it is new or when something changed that the filter says it watches, and at no other
time. After every event the filter's two ways of answering and a plain reading of the rules must
agree.
"""

from collections.abc import Callable, Sequence

import numpy as np

from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Filter, Score
from streams.pods.kind import Kind, kind_of
from tests.streams.builders import at, hold, inventory_node
from tests.streams.cluster.oracle import refresh_all
from tests.streams.strategies import Event, Gone, Placed, Removed

Accepts = Callable[[Pod, Node], bool]


def scores(plugin: Score, asks: Pod, *nodes: Node, seconds: float = 0) -> list[float]:
    """Scores of a plugin that is new to the nodes; both ways say the same."""
    refresh_all(plugin, nodes, at(seconds))
    prepared = plugin.prepare(kind_of(asks))
    found: list[float] = plugin.scores(prepared).tolist()
    assert found == [plugin.score(prepared, row) for row in range(len(nodes))]
    return found


def reason(plugin: Filter, asks: Pod, node: Node, seconds: float = 0) -> str | None:
    """Why a filter that is new to the node refuses it; the mask says the same."""
    refresh_all(plugin, [node], at(seconds))
    prepared = plugin.prepare(kind_of(asks))
    found = plugin.reason(prepared, 0)
    mask = plugin.mask(prepared)
    assert (mask is None or bool(mask[0])) == (found is None)
    return found


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
                self.layout([*self.nodes, inventory_node(event)])
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
