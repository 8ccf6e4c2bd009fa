"""The result of comparisons: one sentence, tables, and these as lines, Markdown or a page of HTML."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from html import escape
from textwrap import fill

from connectors.units import count_text
from simulation.closed_loop.chart import bars, hours
from simulation.closed_loop.comparison import Comparison, means, spreads

#: Whose figures the sentence is about, and what they are held against, by name and in words.
OURS = "loadstream"
AGAINST = {
    "least-allocated": "kube-scheduler's scores",
    "koordinator-lownodeload-75": "Koordinator with LowNodeLoad 45/75",
}
#: Columns: figure, heading, decimals.
COLUMNS = (
    ("hot_cpu_minutes", "hot CPU", 0),
    ("hot_memory_minutes", "hot memory", 0),
    ("over_capacity_minutes", "over 100 %", 0),
    ("p99_cpu", "p99", 2),
    ("p999_cpu", "p99.9", 2),
    ("imbalance_cpu", "imbalance", 3),
    ("waiting_pod_minutes", "pods' waiting", 0),
    ("waiting_pods", "never placed", 0),
    ("refused_pods", "refused", 0),
    ("evictions", "evictions", 0),
    ("bounces", "bounces", 0),
)

LEGEND = (
    "hot CPU, hot memory: node-minutes with demand above 75 % of CPU, 80 % of memory. over 100 %: "
    "node-minutes with more demand for CPU than the node has. p99, p99.9: percentiles of the nodes' "
    "demand for CPU. imbalance: its standard deviation over nodes. pods' waiting: minutes. bounces: pods "
    "that returned to their node or were evicted again within an hour. ±: standard deviation over seeds."
)
#: Columns at which prose wraps.
WIDTH = 100
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}"
)


def summarize(comparison: Comparison) -> str | None:
    """Compare our default policy with common schedulers, in a few sentences; None without ours."""
    of = {name: means(results) for name, results in comparison.contenders()}
    if OURS not in of:
        return None
    ours = of[OURS]
    given = comparison.parameters
    text = (
        f"At a mean load of {given.load_text} %, {given.nodes} nodes have "
        f"{ours['hot_cpu_minutes']:,.0f} hot node-minutes in {given.hours:g} hours under {OURS}'s "
        f"default policy, with {ours['evictions']:,.0f} evictions."
    )
    compared = [
        _ratio(ours["hot_cpu_minutes"], of[name]["hot_cpu_minutes"])
        + f" under {words}"
        + (f" ({of[name]['evictions']:,.0f} evictions)" if of[name]["evictions"] else "")
        for name, words in AGAINST.items()
        if name in of
    ]
    seeds = len({each.seed for each in comparison.results})
    return (
        text
        + (f" That is {' and '.join(compared)}." if compared else "")
        + (f" Means of {seeds} seeds." if seeds > 1 else "")
    )


def _ratio(figure: float, other: float) -> str:
    if not other:
        return "more than the 0 minutes" if figure else "equal to the 0 minutes"
    return f"{figure / other:.2f} times the minutes"


def format_lines(comparison: Comparison) -> Iterator[str]:
    """The table of contenders for a terminal, and what it is of."""
    yield from _about(comparison)
    yield ""
    rows = figures(comparison)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = row
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def figures(comparison: Comparison) -> list[list[str]]:
    """Headings, then a row for each contender: means over seeds, with spread if there are several."""
    rows = [["", *(heading for _, heading, _ in COLUMNS)]]
    for name, results in comparison.contenders():
        mean, spread = means(results), spreads(results)
        cells = [
            f"{mean[figure]:,.{digits}f}"
            + (f" ±{spread[figure]:,.{digits}f}" if len(results) > 1 else "")
            for figure, _, digits in COLUMNS
        ]
        rows.append([name, *cells])
    return rows


def calibration(comparison: Comparison) -> list[list[str]]:
    """Headings, then a row for each seed."""
    return [
        ["seed", "pods", "requested", "factor"],
        *(
            [str(each.seed), str(each.pods), f"{each.requested_share:.1%}", f"{each.factor:.3f}"]
            for each in comparison.calibrations
        ),
    ]


def settings(*comparisons: Comparison) -> list[list[str]]:
    """Headings, then a row for each parameter; with commas where comparisons differ in it."""
    source = ", ".join(comparisons[0].files) or "the built-in model"
    given = [each.parameters for each in comparisons]
    values = [{**asdict(each), "fill_share": round(each.fill, 4)} for each in given]
    rows = ([name, _joined(each[name] for each in values)] for name in values[0])
    return [["parameter", "value"], *rows, ["traces", source]]


def _joined(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def _about(comparison: Comparison) -> Iterator[str]:
    given = comparison.parameters
    source = ", ".join(comparison.files) or "the built-in model"
    seeds = count_text(len(comparison.calibrations), "seed")
    yield (
        f"{given.nodes} nodes for {given.hours:g} h after {given.filling_hours:g} h of filling, "
        f"mean load {given.load_text}%, {seeds}; from {source}"
    )
    for each in comparison.calibrations:
        yield (
            f"seed {each.seed}: {each.pods} pods request {each.requested_share:.1%} of the nodes; "
            f"usage is request x trace x {each.factor:.2f}"
        )


def format_markdown(comparisons: Sequence[Comparison], chart: str, arguments: Sequence[str]) -> str:
    """A page of Markdown.

    Args:
        comparisons: a section for each.
        chart: name of the chart's file, which stands beside the page.
        arguments: of the command that made it.
    """
    given = comparisons[0].parameters
    parts = [
        f"# Closed loop: {given.nodes} nodes, {given.hours:g} hours",
        f"This command wrote the page:\n\n    loadstream {shlex.join(arguments)}",
        "[closed-loop.md](closed-loop.md) explains the simulation and the figures, "
        "[compare-policies.md](../how-to/compare-policies.md)\nthe contenders.",
        f"![Hot node-minutes by contender]({chart})",
    ]
    for comparison in comparisons:
        said = summarize(comparison)
        parts += [
            f"## Mean load {comparison.parameters.load_text} %",
            *([fill(said, WIDTH, break_on_hyphens=False)] if said else []),
            _markdown_table(figures(comparison)),
            "### Calibration",
            _markdown_table(calibration(comparison)),
        ]
    parts += [
        "## Parameters",
        _markdown_table(settings(*comparisons)),
        fill(LEGEND, WIDTH, break_on_hyphens=False),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown_table(rows: list[list[str]]) -> str:
    heads, *others = rows
    lines = [heads, ["---", *(["---:"] * (len(heads) - 1))], *others]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def format_page(comparisons: Sequence[Comparison]) -> str:
    """A page of HTML that needs nothing else, with a section for each load."""
    given = comparisons[0].parameters
    title = f"Closed loop: {given.nodes} nodes, {given.hours:g} h"
    parts = [f"<h1>{escape(title)}</h1>", bars(comparisons)]
    for comparison in comparisons:
        parts += [
            f"<h2>Mean load {comparison.parameters.load_text} %</h2>",
            f"<p>{escape(summarize(comparison) or '')}</p>",
            _html_table(figures(comparison)),
            "<h3>Hot node-minutes in each hour, mean over seeds</h3>",
            hours(comparison),
            "<h3>Calibration</h3>",
            _html_table(calibration(comparison)),
            "<h3>Parameters</h3>",
            _html_table(settings(comparison)),
        ]
    parts.append(f"<p>{escape(LEGEND)}</p>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _html_table(rows: list[list[str]]) -> str:
    heads, *others = rows
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others
    )
    return f"<table><tr>{head}</tr>{body}</table>"
