"""The message about a round. Its size is bounded: long lists are cut, and the rest is counted."""

from collections.abc import Mapping
from typing import Any

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.rounds import HOT_NODES_MAX, PERCENT_MAX, PODS_PER_NODE_MAX
from streams.rebalance.outcome import (
    HotNodeOutcome,
    Percents,
    PoolOutcome,
    PoolThresholds,
    RoundOutcome,
    Verdict,
)
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

_GATE_CHARACTERS_MAX = 500
#: Most characters of all verdicts in one message; four bytes per character stay within a record.
_VERDICTS_CHARACTERS_MAX = VALUE_BYTES_MAX // 4
#: Most characters of a verdict without its texts and amounts, and of one amount.
_VERDICT_CHARACTERS, _AMOUNT_CHARACTERS = 300, 24

#: Ids of the cluster's migrations by the pod's uid.
MigrationIds = Mapping[str, str]
#: Fields of the message or of a part of it.
Fields = dict[str, Any]


def build_round(
    cause: Cause, outcome: RoundOutcome, migration_ids: MigrationIds, *, dry_run: bool
) -> OutputMessage:
    nodes_left = HOT_NODES_MAX
    verdicts = _VerdictBuilder(migration_ids)
    pools = []
    for pool in outcome.pools:
        pools.append(_build_pool(pool, verdicts, nodes_left))
        nodes_left -= len(pools[-1]["hot"])
    return _build_message(cause, outcome.end_reason, pools, dry_run)


def build_stopped_round(cause: Cause, reason: str, *, dry_run: bool) -> OutputMessage:
    """Build the message that a due round was not made."""
    return _build_message(cause, reason, [], dry_run)


def _build_message(cause: Cause, gate: str, pools: list[Fields], dry_run: bool) -> OutputMessage:
    fields = {
        "schema_version": 1,
        "kind": "round",
        "round_id": f"r-{cause.build_decision_id('')}",
        "cluster": cause.cluster,
        "decided_at_ms": cause.now_ms,
        "dry_run": dry_run,
        "gate": gate[:_GATE_CHARACTERS_MAX],
        "pools": pools,
        "as_of": cause.as_of,
    }
    return OutputMessage("status", fields)


class _VerdictBuilder:
    """Builds verdicts on pods until the message has no room for more."""

    def __init__(self, migration_ids: MigrationIds) -> None:
        self._migration_ids = migration_ids
        self._characters_left = _VERDICTS_CHARACTERS_MAX

    def build(self, node: HotNodeOutcome) -> list[Fields]:
        verdicts = []
        for verdict in node.pods[:PODS_PER_NODE_MAX]:
            fields = _build_verdict(verdict, self._migration_ids)
            self._characters_left -= _count_characters(fields)
            if self._characters_left < 0:
                break
            verdicts.append(fields)
        return verdicts


def _count_characters(verdict: Fields) -> int:
    texts = (
        *verdict["pod"].values(), verdict["gate"], verdict.get("target", ""), *verdict["usage"],
    )  # fmt: skip
    amounts = _AMOUNT_CHARACTERS * len(verdict["usage"])
    return _VERDICT_CHARACTERS + amounts + sum(map(len, texts))


def _build_pool(pool: PoolOutcome, verdicts: _VerdictBuilder, nodes_max: int) -> Fields:
    hot = [_build_hot_node(node, verdicts) for node in pool.hot[:nodes_max]]
    return {
        "pool": pool.name,
        "nodes": pool.class_counts,
        "thresholds": _build_thresholds(pool.thresholds),
        "rounds_needed": pool.rounds_needed,
        "memory": pool.memory,
        "gate": pool.end_reason[:_GATE_CHARACTERS_MAX],
        "wanted": sum(node.moved + node.gates["gate"] for node in pool.hot),
        "leaving": len(pool.moves),
        "hot": hot,
        "hot_left_out": max(len(pool.hot), len(pool.hot_names)) - len(hot),
    }


def _build_thresholds(thresholds: PoolThresholds) -> Fields:
    maps = (thresholds.low, thresholds.high, thresholds.prod_low, thresholds.prod_high)
    notes = []
    if any(percent > PERCENT_MAX for percents in maps for percent in percents.values()):
        notes.append(f"thresholds above {PERCENT_MAX} % are shown as {PERCENT_MAX} %")
    notes.append(thresholds.source)
    return {
        "low": _cap_percents(thresholds.low),
        "high": _cap_percents(thresholds.high),
        "prod_low": _cap_percents(thresholds.prod_low),
        "prod_high": _cap_percents(thresholds.prod_high),
        "source": "; ".join(notes)[:_GATE_CHARACTERS_MAX],
    }


def _cap_percents(percents: Percents) -> dict[str, float]:
    return {name: min(float(percent), float(PERCENT_MAX)) for name, percent in percents.items()}


def _build_hot_node(node: HotNodeOutcome, verdicts: _VerdictBuilder) -> Fields:
    pods, readings = verdicts.build(node), node.readings
    fields = {
        "node": node.name,
        "phase": node.phase,
        "readings": {
            name: {"used": used, "limit": limit, "capacity": readings.capacity[name]}
            for name, used in readings.used.items()
            if used > (limit := readings.limit[name])
        },
        "abnormal_rounds": node.rounds,
        "gate": node.end_reason[:_GATE_CHARACTERS_MAX],
        "leaving": node.moved,
        "pods": pods,
        "pods_left_out": node.checked - len(pods),
    }
    if node.cost is not None:
        fields["cost"] = _clip_cost(node.cost)
    return fields


def _build_verdict(verdict: Verdict, migration_ids: MigrationIds) -> Fields:
    pod = verdict.pod
    fields: Fields = {
        "pod": pod.ref_fields,
        "gate": verdict.message[:_GATE_CHARACTERS_MAX],
        "usage": dict(verdict.usage),
    }
    if verdict.target is not None:
        fields["target"] = verdict.target
    if not verdict.gate and pod.uid in migration_ids:
        fields["migration_id"] = migration_ids[pod.uid]
    if verdict.costs is not None:
        names = ("source_before", "source_after", "target_before", "target_after")
        fields["costs"] = dict(zip(names, map(_clip_cost, verdict.costs), strict=True))
    return fields


def _clip_cost(cost: float) -> float:
    # Rounding errors may make a cost negative.
    return max(0.0, float(cost))
