"""Reports of comparisons: tables for a terminal, a page of Markdown, and a chart as SVG."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from html import escape
from itertools import product
from math import log10
from statistics import median
from textwrap import fill, wrap

from connectors.units import count_text
from simulation.closed_loop.comparison import (
    CPU_SECONDS,
    Comparison,
    Spread,
    compute_ratio,
    compute_spread,
)
from simulation.closed_loop.finished_runs import Run
from simulation.closed_loop.measures import PREDICTED_MINUTES, PREDICTION_BOUNDS, PredictionBin
from simulation.closed_loop.parameters import Parameters

Table = list[list[str]]
"""Headings, then rows."""

#: Name of our contender, and titles of the baselines by name.
OURS = "loadstream"
BASELINES = {"least-allocated": "kube-scheduler", "koordinator-lownodeload-75": "Koordinator"}
HOT, WEIGHTED = "hot_cpu_minutes", "hot_cpu_weighted_minutes"
EVICTIONS, WAITING = "evictions", "waiting_pod_minutes"
#: Columns: figure, heading, decimals.
COLUMNS = (
    (HOT, "hot CPU (node-min)", 0),
    (WEIGHTED, "by capacity", 0),
    (EVICTIONS, "evictions", 0),
    (WAITING, "waiting (pod-min)", 0),
    (CPU_SECONDS, "CPU s", 0),
    ("hot_memory_minutes", "hot memory (node-min)", 0),
    ("over_capacity_minutes", "over 100 % (node-min)", 0),
    ("p99_cpu", "p99", 2),
    ("waiting_pods", "never placed", 0),
    ("bounces", "bounces", 0),
)

LEGEND = (
    "hot CPU, hot memory: node-minutes with demand above 75 % of CPU, 80 % of memory. by capacity: hot CPU, "
    "in which a node counts by its share of the mean CPU of a node. waiting: minutes of all pods. CPU s: CPU "
    "seconds of the run, simulated world included. over 100 %: node-minutes with more demand for CPU than the "
    "node has. p99: percentile of the nodes' demand for CPU. never placed: pods without a node at the end. "
    "bounces: pods that returned to their node or were evicted again within an hour. Figures are medians over "
    "days and seeds, with the range in brackets; ratios are of runs with the same pods. least-allocated: the "
    "scores of kube-scheduler."
)
PREDICTIONS = (
    f"Each minute the risk score predicts for each node the probability that its demand for CPU is above "
    f"75 %. This table compares the predictions of all runs of {OURS} with the demand {PREDICTED_MINUTES} minutes "
    "later. For a good score, the mean probability of a row equals the share of nodes that were hot."
)
#: Width of prose, in columns.
WIDTH = 100


def _format_ratio(ours: Sequence[Run], others: Sequence[Run], figure: str) -> str:
    ratio = compute_ratio(ours, others, figure)
    return "-" if ratio is None else _format_spread(ratio, 2)


def _format_spread(figure: Spread, digits: int = 0) -> str:
    """Return the median, with the range unless all values are equal."""
    median, least, most = (
        f"{value:,.{digits}f}" for value in (figure.median, figure.least, figure.most)
    )
    return median if least == most else f"{median} ({least} to {most})"


def tabulate_figures(comparison: Comparison) -> Table:
    rows = [["", *(heading for _, heading, _ in COLUMNS)]]
    for name, runs in comparison.contenders.items():
        cells = (
            _format_spread(compute_spread(runs, figure), digits) for figure, _, digits in COLUMNS
        )
        rows.append([name, *cells])
    return rows


def _has_ratios(comparison: Comparison) -> bool:
    return OURS in comparison.contenders and not BASELINES.keys().isdisjoint(comparison.contenders)


def tabulate_ratios(comparisons: Sequence[Comparison]) -> Table:
    """Return a row for each comparison: our hot minutes and waiting as multiples of the baselines'."""
    rows = []
    for comparison in comparisons:
        parameters = comparison.parameters
        first = {"scenario": f"{parameters.scenario}, {parameters.load_text} %"}
        rows.append(first | _compute_ratios(comparison.contenders))
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def tabulate_days(comparison: Comparison) -> Table:
    """Return the ratios of `tabulate_ratios`, with a row for each day of the traces."""
    rows = []
    for day in comparison.days:
        runs_of_day = {
            name: [run for run in runs if run.day == day]
            for name, runs in comparison.contenders.items()
        }
        rows.append({"day": day} | _compute_ratios(runs_of_day))
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def _compute_ratios(runs_by_name: Mapping[str, Sequence[Run]]) -> dict[str, str]:
    ours = runs_by_name[OURS]
    cells = {}
    for name, title in BASELINES.items():
        if name in runs_by_name:
            cells[f"hot / {title}'s"] = _format_ratio(ours, runs_by_name[name], HOT)
            cells[f"by capacity / {title}'s"] = _format_ratio(ours, runs_by_name[name], WEIGHTED)
            cells[f"waiting / {title}'s"] = _format_ratio(ours, runs_by_name[name], WAITING)
            if title == "Koordinator":  # kube-scheduler evicts nothing
                both = (ours, runs_by_name[name])
                evictions = (_format_spread(compute_spread(runs, EVICTIONS)) for runs in both)
                cells[f"evictions / {title}'s"] = " / ".join(evictions)
    return cells


def _list_ratios(runs_by_name: Mapping[str, Sequence[Run]]) -> Iterator[list[str]]:
    """Yield a row for each pair of a contender and a baseline."""
    baselines = [name for name in BASELINES if name in runs_by_name]
    for name, other in product([name for name in runs_by_name if name not in BASELINES], baselines):
        runs = (runs_by_name[name], runs_by_name[other])
        yield [
            f"{name} / {other}",
            *(_format_ratio(*runs, key) for key in (HOT, WEIGHTED, WAITING)),
        ]


def sum_predictions(comparisons: Sequence[Comparison]) -> list[PredictionBin]:
    """Return the bins of all runs of our contender together."""
    bins = zip(
        *(
            run.result.predictions
            for comparison in comparisons
            for run in comparison.contenders.get(OURS, ())
            if run.result.predictions
        ),
        strict=True,
    )
    return [
        PredictionBin(*(sum(column) for column in zip(*map(astuple, runs_in_bin), strict=True)))
        for runs_in_bin in bins
    ]


def tabulate_predictions(comparisons: Sequence[Comparison]) -> Table:
    rows = [["predicted probability", "mean", "nodes that were hot", "predictions"]]
    bounds = [0.0, *PREDICTION_BOUNDS, 1.0]
    bins = sum_predictions(comparisons)
    for low, high, predicted in zip(bounds, bounds[1:], bins, strict=False):
        if count := predicted.predictions:
            mean, share = predicted.expected / count, predicted.hot / count
            rows.append([f"{low:g} to {high:g}", f"{mean:.4f}", f"{share:.4f}", f"{count:,}"])
    return rows


def describe(comparison: Comparison) -> str:
    parameters, defaults = comparison.parameters, Parameters()
    differing = [
        f"{field.name} {getattr(parameters, field.name)}"
        for field in fields(Parameters)
        if field.name not in ("scenario", "nodes", "hours", "load")
        and getattr(parameters, field.name) != getattr(defaults, field.name)
    ]
    calibrations = [run.calibration for run in next(iter(comparison.contenders.values()))]
    return (
        f"{count_text(parameters.nodes, 'node')} for {parameters.hours:g} h after {parameters.filling_hours:g} h of "
        f"filling, {count_text(len(comparison.days), 'day')} with {count_text(len(comparison.seeds), 'seed')} "
        "each. "
        f"About {median(calibration.pods for calibration in calibrations):.0f} pods come, and request "
        f"{median(calibration.requested_share for calibration in calibrations):.0%} of the nodes' CPU."
        + (f" Parameters that differ from mixed: {', '.join(differing)}." if differing else "")
    )


def format_lines(comparison: Comparison) -> Iterator[str]:
    """Yield description and tables, for a terminal."""
    parameters = comparison.parameters
    yield f"{parameters.scenario}, mean load {parameters.load_text}%"
    traces = f"Traces: {', '.join(comparison.files) or 'the built-in model'}."
    for text in (describe(comparison), traces):
        yield from wrap(text, WIDTH, break_on_hyphens=False)
    yield ""
    table = tabulate_figures(comparison)
    if len(comparison.contenders) <= 5:  # a column for each contender makes shorter lines
        table = list(map(list, zip(*table, strict=True)))
    yield from format_table(table)
    ratios = list(_list_ratios(comparison.contenders))
    if ratios:
        yield ""
        yield from format_table([["ratio", "hot CPU", "by capacity", "waiting"], *ratios])


def format_table(rows: Table) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def _list_sections(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, list[str | Table]]]:
    """Yield headings, each with its texts and tables."""
    traces = f"Traces: {', '.join(comparisons[0].files) or 'the built-in model'}."
    has_ratios = _has_ratios(comparisons[0])
    yield "All scenarios", [*([tabulate_ratios(comparisons)] if has_ratios else []), traces, LEGEND]
    if any(prediction.predictions for prediction in sum_predictions(comparisons)):
        yield "Predictions", [PREDICTIONS, tabulate_predictions(comparisons)]
    for comparison in comparisons:
        parts: list[str | Table] = [describe(comparison), tabulate_figures(comparison)]
        if has_ratios and len(comparison.days) > 1:
            parts.append(tabulate_days(comparison))
        parameters = comparison.parameters
        yield f"{parameters.scenario}, mean load {parameters.load_text} %", parts


def format_markdown(comparisons: Sequence[Comparison], chart: str, arguments: Sequence[str]) -> str:
    """Return a page of Markdown.

    Args:
        comparisons: one section of the page each.
        chart: file name of the chart, which is in the folder of the page.
        arguments: arguments of the command that writes the page.
    """
    parameters = comparisons[0].parameters
    parts = [
        f"# Closed loop: {count_text(parameters.nodes, 'node')} for {parameters.hours:g} h",
        f"This command wrote the page:\n\n    loadstream {shlex.join(arguments)}",
        "[closed-loop.md](closed-loop.md) explains the simulation and the figures, "
        "[compare-policies.md](../how-to/compare-policies.md)\nthe scenarios and contenders.",
        f"![Hot node-minutes by contender]({chart})",
    ]
    for heading, contents in _list_sections(comparisons):
        parts.append(f"## {heading}")
        for content in contents:
            if isinstance(content, str):
                parts.append(fill(content, WIDTH, break_on_hyphens=False))
            else:
                parts.append(_format_markdown_table(content))
    return "\n\n".join(parts) + "\n"


def _format_markdown_table(rows: Table) -> str:
    headings, *body = rows
    lines = [headings, ["---", *(["---:"] * (len(headings) - 1))], *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_CHART_WIDTH = 860
#: Height of a line, start of the bars, and length of the longest bar.
_LINE_HEIGHT, _BAR_LEFT, _BAR_LONGEST = 22, 270, 380
#: Side of the chart of predictions, and smallest exponent of its logarithmic axes.
_SIDE, _DECADES = 240, -4
_OURS, _OTHERS = "#1f77b4", "#b9c2cb"


def draw_chart(comparisons: Sequence[Comparison]) -> str:
    """Draw a block of bars per comparison, with the hot node-minutes of each contender; then predictions.

    A bar is the median over days and seeds; a thin line is the range.
    """
    parts: list[str] = []
    y = 0
    for comparison in comparisons:
        parts += _draw_block(comparison, y)
        y += _LINE_HEIGHT * (2 + len(comparison.contenders))
    bins = [prediction for prediction in sum_predictions(comparisons) if prediction.predictions]
    if bins:
        parts += _draw_predictions(bins, y)
        y += _SIDE + 4 * _LINE_HEIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_CHART_WIDTH} {y}" role="img" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="{_CHART_WIDTH}" height="{y}" fill="#fff"/>'
    )
    return "".join((head, *parts, "</svg>"))


def _draw_predictions(bins: Sequence[PredictionBin], top: int) -> Iterator[str]:
    """Draw a point per bin: predicted probability to the right, share of hot nodes upwards."""
    bottom, right = top + 2 * _LINE_HEIGHT + _SIDE, _BAR_LEFT + _SIDE

    def scale_log(share: float) -> float:
        return _SIDE * (1 - max(log10(share or 1e-9), _DECADES) / _DECADES)

    yield (
        f'<text x="4" y="{top + _LINE_HEIGHT - 4}" font-weight="bold">Probability that a node is hot, as predicted '
        "and as seen; on the line both are equal</text>"
        f'<path d="M{_BAR_LEFT} {bottom - _SIDE}V{bottom}H{right}" fill="none" stroke="#333"/>'
        f'<path d="M{_BAR_LEFT} {bottom}L{right} {bottom - _SIDE}" stroke="{_OTHERS}"/>'
        f'<text x="{right + 8}" y="{bottom + 4}">predicted</text>'
        f'<text x="{_BAR_LEFT}" y="{bottom - _SIDE - 8}" text-anchor="middle">seen</text>'
    )
    for decade in range(_DECADES, 1):
        offset = scale_log(10.0**decade)
        yield (
            f'<text x="{_BAR_LEFT + offset:.0f}" y="{bottom + 18}" text-anchor="middle">{10.0**decade:g}</text>'
            f'<text x="{_BAR_LEFT - 8}" y="{bottom - offset + 4:.0f}" text-anchor="end">{10.0**decade:g}</text>'
        )
    for predicted in bins:
        sums = (predicted.expected, predicted.hot)
        x, y = (scale_log(total / predicted.predictions) for total in sums)
        yield f'<circle cx="{_BAR_LEFT + x:.1f}" cy="{bottom - y:.1f}" r="5" fill="{_OURS}"/>'


def _draw_block(comparison: Comparison, top: int) -> Iterator[str]:
    parameters = comparison.parameters
    hot = {name: compute_spread(runs, HOT) for name, runs in comparison.contenders.items()}
    evictions = {
        name: compute_spread(runs, EVICTIONS) for name, runs in comparison.contenders.items()
    }
    scale = _BAR_LONGEST / (max((spread.most for spread in hot.values()), default=0.0) or 1.0)
    yield (
        f'<text x="4" y="{top + _LINE_HEIGHT - 4}" font-weight="bold">{parameters.scenario}, mean load '
        f"{parameters.load_text} %: hot node-minutes of {parameters.nodes} nodes in {parameters.hours:g} h</text>"
    )
    for line, name in enumerate(sorted(hot, key=lambda name: (hot[name].median, name)), 1):
        y = top + _LINE_HEIGHT * line
        least, middle, most = (
            scale * v for v in (hot[name].least, hot[name].median, hot[name].most)
        )
        moved = round(evictions[name].median)
        moved_text = f", {count_text(moved, 'eviction')}" if moved else ""
        ours = name == OURS
        weight = ' font-weight="bold"' if ours else ""
        yield (
            f'<text x="{_BAR_LEFT - 8}" y="{y + 18}" text-anchor="end"{weight}>{escape(name)}</text>'
            f'<rect x="{_BAR_LEFT}" y="{y + 5}" width="{middle:.1f}" height="{_LINE_HEIGHT - 6}" '
            f'fill="{_OURS if ours else _OTHERS}"/>'
            f'<path d="M{_BAR_LEFT + least:.1f} {y + 13}H{_BAR_LEFT + most:.1f}" stroke="#333"/>'
            f'<text x="{_BAR_LEFT + most + 8:.1f}" y="{y + 18}"{weight}>'
            f"{hot[name].median:,.0f}{moved_text}</text>"
        )
