"""A chart as SVG, which needs nothing else: hot node-minutes by contender."""

from collections.abc import Iterator, Sequence
from html import escape

from simulation.closed_loop.comparison import Comparison, spread

_WIDTH = 860
#: Height of a line, where bars begin, and how long the longest is; the rest is its figures.
_LINE, _BAR_LEFT, _BAR_LONGEST = 22, 270, 380
_OURS, _OTHERS = "#1f77b4", "#b9c2cb"


def draw_bars(comparisons: Sequence[Comparison]) -> str:
    """Hot node-minutes of CPU as a bar for each contender, a block for each comparison.

    A bar is the median over days and seeds; a thin line is the range.
    """
    parts: list[str] = []
    y = 0
    for comparison in comparisons:
        parts += _draw_block(comparison, y)
        y += _LINE * (2 + len(comparison.contenders))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" '
        'font-family="sans-serif" font-size="13">'
        f'<rect width="{_WIDTH}" height="{y}" fill="#fff"/>'
    )
    return "".join((head, *parts, "</svg>"))


def _draw_block(comparison: Comparison, top: int) -> Iterator[str]:
    """Title and bars of one comparison, the coolest contender first."""
    given = comparison.parameters
    hot = {name: spread(runs, "hot_cpu_minutes") for name, runs in comparison.contenders.items()}
    evictions = {name: spread(runs, "evictions") for name, runs in comparison.contenders.items()}
    scale = _BAR_LONGEST / (max((each.most for each in hot.values()), default=0.0) or 1.0)
    yield (
        f'<text x="4" y="{top + _LINE - 4}" font-weight="bold">{given.scenario}, mean load '
        f"{given.load_text} %: hot node-minutes of {given.nodes} nodes in {given.hours:g} h</text>"
    )
    for line, name in enumerate(sorted(hot, key=lambda name: (hot[name].median, name)), 1):
        y = top + _LINE * line
        least, middle, most = (
            scale * v for v in (hot[name].least, hot[name].median, hot[name].most)
        )
        moved = f", {evictions[name].median:,.0f} evictions" if evictions[name].median else ""
        ours = name == "loadstream"
        weight = ' font-weight="bold"' if ours else ""
        yield (
            f'<text x="{_BAR_LEFT - 8}" y="{y + 18}" text-anchor="end"{weight}>{escape(name)}</text>'
            f'<rect x="{_BAR_LEFT}" y="{y + 5}" width="{middle:.1f}" height="{_LINE - 6}" '
            f'fill="{_OURS if ours else _OTHERS}"/>'
            f'<path d="M{_BAR_LEFT + least:.1f} {y + 13}H{_BAR_LEFT + most:.1f}" stroke="#333"/>'
            f'<text x="{_BAR_LEFT + most + 8:.1f}" y="{y + 18}"{weight}>'
            f"{hot[name].median:,.0f}{moved}</text>"
        )
