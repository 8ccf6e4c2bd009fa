"""The result of the demo: a table, a picture, and one explained move."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from connectors.units import count_text
from schemas.messages.commands import EvictionCommand
from schemas.messages.decisions import PlacementDecision
from simulation.closed_loop.comparison import Comparison, compute_ratio
from simulation.closed_loop.measures import HOT_CPU, MINUTE_MS
from simulation.closed_loop.report import BASELINES, HOT, OURS, WAITING, WEIGHTED, format_table
from simulation.closed_loop.scenario import Array, Scenario
from simulation.closed_loop.usage import get_plan_index
from simulation.cluster.cluster import Eviction

#: An eviction is in time if the node was hot in the `MINUTES_BEFORE` minutes before, or would have become hot
#: with the pod in the `MINUTES_AFTER` minutes after the eviction.
MINUTES_BEFORE, MINUTES_AFTER = 30, 60
#: Size of the picture, in characters.
_ROWS, _COLUMNS = 16, 72
#: Characters by smallest share of a node's CPU.
_SHADES = ((HOT_CPU, "█"), (0.65, "▒"), (0.50, "░"), (0.0, " "))
_IN_TIME, _IN_VAIN = "▼", "?"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run minute by minute, and its evictions."""

    scenario: Scenario
    demand: Array
    """Demand for CPU as a share of the node; shape (minutes since the beginning, nodes)."""
    evictions: tuple[Eviction, ...]
    """Evictions during the measured time."""

    def get_minute(self, at_ms: int) -> int:
        return (at_ms - self.scenario.begin_ms) // MINUTE_MS

    def find_node(self, name: str) -> int:
        return next(i for i, machine in enumerate(self.scenario.machines) if machine.name == name)

    def was_hot(self, eviction: Eviction) -> bool:
        """Tell whether the node was hot at the eviction or shortly before."""
        minute = self.get_minute(eviction.at_ms)
        recent = self.demand[
            max(0, minute - MINUTES_BEFORE) : minute + 1, self.find_node(eviction.node)
        ]
        return bool((recent > HOT_CPU).any())

    def compute_demand_with_pod(self, eviction: Eviction) -> Array:
        """Return the demand of the node for each minute after an eviction, as if the pod had stayed."""
        node, begin = self.find_node(eviction.node), self.get_minute(eviction.at_ms) + 1
        alone = self.demand[begin : begin + MINUTES_AFTER, node]
        times_ms = MINUTE_MS * np.arange(begin, begin + len(alone))
        life_ms = eviction.replacement.life_ms if eviction.replacement else 0
        alive = times_ms < eviction.at_ms - self.scenario.begin_ms + life_ms
        pod = (
            self.scenario.demands.compute_cpu(
                np.array([get_plan_index(eviction.pod.uid)]), times_ms
            )
            * alive
        )
        shares: Array = alone + pod / self.scenario.machines[node].millicores
        return shares

    def is_in_time(self, eviction: Eviction) -> bool:
        """Tell whether the node was hot, or would have become hot with the pod."""
        return self.was_hot(eviction) or bool(
            (self.compute_demand_with_pod(eviction) > HOT_CPU).any()
        )

    def compute_chance(self) -> float:
        """Return the mean share of all nodes that were hot around the times of the evictions."""
        shares = []
        for eviction in self.evictions:
            minute = self.get_minute(eviction.at_ms)
            around = self.demand[max(0, minute - MINUTES_BEFORE) : minute + 1 + MINUTES_AFTER]
            shares.append((around > HOT_CPU).any(axis=0).mean())
        return float(np.mean(shares)) if shares else 0.0


def tabulate_schedulers(comparison: Comparison) -> Iterator[str]:
    """Yield a table of hot nodes, evictions and waiting under the three schedulers."""
    rows = [
        [
            "",
            "hot node-minutes",
            "by capacity",
            "evictions",
            "minutes a pod waited",
            "pods still waiting",
        ]
    ]
    names = {**BASELINES, OURS: OURS}
    for run in sorted(comparison.runs, key=lambda run: list(names).index(run.contender)):
        figures = run.result.figures
        waited = figures[WAITING] / max(1.0, figures["placed_pods"] + figures["waiting_pods"])
        cells = [f"{figures[name]:,.0f}" for name in (HOT, WEIGHTED, "evictions")]
        rows.append(
            [names[run.contender], *cells, f"{waited:.1f}", f"{figures['waiting_pods']:.0f}"]
        )
    yield from format_table(rows)
    yield (
        "by capacity: a node counts by its share of the mean CPU of a node. pods still waiting: pods that "
        "no node could take by the end."
    )


def summarize(comparison: Comparison) -> str:
    runs_by_name = comparison.contenders
    shares = [
        (title, compute_ratio(runs_by_name[OURS], runs_by_name[name], HOT))
        for name, title in BASELINES.items()
        if name in runs_by_name
    ]
    compared = " and ".join(
        f"{ratio.median:.2f} times as long as under {title}" for title, ratio in shares if ratio
    )
    return (
        f"With the same pods, nodes are hot (above {HOT_CPU:.0%} of their CPU) "
        f"{compared or 'for some time; under the other schedulers never'}."
    )


def draw_picture(evidence: Evidence) -> Iterator[str]:
    """Yield a picture of nodes over time with a mark for each eviction.

    The nodes with most evictions are shown, and then the hottest nodes.
    """
    scenario = evidence.scenario
    first = evidence.get_minute(scenario.measured_ms)
    demand = evidence.demand[first:]
    step = -(-len(demand) // _COLUMNS)
    counts = [0] * len(scenario.machines)
    for eviction in evidence.evictions:
        counts[evidence.find_node(eviction.node)] += 1
    heat = (demand > HOT_CPU).sum(axis=0).tolist()
    shown = sorted(range(len(counts)), key=lambda node: (-counts[node], -heat[node]))[:_ROWS]
    lines = {
        node: [
            _choose_shade(part.max())
            for part in np.split(demand[:, node], range(step, len(demand), step))
        ]
        for node in sorted(shown)
    }
    for eviction in evidence.evictions:
        node = evidence.find_node(eviction.node)
        if node in lines:
            column = (evidence.get_minute(eviction.at_ms) - first) // step
            in_time = evidence.is_in_time(eviction)
            if in_time or lines[node][column] != _IN_TIME:
                lines[node][column] = _IN_TIME if in_time else _IN_VAIN
    yield (
        f"{len(lines)} of {count_text(len(counts), 'node')}, {step} minutes a character, the highest demand "
        "in it: █ hot, ▒ above 65 %, ░ above 50 %"
    )
    for node, cells in lines.items():
        yield f"{scenario.machines[node].name:>9} {''.join(cells)}"
    in_time_count = sum(map(evidence.is_in_time, evidence.evictions))
    evictions = count_text(len(evidence.evictions), "eviction")
    yield (
        f"{_IN_TIME} {in_time_count} of {evictions}: the node was hot in the {MINUTES_BEFORE} minutes before, or would have become "
        f"hot within {MINUTES_AFTER} minutes with the pod"
    )
    if in_time_count < len(evidence.evictions):
        yield f"{_IN_VAIN} all others: the node did not become hot"
    yield f"For comparison: {evidence.compute_chance():.0%} of all nodes were hot in the same times."


def _choose_shade(share: float) -> str:
    return next(shade for least, shade in _SHADES if share >= least)


def explain_move(
    evidence: Evidence, commands: Sequence[EvictionCommand], decisions: Sequence[PlacementDecision]
) -> Iterator[str]:
    """Explain one eviction and the placement of the pod's replacement."""
    reason_by_pod = {command.pod.uid: command.reason for command in commands}
    decision_by_pod = {decision.pod.uid: decision for decision in decisions if decision.node}
    moves = [
        (eviction, decision_by_pod[eviction.replacement.pod.uid])
        for eviction in evidence.evictions
        if eviction.pod.uid in reason_by_pod
        and eviction.replacement
        and eviction.replacement.pod.uid in decision_by_pod
    ]
    if not moves:
        return
    # The most useful move: without it, the node would have been hot for the longest time.
    eviction, decision = max(
        moves, key=lambda move: int((evidence.compute_demand_with_pod(move[0]) > HOT_CPU).sum())
    )
    minute = evidence.get_minute(eviction.at_ms)
    with_pod = int((evidence.compute_demand_with_pod(eviction) > HOT_CPU).sum())
    after = evidence.demand[
        minute + 1 : minute + 1 + MINUTES_AFTER, evidence.find_node(eviction.node)
    ]
    yield (
        f"One eviction: at {_format_time(eviction.at_ms)} pod {eviction.pod.name} left {eviction.node}, which "
        f"was at {evidence.demand[minute, evidence.find_node(eviction.node)]:.0%}. Reason: "
        f"{reason_by_pod[eviction.pod.uid]}. With the pod the node would have been hot for {with_pod} of the "
        f"next {len(after)} minutes; without the pod it was hot for {int((after > HOT_CPU).sum())}."
    )
    target = evidence.find_node(decision.node or "")
    refused = sum(decision.refused_by.values())
    others = ", ".join(f"{score.node} with {score.total}" for score in decision.runners_up)
    terms = decision.winner.terms if decision.winner else ()
    scores = ", ".join(f"{term.plugin} {term.score}" for term in terms) or "the only node left"
    total = decision.winner.total if decision.winner else 0
    if any(score.total > total for score in decision.runners_up):
        choice = f"the move had reserved room on {decision.node} ({scores}), so it comes before {others}."
    else:
        choice = f"of the others {decision.node} has the highest score ({scores})" + (
            f", before {others}." if others else "."
        )
    yield (
        f"One placement: at {_format_time(decision.decided_at_ms)} pod {decision.pod.name}, which replaces it, was "
        f"placed on {decision.node}, which was at {evidence.demand[evidence.get_minute(decision.decided_at_ms), target]:.0%}. "
        f"Reason: of {decision.nodes} nodes filters refused {refused}; {choice}"
        " OverutilizationRisk is 100 where the pod adds least to the risk of being hot."
    )


def _format_time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M}"
