"""Rounds of one cluster: when one is due, what it meets, and what is remembered of it.

    inventory ──▶ balancer ──proposals──▶ memory of moves ──▶ migrations ──▶ commands (at their own pace)
                     │
                     └──▶ the record of the round

Rounds follow the log's clock: at most one per `deschedulingInterval`. Each cluster has times of its
own, so that the clusters of a partition do not all make their rounds at one tick. After an outage
one round is made, not all that were missed. A round over many nodes is prepared at the ticks before
it is due. If there were too few of them, after an outage or a change of policy, the round is
delayed by the ticks that are missing.
"""

import logging
from functools import partial
from zlib import crc32

from schemas.policy import OVERUTILIZATION_RISK, Policy
from streams.cluster.round_rules import RoundRules
from streams.cluster.rounds import no_round, round_record
from streams.inventory.inventory import Inventory
from streams.migration.migrations import Migrations
from streams.moves.memory import MoveMemory
from streams.placement.exclusions import Exclusions
from streams.rebalance.balancer import Balancer
from streams.rebalance.candidates import Phase
from streams.rebalance.outcome import NodeStanding, RoundOutcome
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

logger = logging.getLogger(__name__)

#: Time before a round, in milliseconds, in which figures of changed nodes are packed ahead of it.
#: Earlier they would be packed again and again; 20,000 nodes take this long at the pace of work
#: beside batches.
AHEAD_MS = 15_000
#: Most nodes that are packed at a time, which takes less than a millisecond.
PACKED_AT_ONCE = 10
#: Most nodes that one tick packs ahead of a round, and fewest that make a round wait for it: a
#: twentieth of a second.
PACKED_PER_TICK_MAX = 1_000


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
        self._exclusions = exclusions
        self._phase = crc32(cluster.encode())
        self.balancer = Balancer(cluster, inventory.policy, inventory)
        self.last_round_ms: int | None = None
        self.ticks_ahead = 0
        """Ticks that have packed nodes for the next round; kept of clusters with many nodes."""
        self._unprepared = False
        """Packing ahead of the next round has failed."""

    def set_policy(self, policy: Policy) -> None:
        """Make rounds by another policy; it may look at other figures of all nodes."""
        self.ticks_ahead = 0
        self.balancer.set_policy(policy)

    # --- rounds -----------------------------------------------------------------------------------

    def tick(self, cause: Cause) -> list[OutputMessage]:
        """Time has passed: make a round if one is due."""
        self._inventory.lay_out()
        if not self._ready(cause.now_ms):
            if self._due(cause.now_ms + AHEAD_MS):
                self.ticks_ahead += self.ticks_ahead < self._ticks_needed
                self.prepare(PACKED_PER_TICK_MAX)
            return []
        self.ticks_ahead = 0
        self.last_round_ms = cause.now_ms
        self._unprepared = False
        dry_run = self._inventory.policy.dry_run
        if self._inventory.context.paused:
            self.balancer.round(cause.now_ms, paused=True)
            return [no_round(cause, "the cluster is paused", dry_run=dry_run)]
        outcome = self._round(cause)
        self._remember(outcome, cause.now_ms)
        for row in self._migrations.list_uncommanded_moves():
            cool = _explain_cool(outcome, row.pool, row.source_node, row.watched)
            if cool is not None:
                self._migrations.abort_cooled(row, cool, cause)
        begun = {row.pod.uid: row.migration_id for row in self._migrations.lifecycle.registry}
        return [round_record(cause, outcome, begun, dry_run=dry_run)]

    def takes_long(self, now_ms: int) -> bool:
        """Whether a tick of this time makes a round over many nodes, so that little else should be
        done at it.
        """
        return self.large and self._ready(now_ms)

    @property
    def large(self) -> bool:
        """Rounds over the nodes are too long for one tick: they are prepared over ticks before."""
        return self._ticks_needed > 0

    @property
    def _ticks_needed(self) -> int:
        """Ticks that packing all nodes takes; 0: a round over so few takes no preparation."""
        return len(self._inventory.nodes) // PACKED_PER_TICK_MAX

    def _ready(self, now_ms: int) -> bool:
        """Whether a round is due, and what it takes was prepared."""
        return self._due(now_ms) and self.ticks_ahead >= self._ticks_needed

    def _due(self, now_ms: int) -> bool:
        """Whether a time for a round has passed since the last one."""
        interval_ms = self._inventory.policy.descheduling.descheduling_interval_ms
        shift_ms = self._phase % interval_ms
        last_ms = self.last_round_ms
        return (
            last_ms is None
            or (now_ms - shift_ms) // interval_ms > (last_ms - shift_ms) // interval_ms
        )

    def prepare(self, most: int = PACKED_AT_ONCE) -> bool:
        """Pack some changed nodes if a round is near; False: none is, or no node has changed.

        A round packs what is left, so this changes nothing but how long that takes. A worker does
        it beside its batches; one that is never idle does it at ticks.
        """
        inventory = self._inventory
        if inventory.layout_stale or not inventory.touched:
            return False
        if self._unprepared or not self._due(inventory.now_ms + AHEAD_MS):
            return False
        try:
            self.balancer.refresh(most)
        except Exception:  # the round meets it again, and there it is answered for
            logger.exception("cluster %s: a changed node cannot be packed", self.balancer.cluster)
            self._unprepared = True
        return True

    def _round(self, cause: Cause) -> RoundOutcome:
        self._migrations.begin_round()
        rules = RoundRules(self._migrations, self._memory, self._exclusions, cause)
        return self.balancer.round(cause.now_ms, rules)

    def _remember(self, outcome: RoundOutcome, now_ms: int) -> None:
        """Let the memory of moves know what the round saw."""
        memory = self._memory
        memory.moves.observe(outcome.hot_names, now_ms)
        memory.followed.note_round(partial(_is_hot, outcome))

    # --- rows -------------------------------------------------------------------------------------

    def restored(self, last_round_ms: int | None, ticks_ahead: int, hot_nodes: int) -> None:
        """Nodes, pods and tables are there again: go on with rounds as before."""
        self.last_round_ms, self.ticks_ahead = last_round_ms, ticks_ahead
        self.balancer.hot_nodes = hot_nodes
        self._inventory.move_thresholds()
        if ticks_ahead:
            # The ticks before have done so; the round must not do all of it.
            self._inventory.lay_out()
            self.prepare(len(self._inventory.nodes))


def _explain_cool(outcome: RoundOutcome, name: str, node: str, phase: Phase) -> str | None:
    """How far a node is below its high thresholds; None: it is not, or the round has not judged it.

    What is measured counts alone: pods that are on their way are still part of it. Who leaves
    because of risk does so before the node is hot, as long as it costs as much as a move must gain.
    """
    if name == OVERUTILIZATION_RISK:
        return _calm(outcome, node)
    reading = _reading(outcome, name, node, phase)
    if reading is None or reading.is_hot:
        return None
    if not reading.used:
        whose = "it" if phase == "node" else "its prod pods"
        return f"node {node} is hot no more: the policy has no high threshold for {whose}"
    shares = [
        f"{name} {_percentage(used, reading.capacity[name])}, not above "
        f"{_percentage(reading.limit[name], reading.capacity[name])}"
        for name, used in reading.used.items()
    ]
    return f"node {node} is hot no more: {'; '.join(shares)}"


def _is_hot(outcome: RoundOutcome, pool: str, node: str, phase: Phase) -> bool | None:
    reading = _reading(outcome, pool, node, phase)
    return None if reading is None or not reading.used else reading.is_hot


def _calm(outcome: RoundOutcome, node: str) -> str | None:
    """That a node is at risk no more; None: it is, or the round has not judged it by risk."""
    by_risk = (pool for pool in outcome.pools if pool.name == OVERUTILIZATION_RISK)
    if all(pool.class_of(node) != "normal" for pool in by_risk):
        return None
    return (
        f"node {node} is at risk no more: with all of its pods it costs less than a move must gain"
    )


def _reading(outcome: RoundOutcome, name: str, node: str, phase: Phase) -> NodeStanding | None:
    """How a node stands in the round by the strategy that a pool is of; None: it was not judged.

    A node may be of another pool than before, and is still judged.
    """
    by_risk = name == OVERUTILIZATION_RISK
    for pool in outcome.pools:
        if pool.readings is not None and (pool.name == OVERUTILIZATION_RISK) == by_risk:
            reading = pool.readings(node, phase)
            if reading is not None:
                return reading
    return None


def _percentage(amount: int, capacity: int) -> str:
    """An amount as a share of a capacity."""
    return f"{100 * amount / capacity if capacity else 0:.2f} %"
