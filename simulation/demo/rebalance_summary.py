"""What rebalancing achieved: hot nodes with it and without it, and what the evictions did.

A node is hot where its mean usage over one bin of the grid is above the share of its cores from
which the policy calls it hot. The comparison (`simulation.cluster.baseline_no_eviction`) has the
same pods on the same load, none of them evicted.
"""

from dataclasses import dataclass
from statistics import median

import numpy as np

from simulation.cluster.baseline_no_eviction import usage_without_evictions
from simulation.demo.grid import FloatArray, UsageGrid, grid_of
from simulation.demo.session import Session


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """Figures of the second act; all but the dry commands are of that act alone."""

    hours: float
    """How long it was."""
    hot_above: float
    """Share of a node's cores above which it is hot."""
    bin_minutes: float
    """Time over which usage is averaged."""
    hot_minutes: float
    """Minutes in which nodes were hot, added up over all nodes."""
    hot_minutes_staying: float
    """The same without evictions."""
    turned_hot: int
    """How many times a node turned hot, or was hot when the act began."""
    cooled: int
    minutes_to_cool: float | None
    """Median of the time from turning hot, or the beginning of the act, to having cooled."""
    still_hot: tuple[str, ...]
    evictions: int
    commands: int
    dry_commands: int
    """Before the act began, when evictions were dry runs."""
    results: tuple[tuple[str, int], ...]
    """Outcomes of the commands, by result."""
    repeated: int
    """Commands that came twice, or for a pod evicted already: none, if none is duplicated."""
    placed_again: int
    """Pods that came in place of evicted ones and have a node."""


def usage_staying(session: Session) -> UsageGrid:
    """Usage as it would have been if no pod had been evicted, up to now."""
    scenario = session.scenario
    used = usage_without_evictions(
        scenario.machines,
        session.placements,
        scenario.readings,
        session.now_ms,
        session.relief.hot_above,
    )
    return grid_of(scenario, used)


def hot_nodes(session: Session, grid: UsageGrid) -> FloatArray:
    """How many nodes were hot in each bin, shape (bins,)."""
    usage = grid.cpu
    counts: FloatArray = (
        np.nan_to_num(usage > session.relief.hot_above).sum(axis=1).astype(np.float64)
    )
    return counts


def rebalanced(session: Session, staying: UsageGrid) -> Rebalanced | None:
    """The figures of the second act; None: the run ended before it."""
    began_ms = session.enforced_ms
    if began_ms is None:
        return None
    relief = session.relief
    first = session.grid.bin_of(began_ms)
    minutes = session.grid.bin_ms / 60_000
    ours, theirs = (hot_nodes(session, grid)[first:] for grid in (session.grid, staying))
    spells = [
        spell for spell in relief.spells if spell.until_ms is None or spell.until_ms >= began_ms
    ]
    lasted = [
        (spell.until_ms - max(began_ms, spell.since_ms)) / 60_000
        for spell in spells
        if spell.until_ms is not None
    ]
    return Rebalanced(
        hours=(session.now_ms - began_ms) / 3_600_000,
        hot_above=session.relief.hot_above,
        bin_minutes=minutes,
        hot_minutes=float(ours.sum()) * minutes,
        hot_minutes_staying=float(theirs.sum()) * minutes,
        turned_hot=len(spells),
        cooled=len(lasted),
        minutes_to_cool=median(lasted) if lasted else None,
        still_hot=tuple(spell.node for spell in spells if spell.until_ms is None),
        evictions=len(session.evictions),
        commands=relief.commands,
        dry_commands=relief.dry_commands,
        results=tuple(sorted((k, n) for k, n in session.eviction_results.items() if k != "dry")),
        repeated=len(session.repeated),
        placed_again=sum(
            uid in session.replaced
            for uid in (d.pod.uid for d in session.observed.of_outcome("placed"))
        ),
    )
