"""The result as one HTML page that needs nothing else: tables, charts, parameters, calibration."""

from collections.abc import Sequence
from html import escape

from simulation.closed_loop.chart import bars, hours
from simulation.closed_loop.comparison import Comparison
from simulation.closed_loop.summary import sentence
from simulation.closed_loop.table import LEGEND, calibration, figures, settings

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,th:first-child{text-align:left}"
)


def page(comparisons: Sequence[Comparison]) -> str:
    """The whole page, a section for each load."""
    given = comparisons[0].parameters
    title = f"Closed loop: {given.nodes} nodes, {given.hours:g} h"
    parts = [f"<h1>{escape(title)}</h1>", bars(comparisons)]
    for comparison in comparisons:
        parts += [
            f"<h2>Mean load {comparison.parameters.load_text} %</h2>",
            f"<p>{escape(sentence(comparison) or '')}</p>",
            _table(figures(comparison)),
            "<h3>Hot node-minutes in each hour, mean over seeds</h3>",
            hours(comparison),
            "<h3>Calibration</h3>",
            _table(calibration(comparison)),
            "<h3>Parameters</h3>",
            _table(settings(comparison)),
        ]
    parts.append(f"<p>{escape(LEGEND)}</p>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _table(rows: list[list[str]]) -> str:
    heads, *others = rows
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in others
    )
    return f"<table><tr>{head}</tr>{body}</table>"
