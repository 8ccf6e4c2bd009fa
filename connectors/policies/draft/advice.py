"""The values of a first policy, each with its reason and the figures behind it.

Thresholds follow the usage of nodes, and limits follow the number of nodes and pods. A value that no
figure supports is left out, so its default applies.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from connectors.policies.draft.reading import HOT, ClusterHistory, Load

#: A shorter history says little about a day.
HISTORY_MS_MIN = 3_600_000
#: Thresholds are multiples of this, in percent.
_STEP = 5
#: Lowest and highest threshold of the filter in percent, and its distance above the 75th percentile.
_FILTER = {"cpu": (round(100 * HOT["cpu"]), 85), "memory": (85, 95)}
_FILTER_ROOM = 10
#: Highest percentage above which a node is hot.
_HOT_MAX = 90
#: Share of the nodes that pods may be leaving at once, and share that may begin to lose a pod each minute.
#: In the closed loop, each move beyond these limits saves hardly one hot minute.
_MOVING_SHARE, _MINUTE_SHARE = 0.10, 0.05
_MOVING_MAX, _MINUTE_MAX = 50, 25
#: With fewer pods per node, one pod is so large a part of a node that pods leave it one by one.
_PODS_FOR_TWO = 10
#: A metric expires after this many missed reports, but not before upstream's default.
_MISSED, _EXPIRED_S_MIN = 3, 180


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the policy."""

    path: tuple[str, ...]
    value: Any
    reason: str
    """Sentences with the figures behind the value."""


def find_lack(history: ClusterHistory | None) -> str | None:
    """Return in a sentence what is missing for a policy; None: nothing."""
    if history is None:
        return "no metric of its nodes was found"
    if history.span_ms < HISTORY_MS_MIN and history.complete:
        return f"its metrics span {_minutes(history.span_ms)}; expected at least 60 min"
    if not history.loads:
        return (
            "no node that reports usage has reported its allocatable resources (topic node-state)"
        )
    return None


def advise(history: ClusterHistory) -> list[Value]:
    """Return the values of the policy; those of one section follow each other."""
    return [
        *_mode(),
        *_load_aware(history),
        *_risk(history),
        *_rebalance(history),
        *_migration(history),
        *_descheduling(history),
    ]


def list_gaps(history: ClusterHistory) -> Iterator[str]:
    """Yield a sentence for each part of the policy that lacks data."""
    for resource in HOT:
        if resource not in history.loads:
            yield (
                f"{resource}: no node reports both its usage and its allocatable amount, so no "
                "threshold names it"
            )
    if history.silent_nodes:
        yield (
            f"{history.silent_nodes} of {history.nodes} nodes sent no metric in this time. A node whose "
            "metric has expired gets no pods while loadAware.filterExpiredNodeMetrics is on; a node that "
            "never sent one gets pods by requests alone"
        )
    if not history.budgets:
        yield (
            "no disruption budget was found: only the limits of section migration protect workloads"
        )


def _mode() -> Iterator[Value]:
    yield Value(
        ("mode",), "observe",
        "Evictions are decided and marked dry: no pod leaves. See what would leave with "
        "`loadstream cluster why-not CLUSTER` and `loadstream topic tail status --kind round`. Then write "
        "enforce here and apply the file again.",
    )  # fmt: skip


def _load_aware(history: ClusterHistory) -> Iterator[Value]:
    if history.report_ms is not None:
        yield Value(
            ("loadAware", "nodeMetricExpirationSeconds"), _expiration_s(history.report_ms),
            f"A node reports every {history.report_ms / 1000:.3g} s. A metric expires after {_MISSED} "
            f"missed reports, and not before {_EXPIRED_S_MIN} s.",
        )  # fmt: skip
    for resource, load in history.loads.items():
        lowest, highest = _FILTER[resource]
        hot = _hot_percent(resource, load)
        threshold = min(hot, highest, max(lowest, _round_up(100 * load.p75 + _FILTER_ROOM)))
        reason = (
            f"Three of four readings are below {_percent(load.p75)}, nine of ten below "
            f"{_percent(load.p90)}. The threshold is {_FILTER_ROOM} points above the former, within {lowest} "
            f"and {highest}, and at most {hot}, above which a node is hot."
        )
        if threshold < 100 * load.p75:
            reason += " It refuses more than a fourth of the nodes."
        yield Value(("loadAware", "usageThresholds", resource), threshold, reason)


def _expiration_s(report_ms: int) -> int:
    return max(_EXPIRED_S_MIN, ceil(_MISSED * report_ms / 1000))


def _risk(history: ClusterHistory) -> Iterator[Value]:
    resources = [
        {"name": name, "hotPercent": _hot_percent(name, load)}
        for name, load in history.loads.items()
    ]
    seen = "; ".join(
        f"{name}: nine of ten readings are below {_percent(load.p90)}, {_percent(load.hot_share)} of "
        f"them above {_percent(HOT[name])}"
        for name, load in history.loads.items()
    )
    yield Value(
        ("overutilizationRisk", "resources"), resources,
        f"A node is hot above this percentage. Nine of ten readings are not hot, up to {_HOT_MAX} %. "
        f"Found: {seen}.",
    )  # fmt: skip
    yield Value(
        ("riskMoves", "maxMovesPerRound"), _limit(history.nodes, _MINUTE_SHARE, _MINUTE_MAX),
        f"There is one round per minute: one pod for every 20 of {history.nodes:,} nodes, at most "
        f"{_MINUTE_MAX}.",
    )  # fmt: skip


def _hot_percent(resource: str, load: Load) -> int:
    return min(_HOT_MAX, max(round(100 * HOT[resource]), _round_up(100 * load.p90)))


def _rebalance(history: ClusterHistory) -> Iterator[Value]:
    age_s = None if history.report_ms is None else _expiration_s(history.report_ms)
    if age_s is not None and age_s > _EXPIRED_S_MIN:
        yield Value(
            ("rebalance", "nodeMetricExpirationSeconds"), age_s,
            "As in loadAware: rounds ignore a node whose metric is older.",
        )  # fmt: skip


def _migration(history: ClusterHistory) -> Iterator[Value]:
    others = [(name, count) for name, count in history.schedulers if name != "loadstream"]
    reason = "Room for a replacement is reserved only if loadstream places it."
    if others:
        named = ", ".join(f"{name} ({count:,})" for name, count in others[:3])
        total = sum(count for _, count in others)
        reason += (
            f" {total:,} of {history.pods:,} pods have other schedulers, {named}, and stay. With "
            "otherSchedulers: evictDirectly they are evicted without a reservation."
        )
    yield Value(("migration", "schedulerNames"), ["loadstream"], reason)
    yield Value(
        ("migration", "maxMigratingGlobally"), _limit(history.nodes, _MOVING_SHARE, _MOVING_MAX),
        f"A tenth of {history.nodes:,} nodes at once, at most {_MOVING_MAX}. Found: "
        f"{history.budgets:,} disruption budgets.",
    )  # fmt: skip
    per_node = history.pods / history.nodes
    is_small = per_node >= _PODS_FOR_TWO
    yield Value(
        ("migration", "maxMigratingPerNode"), 2 if is_small else 1,
        f"A node has {per_node:.3g} pods: one pod is a {'small' if is_small else 'large'} part of it.",
    )  # fmt: skip


def _descheduling(history: ClusterHistory) -> Iterator[Value]:
    yield Value(
        ("descheduling", "maxNoOfPodsToEvictTotal"), _limit(history.nodes, _MINUTE_SHARE, _MINUTE_MAX),
        f"Evictions per round, so per minute: one for every 20 nodes, at most {_MINUTE_MAX}.",
    )  # fmt: skip


def _limit(nodes: int, share: float, most: int) -> int:
    return min(most, max(1, ceil(nodes * share)))


def _round_up(percent: float) -> int:
    return _STEP * ceil(round(percent, 6) / _STEP)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _minutes(length_ms: int) -> str:
    return f"{length_ms / 60_000:.3g} min"
