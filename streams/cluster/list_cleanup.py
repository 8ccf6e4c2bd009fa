"""Removes nodes and pods that the latest full list does not contain, a limited number per record."""

from itertools import islice

from streams.cluster.placement import Placement
from streams.inventory.full_lists import find_unlisted_pods
from streams.inventory.inventory import Inventory
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.rebalance.balancer import Balancer
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

#: Most pods that one record (the end of a list, or a later tick) removes, in a tenth of a second.
UNLISTED_PER_RECORD_MAX = 5_000
#: Most nodes that one record removes. Rows of nodes are larger than rows of pods.
UNLISTED_NODES_PER_RECORD_MAX = 1_000
#: A waiting pod counts as this many pods, because its request gets a decision.
_PODS_PER_REQUEST = 5


class ListCleanup:
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
        ending = self.inventory.lists.ending.get("node-state")
        if ending is None:
            return
        if self.inventory.remove_unlisted_nodes(ending[0], UNLISTED_NODES_PER_RECORD_MAX):
            del self.inventory.lists.ending["node-state"]
        counter_rows = self.balancer.rounds.counters.rows
        for name in dict.fromkeys((*self.memory.moves.cooldown.rows, *counter_rows)):
            node = self.inventory.nodes.get(name)
            if node is None or node.state is None:
                self.memory.moves.cooldown.drop(name)
                self.balancer.remove_node(name)
        self.migrations.drains.remove_gone(cause)

    def remove_pods(self, cause: Cause) -> list[OutputMessage]:
        ending = self.inventory.lists.ending.get("pod-lifecycle")
        if ending is None:
            return []
        list_id, begin = ending
        budget = UNLISTED_PER_RECORD_MAX
        decisions: list[OutputMessage] = []
        for uid in self.placement.pending.list_unlisted(
            list_id, begin, budget // _PODS_PER_REQUEST
        ):
            decisions += self.placement.withdraw(uid, cause, "the pod no longer exists")
            self.migrations.handle_gone(uid, cause)
            budget -= _PODS_PER_REQUEST
        for uid in list(
            islice(find_unlisted_pods(self.inventory.nodes, list_id, begin), max(0, budget))
        ):
            decisions += self.placement.withdraw(uid, cause, "the pod no longer exists")
            self.migrations.handle_gone(uid, cause)
            self.inventory.release(uid)
            budget -= 1
        if budget > 0:
            del self.inventory.lists.ending["pod-lifecycle"]
        return decisions
