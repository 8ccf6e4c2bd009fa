"""The values of a first policy, each with its reason and the figures that were seen.

Thresholds follow what nodes really use, limits follow how many nodes and pods there are. A value
that no figure speaks for is not given: then the default holds. The plugins are the default ones,
and only what these go by is given.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from connectors.policies.draft.load import HOT, Load
from connectors.policies.draft.summary import ClusterSummary
from connectors.units import duration_text
from schemas.policy import RiskMoveArgs
from schemas.policy.sections.plugins import OVERUTILIZATION_RISK, PluginChoice

#: The default, with which loadstream evicts fewer pods in the closed loop than Koordinator does.
SAVED_MINUTES = RiskMoveArgs().min_saved_minutes
_LOW_NODE_LOAD = "LowNodeLoad"

#: Less than this says little about a day.
HISTORY_MS_MIN = 3_600_000

#: Thresholds are whole multiples of this, in percent.
_STEP = 5
#: The filter's threshold: least (cpu: the default) and most, in percent; so much above three of four
#: readings.
_FILTER = {"cpu": (round(100 * HOT["cpu"]), 85), "memory": (85, 95)}
_FILTER_ROOM = 10
#: Most of the share beyond which a node is hot, and how far a node that takes pods is below it.
_HOT_MAX = 90
_TARGET_ROOM = 15
#: Least share up to which a node may take pods: below it nodes are all but empty.
_TARGET_MIN = 20
#: Rounds in a row in which a node is hot before pods leave it.
_ROUNDS_MIN, _ROUNDS_MAX, _ROUND_MS = 2, 10, 60_000
#: Share of the nodes that pods may be leaving at once, and share from which one may go each minute.
#: In the closed loop moves beyond this save hardly a hot minute each.
_MOVING_SHARE, _MINUTE_SHARE = 0.10, 0.05
_MOVING_MAX, _MINUTE_MAX = 50, 25
#: With fewer pods on a node one pod is so much of it that a second one waits for what the first brings.
_PODS_FOR_TWO = 10
#: A metric is too old when three have been missed; upstream's age is the least.
_MISSED, _EXPIRED_S_MIN = 3, 180
#: Pods that must have been measured before their use of their requests is believed.
_MEASURED_MIN = 20


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the policy."""

    path: tuple[str, ...]
    """Fields that lead to it, as in the file."""
    value: Any
    reason: str
    """Why, with the figures seen, as sentences."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A policy with its reasons."""

    values: tuple[Value, ...]
    """Those of one section follow each other."""
    left_out: tuple[str, ...]
    """What the policy says nothing about because there was no data, a sentence each."""


def too_little(summary: ClusterSummary | None) -> str | None:
    """Why there is no advice, in a sentence; none: there is enough to go by."""
    if summary is None:
        return "no metric of its nodes was found"
    if summary.span_ms < HISTORY_MS_MIN and summary.whole:
        return f"its metrics span {_minutes(summary.span_ms)}; expected at least 60 min"
    if not summary.loads:
        return "no node that reports usage has reported what it can give (topic node-state)"
    return None


def advise(summary: ClusterSummary, plugins: PluginChoice | None = None) -> Advice:
    """The policy for a cluster of which there is enough to go by.

    `plugins` are those that decide; none: those that are on by default, which keep nodes coolest in
    the closed loop (docs/explanation/closed-loop.md).
    """
    chosen = plugins or PluginChoice()
    scores = [each.name for each in chosen.score]
    balance = [each.name for each in chosen.balance]
    by_risk = OVERUTILIZATION_RISK in balance
    # Beside moves by risk, those by thresholds evict more and cool nothing further.
    by_thresholds = _LOW_NODE_LOAD in balance and not by_risk
    values = (
        *_mode(),
        *_plugins(summary, scores, balance),
        *_load_aware(summary),
        *(_risk(summary) if OVERUTILIZATION_RISK in (*scores, *balance) else ()),
        *(_risk_moves(summary) if by_risk else ()),
        *(_rounds_age(summary) if by_risk or by_thresholds else ()),
        *(_rebalance(summary) if by_thresholds else ()),
        *_migration(summary),
        *_descheduling(summary),
    )
    return Advice(values, tuple(_left_out(summary)))


def _left_out(summary: ClusterSummary) -> Iterator[str]:
    for resource in HOT:
        if resource not in summary.loads:
            yield (
                f"{resource}: no node reports both its usage and what it can give, so no "
                "threshold names it"
            )
    if summary.silent_nodes:
        yield (
            f"{summary.silent_nodes} of {summary.nodes} nodes sent no metric in this time: those that "
            "sent one before get no pods while loadAware.filterExpiredNodeMetrics is on; the others "
            "get pods by requests alone"
        )
    if not summary.budgets:
        yield "no disruption budget was seen: only the limits of section migration protect workloads"


def _mode() -> Iterator[Value]:
    yield Value(
        ("mode",), "observe",
        "Evictions are decided and marked dry: nothing leaves. Look at what would leave with "
        "`loadstream cluster why-not CLUSTER` and `loadstream topic tail status --kind round`; then write enforce here, "
        "and apply the file again.",
    )  # fmt: skip


def _plugins(summary: ClusterSummary, scores: list[str], balance: list[str]) -> Iterator[Value]:
    loads = ", ".join(
        f"{name} {_percent(load.mean)} in the mean, {_percent(load.spread)} apart between nodes"
        for name, load in summary.loads.items()
    )
    yield Value(
        ("plugins", "score"), scores,
        f"The default: a pod goes where it leaves nodes coolest. Seen: {loads}.",
    )  # fmt: skip
    yield Value(("plugins", "balance"), balance, _spells(summary))


def _spells(summary: ClusterSummary) -> str:
    texts = [
        f"{name}: {load.spells} hot spells, {_minutes(load.spell_ms)} long in the median, "
        f"{_percent(load.hot_share)} of the readings above {_percent(HOT[name])}"
        if load.spells
        else f"{name}: no hot spell"
        for name, load in summary.loads.items()
    ]
    done = summary.evictions.get("done", 0)
    return f"Pods leave nodes that stay hot. Seen: {'; '.join(texts)}; {done} evictions."


def _load_aware(summary: ClusterSummary) -> Iterator[Value]:
    if summary.report_ms is not None:
        yield Value(
            ("loadAware", "nodeMetricExpirationSeconds"), _too_old_s(summary.report_ms),
            f"A node reports every {_seconds(summary.report_ms)}; older than {_MISSED} of these, and than "
            f"{_EXPIRED_S_MIN} s, its figures say nothing."
            + _sampled(summary),
        )  # fmt: skip
    for resource, load in summary.loads.items():
        least, most = _FILTER[resource]
        room = _up(100 * load.p75 + _FILTER_ROOM)
        threshold = min(most, max(least, room))
        why = _bounded(threshold, room, least, most, 100 * load.p75)
        hot = _hot_percent(resource, load)
        if threshold > hot:
            threshold, why = hot, f"a node is hot above {hot}: hot nodes get no pods."
        yield Value(
            ("loadAware", "usageThresholds", resource), threshold,
            f"Three of four readings are below {_percent(load.p75)}, nine of ten below "
            f"{_percent(load.p90)}: {why}",
        )  # fmt: skip


def _too_old_s(report_ms: int) -> int:
    return max(_EXPIRED_S_MIN, ceil(_MISSED * report_ms / 1000))


def _sampled(summary: ClusterSummary) -> str:
    windows = ", ".join(map(duration_text, summary.windows_ms)) or "none"
    sampled = (
        "" if summary.sample_ms is None else f" Samples come every {_seconds(summary.sample_ms)}."
    )
    return f"{sampled} Windows with percentiles: {windows}."


def _bounded(threshold: int, room: int, least: int, most: int, seen: float) -> str:
    if room > most:
        refused = ", so it refuses more than a fourth" if seen > most else ""
        return f"{most} is the most that leaves room for a peak{refused}."
    if threshold == least:
        return f"the least that makes sense, {least}, leaves room on these."
    return f"{_FILTER_ROOM} points more leave room on these."


def _risk(summary: ClusterSummary) -> Iterator[Value]:
    resources = [
        {"name": name, "hotPercent": _hot_percent(name, load)}
        for name, load in summary.loads.items()
    ]
    seen = ", ".join(
        f"{name} nine of ten readings are below {_percent(load.p90)}, 99 of 100 below "
        f"{_percent(load.p99)}"
        for name, load in summary.loads.items()
    )
    yield Value(
        ("overutilizationRisk", "resources"), resources,
        f"A node is hot beyond this; what nine of ten readings keep to is not hot, up to {_HOT_MAX} %. "
        f"Seen: {seen}.",
    )  # fmt: skip
    share = summary.used_of_requests.get("cpu")
    if share is not None and summary.measured_pods >= _MEASURED_MIN:
        prior = min(100, max(1, round(100 * share)))
        yield Value(
            ("overutilizationRisk", "usagePriorPercent"), prior,
            f"{summary.measured_pods:,} measured pods use {_percent(share)} of the CPU that they "
            f"request; a pod that is not measured yet is taken to use {prior} % of it.",
        )  # fmt: skip


def _hot_percent(resource: str, load: Load) -> int:
    return min(_HOT_MAX, max(round(100 * HOT[resource]), _up(100 * load.p90)))


def _target_percent(load: Load, hot: int) -> int:
    return min(hot - _TARGET_ROOM, max(_TARGET_MIN, _up(100 * load.p50)))


def _risk_moves(summary: ClusterSummary) -> Iterator[Value]:
    yield Value(
        ("riskMoves", "minSavedMinutes"), SAVED_MINUTES,
        "A pod leaves if that is expected to save as many hot minutes. With fewer of them more pods leave, "
        "for less each.",
    )  # fmt: skip
    yield Value(
        ("riskMoves", "maxMovesPerRound"), _limit(summary.nodes, _MINUTE_SHARE, _MINUTE_MAX),
        f"A round comes once a minute: one pod for every 20 of {summary.nodes:,} nodes, at most {_MINUTE_MAX}.",
    )  # fmt: skip


def _rounds_age(summary: ClusterSummary) -> Iterator[Value]:
    """The same age for rounds, where it is not the default."""
    age_s = None if summary.report_ms is None else _too_old_s(summary.report_ms)
    if age_s is not None and age_s > _EXPIRED_S_MIN:
        yield Value(
            ("rebalance", "nodeMetricExpirationSeconds"), age_s,
            "As in loadAware: a node with an older metric is left out of a round.",
        )  # fmt: skip


def _rebalance(summary: ClusterSummary) -> Iterator[Value]:
    for resource, load in summary.loads.items():
        hot = _hot_percent(resource, load)
        yield Value(
            ("rebalance", "lowThresholds", resource), _target_percent(load, hot),
            f"Nodes below this take pods: half of the readings are below {_percent(load.p50)}, and it is at "
            f"least {_TARGET_ROOM} points below the high threshold, so that nothing comes back.",
        )  # fmt: skip
    for resource, load in summary.loads.items():
        hot = _hot_percent(resource, load)
        yield Value(
            ("rebalance", "highThresholds", resource), hot,
            f"Pods leave nodes that stay above this, as {_percent(load.hot_share)} of the readings are above "
            f"{_percent(HOT[resource])}.",
        )  # fmt: skip
    longest = max(load.spell_ms for load in summary.loads.values())
    rounds = min(_ROUNDS_MAX, max(_ROUNDS_MIN, floor(longest / _ROUND_MS) + 1))
    seen = (
        f"Half of the hot spells are over after {_minutes(longest)} by themselves"
        if longest
        else "No hot spell was seen"
    )
    yield Value(
        ("rebalance", "anomalyCondition", "consecutiveAbnormalities"), rounds,
        f"{seen}: a node is left alone until it was hot in that number of rounds, one a minute.",
    )  # fmt: skip


def _migration(summary: ClusterSummary) -> Iterator[Value]:
    others = [(name, count) for name, count in summary.schedulers if name != "loadstream"]
    theirs = sum(count for _, count in others)
    reason = "Room is reserved for what comes in a pod's place if loadstream places it."
    if theirs:
        named = ", ".join(f"{name} ({count:,})" for name, count in others[:3])
        reason += (
            f" {theirs:,} of {summary.pods:,} pods are of other schedulers, {named}, and stay; "
            "otherSchedulers: evictDirectly lets them go without a reservation."
        )
    yield Value(("migration", "schedulerNames"), ["loadstream"], reason)
    yield Value(
        ("migration", "maxMigratingGlobally"),
        _limit(summary.nodes, _MOVING_SHARE, _MOVING_MAX),
        f"A tenth of {summary.nodes:,} nodes at once, at most {_MOVING_MAX}. {summary.owners:,} owners, "
        f"{summary.replicated_owners:,} of them with more than one pod; {summary.budgets:,} disruption budgets.",
    )  # fmt: skip
    two = summary.pods_per_node >= _PODS_FOR_TWO
    yield Value(
        ("migration", "maxMigratingPerNode"), 2 if two else 1,
        f"{summary.pods_per_node:.3g} pods on a node: "
        + ("a pod is a small part of it." if two else "a pod is a large part of it."),
    )  # fmt: skip


def _descheduling(summary: ClusterSummary) -> Iterator[Value]:
    requesting = ", ".join(
        f"{_percent(share)} of the pods request {name}"
        for name, share in summary.requesting.items()
    )
    yield Value(
        ("descheduling", "maxNoOfPodsToEvictTotal"),
        _limit(summary.nodes, _MINUTE_SHARE, _MINUTE_MAX),
        f"Evictions of a round, which comes once a minute: one for every 20 nodes, at most {_MINUTE_MAX}. By "
        f"themselves {summary.started_per_hour:,.0f} pods start in an hour"
        + (f"; {requesting}." if requesting else "."),
    )  # fmt: skip


def _limit(nodes: int, share: float, most: int) -> int:
    return min(most, max(1, ceil(nodes * share)))


def _up(percent: float) -> int:
    """The next multiple of the step."""
    return _STEP * ceil(round(percent, 6) / _STEP)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _seconds(length_ms: int) -> str:
    return f"{length_ms / 1000:.3g} s"


def _minutes(length_ms: int) -> str:
    return f"{length_ms / 60_000:.3g} min"
