"""Decides when the rebalance rounds of one cluster are due, and passes on their results.

    inventory ──▶ balancer ──candidates──▶ move history ──▶ migrations ──▶ commands (in later ticks)
                     │
                     └──▶ the message about the round

Rounds follow log time: at most one per `deschedulingInterval`. The intervals of each cluster are shifted
by a hash of its name, so that the clusters of a partition make their rounds at different ticks. After an
outage, the cluster makes one round, however many it has missed.

The ticks before a round over many nodes prepare it. After an outage or a change of policy, too few such
ticks may have come. Then the round waits for more of them.
"""

import logging
from zlib import crc32

from schemas.policy import OVERUTILIZATION_RISK, Policy
from streams.cluster.round_message import build_round, build_stopped_round
from streams.inventory.inventory import Inventory
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.placement.placer import Exclusions
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Phase
from streams.rebalance.outcome import NodeReadings, RoundOutcome
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

logger = logging.getLogger(__name__)

#: This long before a round, changed nodes are refreshed in the balancer's columns. With more time, most
#: of these nodes would change again; with less, 20,000 nodes would not be refreshed in time.
PREPARATION_MS = 15_000
#: Most nodes that are refreshed between two batches, which takes less than a millisecond.
REFRESHED_BETWEEN_BATCHES_MAX = 10
#: Most nodes that one tick refreshes, which takes a twentieth of a second. Rounds over fewer nodes need no
#: preparation.
REFRESHED_PER_TICK_MAX = 1_000


class Rebalancer:
    """Makes the rounds of one cluster."""

    def __init__(
        self,
        cluster: str,
        inventory: Inventory,
        memory: MoveMemory,
        migrations: Migrations,
        exclusions: Exclusions,
    ) -> None:
        self._inventory, self._memory, self._migrations = inventory, memory, migrations
        self._name_hash = crc32(cluster.encode())
        self.balancer = Balancer(cluster, inventory, exclusions)
        self.last_round_ms: int | None = None
        self.preparation_ticks = 0
        """Number of ticks that have prepared the next round; 0 in clusters with few nodes."""
        self._preparation_failed = False

    def set_policy(self, policy: Policy) -> None:
        # With another policy, the balancer may need other figures of all nodes.
        self.preparation_ticks = 0
        self.balancer.set_policy(policy)

    # --- rounds -----------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> list[OutputMessage]:
        """Make a round if one is due, or prepare the next one."""
        self._inventory.update_index()
        if not self._is_ready(cause.now_ms):
            if self._is_due(cause.now_ms + PREPARATION_MS):
                if self.preparation_ticks < self._preparation_ticks_needed:
                    self.preparation_ticks += 1
                self.prepare(REFRESHED_PER_TICK_MAX)
            return []
        self.preparation_ticks = 0
        self.last_round_ms = cause.now_ms
        self._preparation_failed = False
        dry_run = self._inventory.policy.dry_run
        if self._inventory.paused:
            self.balancer.forget_hot_nodes()
            return [build_stopped_round(cause, "the cluster is paused", dry_run=dry_run)]
        outcome = self.balancer.make_round(cause.now_ms, self._migrations.begin_round(cause))
        self._record_hot_nodes(outcome, cause.now_ms)
        lifecycle = self._migrations.lifecycle
        for row in self._migrations.list_uncommanded_moves():
            reason = _explain_cool(outcome, row.pool, row.source_node, row.watched)
            if reason is not None:
                lifecycle.finish(row, cause, "Aborted", "NodeCooled", reason)
        migration_ids = {row.pod.uid: row.migration_id for row in lifecycle.registry}
        return [build_round(cause, outcome, migration_ids, dry_run=dry_run)]

    def is_large_round_due(self, now_ms: int) -> bool:
        """Tell whether a tick at this time makes a round over many nodes, which takes much of the tick's time."""
        return self._preparation_ticks_needed > 0 and self._is_ready(now_ms)

    @property
    def _preparation_ticks_needed(self) -> int:
        return len(self._inventory.nodes) // REFRESHED_PER_TICK_MAX

    def _is_ready(self, now_ms: int) -> bool:
        return self._is_due(now_ms) and self.preparation_ticks >= self._preparation_ticks_needed

    def _is_due(self, now_ms: int) -> bool:
        interval_ms = self._inventory.policy.descheduling.descheduling_interval_ms
        shift_ms = self._name_hash % interval_ms
        last_ms = self.last_round_ms
        return (
            last_ms is None
            or (now_ms - shift_ms) // interval_ms > (last_ms - shift_ms) // interval_ms
        )

    def prepare(self, nodes_max: int = REFRESHED_BETWEEN_BATCHES_MAX) -> bool:
        """Refresh some changed nodes if a round is near; return False if there is nothing to do.

        The round refreshes the other nodes, so preparation only makes it faster. A worker calls this
        between batches. Ticks call it too, for workers that are never idle.
        """
        inventory = self._inventory
        if inventory.index_stale or not inventory.touched:
            return False
        if self._preparation_failed or not self._is_due(inventory.now_ms + PREPARATION_MS):
            return False
        try:
            self.balancer.refresh(nodes_max)
        except Exception:  # the round will fail in the same way, and `clusters` handles its failure
            logger.exception("cluster %s: cannot prepare the next round", self.balancer.cluster)
            self._preparation_failed = True
        return True

    def _record_hot_nodes(self, outcome: RoundOutcome, now_ms: int) -> None:
        memory = self._memory
        memory.moves.cooldown.record_hot_nodes(outcome.hot_names, now_ms)
        for row in list(memory.followed.rows.values()):
            source_hot = _is_hot(outcome, row.pool, row.source_node, row.phase)
            target_hot = None
            if row.target_node is not None:
                target_hot = _is_hot(outcome, row.pool, row.target_node, row.phase)
            memory.followed.note_hot(row, source_hot, target_hot)

    # --- rows -------------------------------------------------------------------------------------

    def restore(self, last_round_ms: int | None, preparation_ticks: int, hot_nodes: int) -> None:
        """Restore the schedule of rounds; all other rows must be restored before."""
        self.last_round_ms, self.preparation_ticks = last_round_ms, preparation_ticks
        self.balancer.hot_nodes = hot_nodes
        if preparation_ticks:
            # Earlier ticks did this before the restart.
            self._inventory.update_index()
            self.prepare(len(self._inventory.nodes))


def _explain_cool(outcome: RoundOutcome, pool_name: str, node: str, phase: Phase) -> str | None:
    """Return why a node is no longer hot; None if it is hot or was not part of the round.

    Only measured usage counts, which includes pods that are still leaving.
    """
    if pool_name == OVERUTILIZATION_RISK:
        risk_pools = (pool for pool in outcome.pools if pool.name == OVERUTILIZATION_RISK)
        if all(pool.get_class(node) != "normal" for pool in risk_pools):
            return None
        return f"node {node} is no longer at risk: its cost is below the gain that a move needs"
    readings = _find_readings(outcome, pool_name, node, phase)
    if readings is None or readings.is_hot:
        return None
    if not readings.used:
        subject = "it" if phase == "node" else "its prod pods"
        return f"node {node} is no longer hot: the policy has no high threshold for {subject}"
    shares = [
        f"{name} {_format_percentage(used, readings.capacity[name])}, not above "
        f"{_format_percentage(readings.limit[name], readings.capacity[name])}"
        for name, used in readings.used.items()
    ]
    return f"node {node} is no longer hot: {'; '.join(shares)}"


def _is_hot(outcome: RoundOutcome, pool: str, node: str, phase: Phase) -> bool | None:
    readings = _find_readings(outcome, pool, node, phase)
    return None if readings is None or not readings.used else readings.is_hot


def _find_readings(
    outcome: RoundOutcome, pool_name: str, node: str, phase: Phase
) -> NodeReadings | None:
    """Return the readings of a node by the strategy of a pool; None if the round has none.

    The node may be in another pool of the same strategy now.
    """
    by_risk = pool_name == OVERUTILIZATION_RISK
    for pool in outcome.pools:
        if pool.readings is not None and (pool.name == OVERUTILIZATION_RISK) == by_risk:
            readings = pool.readings.find_readings(node, phase)
            if readings is not None:
                return readings
    return None


def _format_percentage(amount: int, capacity: int) -> str:
    return f"{100 * amount / capacity if capacity else 0:.2f} %"
