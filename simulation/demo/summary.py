"""The result of a run: figures, and what was not as it should be.

The comparison is with the same pods on the same base load, placed by requests alone
(`simulation.cluster.baseline_requests`); both are measured by what the nodes used.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simulation.cluster import baseline_requests
from simulation.demo.grid import FloatArray, UsageGrid, grid_of
from simulation.demo.rebalance_summary import Rebalanced, rebalanced
from simulation.demo.saved import Way, ways
from simulation.demo.session import Session

#: CPU usage from which a node counts as short of cores.
SHORT_ABOVE = 0.95
#: After this number of samples a node must have a metric; a traced node may have fewer samples.
_SAMPLES_FOR_A_METRIC = 10
#: Reasons that a summary names.
_REASONS_MAX = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """How evenly the nodes were used; all figures are shares."""

    mean: float
    deviation: float
    """Standard deviation over the nodes, averaged over time."""
    largest: float
    """Usage of the busiest node, averaged over time."""
    hot: float
    """Share of nodes and time in which a node was above the policy's threshold."""
    short: float
    """The same above `SHORT_ABOVE`."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one run."""

    simulated_h: float
    real_s: float
    requests: int
    placed: int
    waiting: int
    waiting_reasons: tuple[tuple[str, int], ...]
    """The reason that most nodes gave, and how many of the waiting pods it keeps waiting."""
    refused: int
    refused_reasons: tuple[tuple[str, int], ...]
    unanswered: int
    decisions: int
    samples: int
    metrics: int
    full_nodes: tuple[str, ...]
    """Nodes that take no pod at the end, for the load that they have."""
    dead_letters: int
    cpu: Spread
    memory: Spread
    cpu_by_requests: Spread
    memory_by_requests: Spread
    rebalanced: Rebalanced | None
    """Figures of the second act; none: the run ended before it."""
    ways: tuple[Way, ...]
    """The run and what it is compared with, over its whole time."""

    @property
    def samples_per_s(self) -> float:
        """Samples in a real second."""
        return self.samples / self.real_s if self.real_s > 0 else 0.0


def figures_of(
    session: Session,
    compared: UsageGrid,
    staying: UsageGrid,
    real_s: float,
    koordinator: Session | None = None,
) -> Figures:
    """The figures of a run that took `real_s` seconds.

    `compared` is the usage with pods placed by requests alone, `staying` that without evictions,
    `koordinator` the same run under Koordinator's policy.
    """
    observed = session.observed
    waiting = observed.waiting()
    refused = list(observed.of_outcome("refused"))
    limits = thresholds(session)
    return Figures(
        simulated_h=(session.now_ms - session.scenario.begin_ms) / 3_600_000,
        real_s=real_s,
        requests=session.requests,
        placed=sum(1 for _ in observed.of_outcome("placed")),
        waiting=len(waiting),
        waiting_reasons=_counted(
            d.reasons[0].reason if d.reasons else d.message or d.outcome for d in waiting
        ),
        refused=len(refused),
        refused_reasons=_counted(d.message for d in refused),
        unanswered=observed.unanswered,
        decisions=sum(observed.decisions.values()),
        samples=session.samples,
        metrics=observed.metrics,
        full_nodes=tuple(observed.full_nodes),
        dead_letters=len(observed.dead_letters),
        cpu=spread(session.grid.cpu, limits[0]),
        memory=spread(session.grid.memory, limits[1]),
        cpu_by_requests=spread(compared.cpu, limits[0]),
        memory_by_requests=spread(compared.memory, limits[1]),
        rebalanced=rebalanced(session, staying),
        ways=ways(session, compared, koordinator),
    )


def thresholds(session: Session) -> tuple[float, float]:
    """Shares of CPU and memory above which the policy puts no pod on a node."""
    args = session.scenario.policy.load_aware
    limits = args.usage_thresholds
    if args.aggregated is not None and args.aggregated.filters:
        limits = args.aggregated.usage_thresholds
    return limits.get("cpu", 100) / 100, limits.get("memory", 100) / 100


def usage_by_requests(session: Session) -> UsageGrid:
    """Usage as it would have been with all pods placed by requests alone, up to now."""
    scenario = session.scenario
    used = baseline_requests.usage_by_requests(
        scenario.machines, scenario.plans, scenario.readings, session.now_ms
    )
    return grid_of(scenario, used)


def spread(usage: FloatArray, hot_above: float) -> Spread:
    """How even a usage of shape (bins, nodes) is; NaN: no sample. Bins without any do not count."""
    known = usage[~np.isnan(usage).all(axis=1)]
    if not known.size:
        return Spread(0.0, 0.0, 0.0, 0.0, 0.0)
    samples = known[~np.isnan(known)]
    return Spread(
        mean=float(samples.mean()),
        deviation=float(np.nanstd(known, axis=1).mean()),
        largest=float(np.nanmax(known, axis=1).mean()),
        hot=float((samples > hot_above).mean()),
        short=float((samples > SHORT_ABOVE).mean()),
    )


def problems_of(session: Session, figures: Figures) -> list[str]:
    """What should not have happened, in sentences; empty after a good run."""
    observed = session.observed
    problems = []
    if not figures.placed:
        problems.append(f"no pod was placed; {figures.requests} asked for a node")
    if figures.unanswered:
        problems.append(f"{figures.unanswered} requests were never answered")
    if observed.dead_letters:
        letter = observed.dead_letters[0]
        problems.append(
            f"{len(observed.dead_letters)} records were refused; the first one, of {letter.topic}:"
            f" {letter.reason}"
        )
    if session.failures:
        problems.append(
            f"{len(session.failures)} placements could not be carried out; the first one:"
            f" {session.failures[0].reason}"
        )
    if session.repeated:
        first = session.repeated[0]
        problems.append(
            f"{len(session.repeated)} evictions were commanded twice; the first one, of pod"
            f" {first.pod.name}"
        )
    sampled = session.grid.counts.sum(axis=0) >= _SAMPLES_FOR_A_METRIC
    unknown = [
        machine.name
        for machine, enough in zip(session.scenario.machines, sampled, strict=True)
        if enough and machine.name in observed.unknown_nodes
    ]
    if figures.placed and unknown:
        names = ", ".join(unknown[:5])
        problems.append(f"{len(unknown)} nodes never had a metric: {names}")
    return problems


def _counted(reasons: Iterable[str]) -> tuple[tuple[str, int], ...]:
    counts = Counter(reasons)
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_REASONS_MAX])
