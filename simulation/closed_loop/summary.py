"""What a comparison comes to in one sentence: our default against what most clusters run."""

from simulation.closed_loop.comparison import Comparison, means

#: Whose figures the sentence is about, and what they are held against, by name and in words.
OURS = "loadstream"
AGAINST = {
    "least-allocated": "kube-scheduler's scores",
    "koordinator-lownodeload-75": "Koordinator with LowNodeLoad 45/75",
}


def sentence(comparison: Comparison) -> str | None:
    """Hot minutes and evictions of ours and as shares of the others'; none: ours is not there."""
    of = {name: means(results) for name, results in comparison.contenders()}
    if OURS not in of:
        return None
    ours = of[OURS]
    given = comparison.parameters
    compared = [
        f"{_ratio(ours['hot_cpu_minutes'], of[name]['hot_cpu_minutes'])} of what they are with {words}"
        + (f" ({of[name]['evictions']:,.0f} evictions)" if of[name]["evictions"] else "")
        for name, words in AGAINST.items()
        if name in of
    ]
    text = (
        f"At a mean load of {given.load_text} %, {given.nodes} nodes are hot for "
        f"{ours['hot_cpu_minutes']:,.0f} minutes in {given.hours:g} hours with {OURS}'s default "
        f"policy and {ours['evictions']:,.0f} evictions"
    )
    seeds = len({each.seed for each in comparison.results})
    of_seeds = f" Means of {seeds} seeds." if seeds > 1 else ""
    return f"{text}: {' and '.join(compared)}.{of_seeds}" if compared else f"{text}.{of_seeds}"


def _ratio(figure: float, other: float) -> str:
    return f"{figure / other:.2f}" if other else "more than nothing" if figure else "as little"
