"""The record of a round, made from what the round came to: bounded, and what is left out is counted."""

from collections.abc import Mapping

from schemas.pods import PodRef
from schemas.rounds import (
    HOT_NODES_MAX,
    PODS_PER_NODE_MAX,
    HotNode,
    PodVerdict,
    PoolRound,
    Reading,
    RebalanceRound,
    ThresholdsInForce,
)
from streams.cluster.explain import Cause, reference
from streams.rebalance import outcome as made

_GATE_MAX = 500

#: Id of the migration that a round began for a pod, by the pod's uid.
Begun = Mapping[str, str]


def round_record(
    cause: Cause, outcome: made.RoundOutcome, begun: Begun, *, dry_run: bool
) -> RebalanceRound:
    """What a round came to."""
    room = HOT_NODES_MAX
    pools = []
    for pool in outcome.pools:
        pools.append(_pool(pool, begun, room))
        room -= len(pools[-1].hot)
    return _record(
        cause, "rebalancing is paused" if outcome.paused else outcome.ended, pools, dry_run
    )


def no_round(cause: Cause, why: str, *, dry_run: bool) -> RebalanceRound:
    """That a round was due and was not made."""
    return _record(cause, why, [], dry_run)


def _record(cause: Cause, gate: str, pools: list[PoolRound], dry_run: bool) -> RebalanceRound:
    return RebalanceRound(
        round_id=f"r-{cause.decision_id('')}",
        cluster=cause.cluster,
        decided_at_ms=cause.now_ms,
        dry_run=dry_run,
        gate=gate[:_GATE_MAX],
        pools=tuple(pools),
        as_of=cause.as_of,
    )


def _pool(pool: made.PoolOutcome, begun: Begun, room: int) -> PoolRound:
    hot = tuple(_hot(node, begun) for node in pool.hot[:room])
    return PoolRound(
        pool=pool.name,
        nodes=pool.counts(),
        thresholds=_thresholds(pool.thresholds),
        rounds_needed=pool.rounds_needed,
        gate=pool.ended[:_GATE_MAX],
        wanted=sum(node.moved + node.gates["gate"] for node in pool.hot),
        leaving=len(pool.moves),
        hot=hot,
        hot_left_out=len(pool.hot) - len(hot),
    )


def _thresholds(thresholds: made.Thresholds) -> ThresholdsInForce:
    return ThresholdsInForce(
        low=_percents(thresholds.low),
        high=_percents(thresholds.high),
        prod_low=_percents(thresholds.prod_low),
        prod_high=_percents(thresholds.prod_high),
        source=thresholds.source[:_GATE_MAX],
    )


def _percents(percents: made.Percents) -> dict[str, float]:
    return {name: float(percent) for name, percent in percents.items()}


def _hot(node: made.HotNode, begun: Begun) -> HotNode:
    pods = tuple(_verdict(each, begun) for each in node.pods[:PODS_PER_NODE_MAX])
    return HotNode(
        node=node.name,
        phase=node.phase,
        readings={
            name: Reading(used=used, limit=node.limits[name], capacity=node.capacity[name])
            for name, used in node.usage.items()
            if used > node.limits[name]
        },
        abnormal_rounds=node.rounds,
        gate=node.ended[:_GATE_MAX],
        leaving=node.moved,
        pods=pods,
        pods_left_out=node.looked_at - len(pods),
    )


def _verdict(verdict: made.Verdict, begun: Begun) -> PodVerdict:
    pod: PodRef = reference(verdict.pod)
    return PodVerdict(
        pod=pod,
        gate=verdict.message[:_GATE_MAX],
        target=verdict.target,
        usage=dict(verdict.usage),
        migration_id=begun.get(pod.uid) if not verdict.gate else None,
    )
