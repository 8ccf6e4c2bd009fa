"""The message about a round. Its size is bounded; it counts what it leaves out."""

from collections.abc import Mapping
from typing import Any

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.rounds import HOT_NODES_MAX, PERCENT_MAX, PODS_PER_NODE_MAX
from streams.rebalance import outcome as results
from streams.stage.cause import Cause
from streams.stage.records import OutputMessage

_GATE_MAX = 500
#: Most characters of all verdicts in one message; four bytes per character stay within a record.
_VERDICTS_CHARACTERS_MAX = VALUE_BYTES_MAX // 4
#: Characters of a verdict besides its texts, and of an amount in it.
_VERDICT_CHARACTERS, _AMOUNT_CHARACTERS = 300, 24

#: Ids of the migrations that a round began, by the pod's uid.
MigrationIds = Mapping[str, str]
#: Fields of a part of the message.
Fields = dict[str, Any]


def build_round(
    cause: Cause, outcome: results.RoundOutcome, begun: MigrationIds, *, dry_run: bool
) -> OutputMessage:
    room = HOT_NODES_MAX
    verdicts = _Verdicts(begun)
    pools = []
    for pool in outcome.pools:
        pools.append(_build_pool(pool, verdicts, room))
        room -= len(pools[-1]["hot"])
    return _build_message(cause, outcome.ended, pools, dry_run)


def build_stopped_round(cause: Cause, reason: str, *, dry_run: bool) -> OutputMessage:
    """Build the message that a round was due and was not made."""
    return _build_message(cause, reason, [], dry_run)


def _build_message(cause: Cause, gate: str, pools: list[Fields], dry_run: bool) -> OutputMessage:
    fields = {
        "schema_version": 1,
        "kind": "round",
        "round_id": f"r-{cause.build_decision_id('')}",
        "cluster": cause.cluster,
        "decided_at_ms": cause.now_ms,
        "dry_run": dry_run,
        "gate": gate[:_GATE_MAX],
        "pools": pools,
        "as_of": cause.as_of,
    }
    return OutputMessage("status", fields)


class _Verdicts:
    """Verdicts on pods, as many as fit into one message."""

    def __init__(self, begun: MigrationIds) -> None:
        self._begun = begun
        self._room = _VERDICTS_CHARACTERS_MAX

    def of(self, node: results.HotNodeOutcome) -> list[Fields]:
        verdicts = []
        for pod in node.pods[:PODS_PER_NODE_MAX]:
            verdict = _build_verdict(pod, self._begun)
            self._room -= _count_characters(verdict)
            if self._room < 0:
                break
            verdicts.append(verdict)
        return verdicts


def _count_characters(verdict: Fields) -> int:
    texts = (
        *verdict["pod"].values(), verdict["gate"], verdict.get("target", ""), *verdict["usage"],
    )  # fmt: skip
    amounts = _AMOUNT_CHARACTERS * len(verdict["usage"])
    return _VERDICT_CHARACTERS + amounts + sum(map(len, texts))


def _build_pool(pool: results.PoolOutcome, verdicts: _Verdicts, room: int) -> Fields:
    hot = [_build_hot_node(node, verdicts) for node in pool.hot[:room]]
    return {
        "pool": pool.name,
        "nodes": pool.counts(),
        "thresholds": _build_thresholds(pool.thresholds),
        "rounds_needed": pool.rounds_needed,
        "memory": pool.memory,
        "gate": pool.ended[:_GATE_MAX],
        "wanted": sum(node.moved + node.gates["gate"] for node in pool.hot),
        "leaving": len(pool.moves),
        "hot": hot,
        "hot_left_out": max(len(pool.hot), len(pool.hot_names)) - len(hot),
    }


def _build_thresholds(thresholds: results.PoolThresholds) -> Fields:
    maps = (thresholds.low, thresholds.high, thresholds.prod_low, thresholds.prod_high)
    words = []
    if any(percent > PERCENT_MAX for percents in maps for percent in percents.values()):
        words.append(f"thresholds above {PERCENT_MAX} % are shown as {PERCENT_MAX} %")
    words.append(thresholds.source)
    return {
        "low": _percents(thresholds.low),
        "high": _percents(thresholds.high),
        "prod_low": _percents(thresholds.prod_low),
        "prod_high": _percents(thresholds.prod_high),
        "source": "; ".join(words)[:_GATE_MAX],
    }


def _percents(percents: results.Percents) -> dict[str, float]:
    return {name: min(float(percent), float(PERCENT_MAX)) for name, percent in percents.items()}


def _build_hot_node(node: results.HotNodeOutcome, verdicts: _Verdicts) -> Fields:
    pods = verdicts.of(node)
    fields = {
        "node": node.name,
        "phase": node.phase,
        "readings": {
            name: {"used": used, "limit": node.limits[name], "capacity": node.capacity[name]}
            for name, used in node.usage.items()
            if used > node.limits[name]
        },
        "abnormal_rounds": node.rounds,
        "gate": node.ended[:_GATE_MAX],
        "leaving": node.moved,
        "pods": pods,
        "pods_left_out": node.checked - len(pods),
    }
    if node.cost is not None:
        fields["cost"] = _clip(node.cost)
    return fields


def _build_verdict(verdict: results.Verdict, begun: MigrationIds) -> Fields:
    pod = verdict.pod
    fields: Fields = {
        "pod": pod.ref_fields,
        "gate": verdict.message[:_GATE_MAX],
        "usage": dict(verdict.usage),
    }
    if verdict.target is not None:
        fields["target"] = verdict.target
    if not verdict.gate and pod.uid in begun:
        fields["migration_id"] = begun[pod.uid]
    if verdict.costs is not None:
        names = ("source_before", "source_after", "target_before", "target_after")
        fields["costs"] = dict(zip(names, map(_clip, verdict.costs), strict=True))
    return fields


def _clip(cost: float) -> float:
    # Rounding errors may make a cost negative.
    return max(0.0, float(cost))
