"""The result as a page of Markdown, beside a chart: what a repository shows of itself."""

import shlex
from collections.abc import Sequence
from textwrap import fill

from simulation.closed_loop.comparison import Comparison
from simulation.closed_loop.summary import sentence
from simulation.closed_loop.table import LEGEND, calibration, figures, settings

#: Columns at which prose wraps.
WIDTH = 100


def markdown(comparisons: Sequence[Comparison], chart: str, arguments: Sequence[str]) -> str:
    """The whole page.

    Args:
        comparisons: a section for each.
        chart: name of the chart's file, which stands beside the page.
        arguments: of the command that made it.
    """
    given = comparisons[0].parameters
    parts = [
        f"# Closed loop: {given.nodes} nodes, {given.hours:g} hours",
        f"Made by\n\n    loadstream {shlex.join(arguments)}",
        "What the words and columns mean is said in [closed-loop.md](closed-loop.md).",
        f"![Hot node-minutes by contender]({chart})",
    ]
    for comparison in comparisons:
        said = sentence(comparison)
        parts += [
            f"## Mean load {comparison.parameters.load_text} %",
            *([fill(said, WIDTH)] if said else []),
            _table(figures(comparison)),
            "### Calibration",
            _table(calibration(comparison)),
        ]
    parts += ["## Parameters", _table(settings(*comparisons)), fill(LEGEND, WIDTH)]
    return "\n\n".join(parts) + "\n"


def _table(rows: list[list[str]]) -> str:
    heads, *others = rows
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))], *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
