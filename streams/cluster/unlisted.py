"""What the full lists that ended last lack is removed, a bounded number at each record and tick."""

from itertools import islice

from streams.cluster.placement import Placement
from streams.inventory.full_lists import find_unlisted_pods
from streams.inventory.inventory import Inventory
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.rebalance.balancer import Balancer
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Pods that the end of a full list, and each tick after it, removes at most: a tenth of a second.
UNLISTED_PER_RECORD_MAX = 5_000
#: The same of nodes, whose rows are larger.
UNLISTED_NODES_PER_RECORD_MAX = 1_000
#: A pod that waits counts as this many of them: its requester gets a decision.
UNLISTED_REQUEST = 5


class Unlisted:
    """Nodes and pods of one cluster that its newest full lists do not name."""

    def __init__(
        self,
        inventory: Inventory,
        placement: Placement,
        migrations: Migrations,
        memory: MoveMemory,
        balancer: Balancer,
    ) -> None:
        self.inventory, self.placement = inventory, placement
        self.migrations, self.memory = migrations, memory
        self.balancer = balancer

    def remove_nodes(self, cause: Cause) -> None:
        """Remove nodes that the full list lacks which ended last, a bounded number at a time."""
        ending = self.inventory.lists.ending.get("node-state")
        if ending is None:
            return
        if self.inventory.remove_unlisted_nodes(ending[0], UNLISTED_NODES_PER_RECORD_MAX):
            del self.inventory.lists.ending["node-state"]
        counted = self.balancer.rounds.counters.rows
        for name in dict.fromkeys((*self.memory.moves.cooldown.rows, *counted)):
            node = self.inventory.nodes.get(name)
            if node is None or node.state is None:
                self.memory.moves.node_gone(name)
                self.balancer.node_gone(name)
        self.migrations.nodes_gone(cause)

    def remove_pods(self, cause: Cause) -> list[OutputMessage]:
        """The same of pods."""
        ending = self.inventory.lists.ending.get("pod-lifecycle")
        if ending is None:
            return []
        list_id, begin = ending
        left = UNLISTED_PER_RECORD_MAX
        decisions: list[OutputMessage] = []
        for uid in self.placement.pending.unlisted(list_id, begin, left // UNLISTED_REQUEST):
            decisions += self.placement.gone(uid, cause, "the pod is not there any more")
            self.migrations.gone(uid, cause)
            left -= UNLISTED_REQUEST
        for uid in list(
            islice(find_unlisted_pods(self.inventory.nodes, list_id, begin), max(0, left))
        ):
            decisions += self.placement.gone(uid, cause, "the pod is not there any more")
            self.migrations.gone(uid, cause)
            self.inventory.release(uid)
            left -= 1
        if left > 0:
            del self.inventory.lists.ending["pod-lifecycle"]
        return decisions
