"""The result as one HTML page that needs nothing else: table, chart, parameters, calibration."""

from dataclasses import asdict
from html import escape
from statistics import fmean

from connectors.closed_loop.comparison import Comparison, means, spreads
from connectors.closed_loop.table import COLUMNS

#: Size of the chart, and what is left free around it for axes.
_WIDTH, _HEIGHT, _LEFT, _BELOW = 860, 320, 60, 30
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f",
)  # fmt: skip
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}"
)


def page(comparison: Comparison) -> str:
    """The whole page."""
    given = comparison.parameters
    title = f"Closed loop: {given.nodes} nodes, {given.hours:g} h, mean load {given.load:.0%}"
    source = ", ".join(comparison.files) or "the built-in model"
    settings = {**asdict(given), "fill_share": given.fill, "traces": source}
    calibration = [
        [str(each.seed), str(each.pods), f"{each.requested_share:.1%}", f"{each.factor:.3f}"]
        for each in comparison.calibrations
    ]
    parts = [
        f"<h1>{escape(title)}</h1>",
        "<h2>Hot node-minutes in each hour, mean over seeds</h2>",
        _chart(comparison),
        "<h2>All figures: mean and spread over seeds</h2>",
        _table(["", *(heading for _, heading, _ in COLUMNS)], _rows(comparison)),
        "<p>Hot: demand above 75 % of CPU, or 80 % of memory. Useless: moves whose node stayed hot as "
        "long as nodes as hot that were left alone.</p>",
        "<h2>Calibration</h2>",
        _table(["seed", "pods", "requested", "factor"], calibration),
        "<h2>Parameters</h2>",
        _table(["parameter", "value"], [[name, str(value)] for name, value in settings.items()]),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _rows(comparison: Comparison) -> list[list[str]]:
    rows = []
    for name, results in comparison.contenders():
        mean, spread = means(results), spreads(results)
        cells = [
            f"{mean[figure]:,.{digits}f} ±{spread[figure]:,.{digits}f}"
            for figure, _, digits in COLUMNS
        ]
        rows.append([name, *cells])
    return rows


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _chart(comparison: Comparison) -> str:
    """Hot node-minutes of each hour as a line a contender."""
    hourly = {
        name: [
            fmean(hour)
            for hour in zip(*(each.hourly_hot for each in results), strict=True)
        ]
        for name, results in comparison.contenders()
    }  # fmt: skip
    top = max((value for values in hourly.values() for value in values), default=0.0) or 1.0
    hours = max(map(len, hourly.values()), default=1)
    wide, high = _WIDTH - _LEFT, _HEIGHT - _BELOW
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 20 * len(hourly)}" role="img" font-size="12">',
        f'<path d="M{_LEFT} 0V{high}H{_WIDTH}" fill="none" stroke="#888"/>',
        f'<text x="{_LEFT - 6}" y="12" text-anchor="end">{top:.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{high}" text-anchor="end">0</text>',
        f'<text x="{_WIDTH}" y="{high + 18}" text-anchor="end">hour {hours}</text>',
    ]
    for index, (name, values) in enumerate(hourly.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        points = " ".join(
            f"{_LEFT + wide * (hour + 0.5) / hours:.1f},{high * (1 - value / top):.1f}"
            for hour, value in enumerate(values)
        )
        y = _HEIGHT + 20 * index + 8
        parts += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<rect x="{_LEFT}" y="{y - 9}" width="14" height="10" fill="{colour}"/>',
            f'<text x="{_LEFT + 20}" y="{y}">{escape(name)}: {sum(values):,.0f} in all</text>',
        ]
    return "".join((*parts, "</svg>"))
