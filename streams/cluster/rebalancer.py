"""Rebalance rounds of one cluster: when they are due, and what happens with their results.

    inventory ──▶ balancer ──candidates──▶ move history ──▶ migrations ──▶ commands (in later ticks)
                     │
                     └──▶ the message about the round

Rounds follow log time: at most one per `deschedulingInterval`. Each cluster has its own phase, so that
the clusters of a partition do not all make their rounds at the same tick. After an outage one round is
made, not all that were missed.

A round over many nodes is prepared at the ticks before it is due. After an outage or a change of policy
there may have been too few of these ticks; then the round is delayed until it is prepared.
"""

import logging
from zlib import crc32

from schemas.policy import OVERUTILIZATION_RISK, Policy
from streams.cluster.rounds import build_round, build_stopped_round
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

#: Changed nodes are refreshed in the balancer's columns this long before a round. Earlier, most of
#: them would change again; later, 20,000 nodes would not be done in time.
AHEAD_MS = 15_000
#: Most nodes that are refreshed at a time between batches, which takes less than a millisecond.
REFRESHED_AT_ONCE = 10
#: Most nodes that one tick refreshes, which takes a twentieth of a second. Rounds over fewer nodes are
#: not prepared.
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
        self._phase = crc32(cluster.encode())
        self.balancer = Balancer(cluster, inventory, exclusions)
        self.last_round_ms: int | None = None
        self.preparation_ticks = 0
        """Ticks that have prepared the next round; 0 for clusters with few nodes."""
        self._preparation_failed = False

    def set_policy(self, policy: Policy) -> None:
        # The balancer may need other figures of all nodes.
        self.preparation_ticks = 0
        self.balancer.set_policy(policy)

    # --- rounds -----------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> list[OutputMessage]:
        """Make a round if one is due, or prepare the next one."""
        self._inventory.update_index()
        if not self._is_ready(cause.now_ms):
            if self._is_due(cause.now_ms + AHEAD_MS):
                self.preparation_ticks += self.preparation_ticks < self._preparation_ticks_needed
                self.prepare(REFRESHED_PER_TICK_MAX)
            return []
        self.preparation_ticks = 0
        self.last_round_ms = cause.now_ms
        self._preparation_failed = False
        dry_run = self._inventory.policy.dry_run
        if self._inventory.context.paused:
            self.balancer.forget_hot_nodes()
            return [build_stopped_round(cause, "the cluster is paused", dry_run=dry_run)]
        outcome = self.balancer.round(cause.now_ms, self._migrations.begin_round(cause))
        self._record_hot_nodes(outcome, cause.now_ms)
        for row in self._migrations.list_uncommanded_moves():
            cool = _explain_cool(outcome, row.pool, row.source_node, row.watched)
            if cool is not None:
                lifecycle = self._migrations.lifecycle
                lifecycle.finish(row, cause, "Aborted", "NodeCooled", cool)
        begun = {row.pod.uid: row.migration_id for row in self._migrations.lifecycle.registry}
        return [build_round(cause, outcome, begun, dry_run=dry_run)]

    def is_large_round_due(self, now_ms: int) -> bool:
        """Whether a tick of this time makes a round over many nodes, which leaves little time for more."""
        return self.is_large and self._is_ready(now_ms)

    @property
    def is_large(self) -> bool:
        """Whether rounds are prepared over several ticks, because one tick would take too long."""
        return self._preparation_ticks_needed > 0

    @property
    def _preparation_ticks_needed(self) -> int:
        return len(self._inventory.nodes) // REFRESHED_PER_TICK_MAX

    def _is_ready(self, now_ms: int) -> bool:
        return self._is_due(now_ms) and self.preparation_ticks >= self._preparation_ticks_needed

    def _is_due(self, now_ms: int) -> bool:
        interval_ms = self._inventory.policy.descheduling.descheduling_interval_ms
        shift_ms = self._phase % interval_ms
        last_ms = self.last_round_ms
        return (
            last_ms is None
            or (now_ms - shift_ms) // interval_ms > (last_ms - shift_ms) // interval_ms
        )

    def prepare(self, most: int = REFRESHED_AT_ONCE) -> bool:
        """Refresh some changed nodes if a round is near; return False if there is nothing to do.

        The round refreshes the rest, so this only makes it faster. A worker calls this between
        batches; ticks do the same for a worker that is never idle.
        """
        inventory = self._inventory
        if inventory.index_stale or not inventory.touched:
            return False
        if self._preparation_failed or not self._is_due(inventory.now_ms + AHEAD_MS):
            return False
        try:
            self.balancer.refresh(most)
        except Exception:  # the round fails in the same way, and `clusters` handles that
            logger.exception("cluster %s: cannot prepare the next round", self.balancer.cluster)
            self._preparation_failed = True
        return True

    def _record_hot_nodes(self, outcome: RoundOutcome, now_ms: int) -> None:
        memory = self._memory
        memory.moves.record_hot_nodes(outcome.hot_names, now_ms)
        for row in memory.followed.list_rows():
            source_hot = _is_hot(outcome, row.pool, row.source_node, row.phase)
            target_hot = None
            if row.target_node is not None:
                target_hot = _is_hot(outcome, row.pool, row.target_node, row.phase)
            memory.followed.note_hot(row, source_hot, target_hot)

    # --- rows -------------------------------------------------------------------------------------

    def restore(self, last_round_ms: int | None, preparation_ticks: int, hot_nodes: int) -> None:
        """Continue after all rows are restored."""
        self.last_round_ms, self.preparation_ticks = last_round_ms, preparation_ticks
        self.balancer.hot_nodes = hot_nodes
        if preparation_ticks:
            # Earlier ticks did this before the restart.
            self._inventory.update_index()
            self.prepare(len(self._inventory.nodes))


def _explain_cool(outcome: RoundOutcome, name: str, node: str, phase: Phase) -> str | None:
    """Return why a node is no longer hot; None if it is hot or the round has not judged it.

    Only measured usage counts, which includes pods that are still leaving.
    """
    if name == OVERUTILIZATION_RISK:
        by_risk = (pool for pool in outcome.pools if pool.name == OVERUTILIZATION_RISK)
        if all(pool.get_class(node) != "normal" for pool in by_risk):
            return None
        return f"node {node} is no longer at risk: it costs less than a move must gain"
    readings = _find_readings(outcome, name, node, phase)
    if readings is None or readings.is_hot:
        return None
    if not readings.used:
        whose = "it" if phase == "node" else "its prod pods"
        return f"node {node} is no longer hot: the policy has no high threshold for {whose}"
    shares = [
        f"{name} {_percentage(used, readings.capacity[name])}, not above "
        f"{_percentage(readings.limit[name], readings.capacity[name])}"
        for name, used in readings.used.items()
    ]
    return f"node {node} is no longer hot: {'; '.join(shares)}"


def _is_hot(outcome: RoundOutcome, pool: str, node: str, phase: Phase) -> bool | None:
    readings = _find_readings(outcome, pool, node, phase)
    return None if readings is None or not readings.used else readings.is_hot


def _find_readings(
    outcome: RoundOutcome, name: str, node: str, phase: Phase
) -> NodeReadings | None:
    """Return the readings of a node by the strategy of a pool; None if the round has not judged it.

    The node may be in another pool of the same strategy now.
    """
    by_risk = name == OVERUTILIZATION_RISK
    for pool in outcome.pools:
        if pool.readings is not None and (pool.name == OVERUTILIZATION_RISK) == by_risk:
            readings = pool.readings.find_readings(node, phase)
            if readings is not None:
                return readings
    return None


def _percentage(amount: int, capacity: int) -> str:
    return f"{100 * amount / capacity if capacity else 0:.2f} %"
