"""Charts as SVG, which need nothing else: hot node-minutes by contender, and by hour."""

from collections.abc import Iterator, Sequence
from html import escape
from statistics import fmean

from simulation.closed_loop.comparison import Comparison, means, spreads

#: Size of a chart by hour, and what is left free around it for axes.
_WIDTH, _HEIGHT, _LEFT, _BELOW = 860, 320, 60, 30
#: Bars: height of a line, where they begin, and how long the longest is; the rest is its figures.
_LINE, _BAR_LEFT, _BAR_LONGEST = 22, 270, 380
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#7f7f7f",
)  # fmt: skip


def bars(comparisons: Sequence[Comparison]) -> str:
    """Hot node-minutes of CPU as a bar for each contender, means over seeds, a block for each load.

    A thin line shows one standard deviation over seeds on both sides.
    """
    parts: list[str] = []
    y = 0
    for comparison in comparisons:
        drawn = list(_block(comparison, y))
        parts += drawn
        y += _LINE * (2 + len(list(comparison.contenders())))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="{_WIDTH}" height="{y}" fill="#fff"/>'
    )
    return "".join((head, *parts, "</svg>"))


def _block(comparison: Comparison, top: int) -> Iterator[str]:
    """Title and bars of one load, the coolest first."""
    given = comparison.parameters
    of = {name: (means(each), spreads(each)) for name, each in comparison.contenders()}
    names = sorted(of, key=lambda name: (of[name][0]["hot_cpu_minutes"], name))
    longest = max((of[name][0]["hot_cpu_minutes"] for name in names), default=0.0) or 1.0
    yield (
        f'<text x="4" y="{top + _LINE - 4}" font-weight="bold">Hot node-minutes in {given.hours:g} h, '
        f"{given.nodes} nodes, mean load {given.load_text} %</text>"
    )
    for line, name in enumerate(names, 1):
        mean, spread = of[name]
        y = top + _LINE * line
        hot, deviation = mean["hot_cpu_minutes"], spread["hot_cpu_minutes"]
        scale = _BAR_LONGEST / longest
        ours = name == "loadstream"
        least, most = max(0.0, hot - deviation) * scale, (hot + deviation) * scale
        middle = y + _LINE / 2 + 2
        evictions = f", {mean['evictions']:,.0f} evictions" if mean["evictions"] else ""
        weight = ' font-weight="bold"' if ours else ""
        yield (
            f'<text x="{_BAR_LEFT - 8}" y="{y + 18}" text-anchor="end"{weight}>{escape(name)}</text>'
            f'<rect x="{_BAR_LEFT}" y="{y + 5}" width="{hot * scale:.1f}" height="{_LINE - 6}" '
            f'fill="{_COLOURS[0] if ours else "#b9c2cb"}"/>'
            f'<path d="M{_BAR_LEFT + least:.1f} {middle:.1f}H{_BAR_LEFT + most:.1f}" stroke="#333"/>'
            f'<text x="{_BAR_LEFT + max(most, hot * scale) + 8:.1f}" y="{y + 18}"{weight}>{hot:,.0f}'
            f"{evictions}</text>"
        )


def hours(comparison: Comparison) -> str:
    """Hot node-minutes of each hour as a line for each contender, means over seeds."""
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
