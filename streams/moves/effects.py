"""Follows each eviction for a while: did it help?

In comes what was evicted (`evicted`), how the source and the target stand against their thresholds
in each round (`observe`), and the events of the replacement (`arrived`, `seen`, `gone`). Out go, at
a tick, the verdicts (`MoveOutcome`), and from them whether a pool is held back (`backing_off`). It
decides nothing else. The replacement is the first new pod of the owner: a pod does not say which
one it replaces, so of several evictions of one owner the oldest open one takes the next arrival.
Dry evictions are followed too: they show what happens without the move, and count neither for nor
against the pool.
"""

from collections.abc import Mapping
from types import MappingProxyType

from schemas.decisions import AsOf
from schemas.moves import (
    FollowedEvictionRow,
    LoadReading,
    MoveOutcome,
    Phase,
    PoolVerdictsRow,
)
from schemas.pods import Pod, PodRef
from schemas.policy import OVERUTILIZATION_RISK, Policy
from streams.moves.followed import FollowedEvictions, Watched
from streams.moves.left_alone import left_alone
from streams.moves.verdicts import counted, held_back, judge, shortened
from streams.stage.tracked_table import TrackedRows

#: Most evictions that are followed at once; a further one is only counted, as `unfollowed`.
FOLLOWED_MAX = 10_000
#: Usage of a pod of which nothing is known.
NOT_KNOWN: Mapping[str, int] = MappingProxyType({})
_TEXT_MAX = 500


class Effects:
    """Evictions of one cluster that are being followed, and the standing of its pools."""

    def __init__(self, cluster: str, policy: Policy, followed_max: int = FOLLOWED_MAX) -> None:
        self.cluster = cluster
        self.followed_max = followed_max
        self.followed = FollowedEvictions()
        self.pools = TrackedRows[str, PoolVerdictsRow](
            "pool_verdicts", lambda row: row.pool, sorted_keys=True
        )
        """By name."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Follow by another policy.

        Pools that it does not name are forgotten with their verdicts.
        """
        self.args = policy.moves
        self._window_ms = policy.collect.of_node.average_ms
        self.enabled = policy.remembers_moves and policy.moves.min_helped_percent > 0
        named = {pool.name for pool in policy.rebalance.pools(policy.compat)}
        if policy.plugins.balances(OVERUTILIZATION_RISK):
            named.add(OVERUTILIZATION_RISK)
        for pool in [pool for pool in self.pools.rows if pool not in named]:
            self.pools.drop(pool)
        self.followed.follow_for(self.args.follow_seconds * 1000)

    def shorten_waits(self, now_ms: int) -> None:
        """No pool is held back for longer than the policy says from now on."""
        for row in list(self.pools.rows.values()):
            shorter = shortened(row, self.args, now_ms)
            if shorter is not row:
                self.pools.put(shorter)

    # --- what happens -----------------------------------------------------------------------------

    def evicted(
        self,
        *,
        command_id: str,
        migration_id: str,
        pod: PodRef,
        owner: str,
        pool: str,
        phase: Phase,
        source_node: str,
        dry_run: bool,
        now_ms: int,
        peers: tuple[str, ...] = (),
        usage: Mapping[str, int] = NOT_KNOWN,
    ) -> None:
        """A pod was evicted, or said to be. A command is followed once.

        `peers` were as hot as the source when the move was planned; `usage` is what was known of the pod.
        """
        before = self.followed.of_replacement(pod.uid)
        if before is not None and not dry_run:
            # Its arrival is followed no longer, so its departure is not worked out either.
            usage = NOT_KNOWN
            if not before.bounced:
                self.followed.put(before.model_copy(update={"bounced": "evicted again"}))
        if command_id in self.followed.rows:
            return
        if len(self.followed) >= self.followed_max:
            row = self._pool(pool)
            counts = {**row.counts, "unfollowed": row.counts.get("unfollowed", 0) + 1}
            self.pools.put(row.model_copy(update={"counts": dict(sorted(counts.items()))}))
            return
        self.followed.put(
            FollowedEvictionRow(
                cluster=self.cluster,
                command_id=command_id,
                migration_id=migration_id,
                pool=pool,
                phase=phase,
                pod=_reference(pod),
                owner=owner,
                source_node=source_node,
                dry_run=dry_run,
                evicted_at_ms=now_ms,
                peers=peers,
                usage=dict(usage),
            )
        )

    def watched(self) -> list[Watched]:
        """Pools, nodes, and what on them, that `observe` is to be called with in each round; in
        order.
        """
        return self.followed.watched()

    def observe(
        self,
        pool: str,
        node: str,
        phase: Phase,
        used: Mapping[str, int],
        limit: Mapping[str, int],
        capacity: Mapping[str, int],
        now_ms: int,
    ) -> None:
        """How a watched node stands in a round; do not call it for a node without fresh metrics.

        Args:
            pool: the pool that a followed pod left a node for.
            node: the node.
            phase: everything on it, or its prod pods alone.
            used: what is used, per resource.
            limit: the high threshold in force as an amount, of each resource that has one.
            capacity: what percentages are of, per resource.
            now_ms: time of the round.
        """
        rows = self.followed.at((pool, node, phase))
        reading = _nearest(used, limit, capacity, now_ms) if rows else None
        if reading is None:
            return
        for row in rows:
            if row.source_node == node:
                self._observe_source(row, reading)
            elif row.target_node == node:
                self._observe_target(row, reading)
            else:
                self._observe_peer(row, node, used, limit, now_ms)

    def _observe_peer(
        self,
        row: FollowedEvictionRow,
        node: str,
        used: Mapping[str, int],
        limit: Mapping[str, int],
        now_ms: int,
    ) -> None:
        watched = {name: amount for name, amount in used.items() if name in limit}
        alone = left_alone(
            watched,
            node,
            row.phase,
            self.followed.ends(node),
            row.evicted_at_ms,
            now_ms,
            self._window_ms,
        )
        if alone is not None:
            over = any(amount > limit[name] for name, amount in alone.items())
            self._compare(row, peer_rounds=1, peer_hot_rounds=int(over))

    def _observe_source(self, row: FollowedEvictionRow, reading: LoadReading) -> None:
        update: dict[str, object] = {}
        if row.source is None or row.source.over != reading.over:
            update["source"] = reading
            if not reading.over and row.cooled_at_ms is None:
                update["cooled_at_ms"] = reading.read_at_ms
        self._compare(row.model_copy(update=update), rounds=1, hot_rounds=int(reading.over))

    def _compare(self, row: FollowedEvictionRow, **more: int) -> None:
        """Count a look at the source or at a node that it is compared with."""
        counts = row.comparison
        update = {name: getattr(counts, name) + count for name, count in more.items()}
        comparison = counts.model_copy(update=update)
        self.followed.note(row.model_copy(update={"comparison": comparison}))

    def _observe_target(self, row: FollowedEvictionRow, reading: LoadReading) -> None:
        if row.target is None or row.target.over != reading.over:
            update: dict[str, object] = {"target": reading}
            if reading.over and row.overloaded_at_ms is None:
                update["overloaded_at_ms"] = reading.read_at_ms
            self.followed.put(row.model_copy(update=update))

    def arrived(self, owner: str, pod: Pod, node: str, now_ms: int) -> None:
        """A new pod of an owner runs on a node; costs a look-up where none is waited for."""
        row = self.followed.waiting(owner)
        if row is None or pod.uid == row.pod.uid or self.followed.of_replacement(pod.uid):
            return
        self.followed.put(
            row.model_copy(
                update={
                    "replacement": _reference(pod),
                    "target_node": node,
                    "arrived_at_ms": now_ms,
                    "ready_at_ms": now_ms if pod.ready else None,
                    "bounced": "came back" if node == row.source_node else "",
                }
            )
        )

    def seen(self, pod: Pod, now_ms: int) -> None:
        """Something happened to a pod; costs a look-up where it replaces none."""
        row = self.followed.of_replacement(pod.uid)
        if row is not None and pod.ready and row.ready_at_ms is None:
            self.followed.put(row.model_copy(update={"ready_at_ms": now_ms}))

    def gone(self, uid: str) -> None:
        """A pod is gone; if it was a replacement that was never ready, the next one counts."""
        row = self.followed.of_replacement(uid)
        if row is not None and row.ready_at_ms is None and not row.bounced:
            nothing = ("replacement", "target_node", "arrived_at_ms", "target", "overloaded_at_ms")
            self.followed.put(row.model_copy(update=dict.fromkeys(nothing)))

    def tick(self, now_ms: int, as_of: AsOf) -> list[MoveOutcome]:
        """Time has passed: the verdicts that are in, those evicted first before others."""
        return [self._judge(row, now_ms, as_of) for row in self.followed.over(now_ms)]

    # --- answers ----------------------------------------------------------------------------------

    def backing_off(self, pool: str, now_ms: int) -> str | None:
        """Why a pool emits nothing now, with numbers; None: it may."""
        row = self.pools.row(pool)
        return None if row is None or not self.enabled else held_back(row, now_ms)

    # --- verdicts ---------------------------------------------------------------------------------

    def _pool(self, name: str) -> PoolVerdictsRow:
        return self.pools.row(name) or PoolVerdictsRow(cluster=self.cluster, pool=name)

    def _judge(self, row: FollowedEvictionRow, now_ms: int, as_of: AsOf) -> MoveOutcome:
        verdict, message = judge(row, now_ms)
        self.followed.drop(row.command_id)
        pool = self._pool(row.pool)
        self.pools.put(counted(pool, verdict, row.evicted_at_ms, self.args, now_ms))
        return MoveOutcome(
            command_id=row.command_id,
            migration_id=row.migration_id,
            cluster=self.cluster,
            pool=row.pool,
            phase=row.phase,
            pod=row.pod,
            owner=row.owner,
            source_node=row.source_node,
            target_node=row.target_node,
            replacement=row.replacement,
            dry_run=row.dry_run,
            verdict=verdict,
            message=message[:_TEXT_MAX],
            source=row.source,
            cooled_after_ms=_after(row, row.cooled_at_ms),
            target=row.target,
            overloaded_after_ms=_after(row, row.overloaded_at_ms),
            ready_after_ms=_after(row, row.ready_at_ms),
            bounced=row.bounced,
            comparison=row.comparison,
            evicted_at_ms=row.evicted_at_ms,
            judged_at_ms=now_ms,
            as_of=as_of,
        )


def _reference(pod: PodRef) -> PodRef:
    return PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _after(row: FollowedEvictionRow, at_ms: int | None) -> int | None:
    return None if at_ms is None else max(0, at_ms - row.evicted_at_ms)


def _nearest(
    used: Mapping[str, int], limit: Mapping[str, int], capacity: Mapping[str, int], now_ms: int
) -> LoadReading | None:
    """The resource that is furthest above its threshold or nearest to it, in shares of the
    capacity.
    """
    named = [name for name in sorted(limit) if name in used and capacity.get(name, 0) > 0]
    if not named:
        return None
    worst = max(named, key=lambda name: (used[name] - limit[name]) * 1_000_000 // capacity[name])
    return LoadReading(
        resource=worst,
        used=max(0, used[worst]),
        limit=max(0, limit[worst]),
        capacity=capacity[worst],
        read_at_ms=now_ms,
    )
