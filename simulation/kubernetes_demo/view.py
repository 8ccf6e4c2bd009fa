"""How the demo is shown while it lasts: a live view on a terminal, or a line every second.

Of each node one cell, coloured by the CPU that its pods use: hot nodes turn from red to green as
their pods leave.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from schemas.base.printable import replace_unprintable
from simulation.kubernetes_demo.load import NODE_MILLICORES
from simulation.kubernetes_demo.story import HOT_PERCENT, Look, Observed

Show = Callable[[Look, Observed], None]

#: Nodes in a row, and a cell of one.
_PER_ROW = 40
_CELL = "■ "
#: From this share of the threshold on a node is nearly hot.
_WARM = 0.7


@contextmanager
def shown(console: Console, *, plain: bool) -> Iterator[Show]:
    """What shows each look: live on a terminal, unless plain lines are asked for."""
    if plain or not console.is_terminal:
        yield lambda look, observed: console.print(
            line(look, observed), markup=False, highlight=False, soft_wrap=True
        )
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda look, observed: live.update(render(look, observed), refresh=True)


def line(look: Look, observed: Observed) -> str:
    """A look in one line."""
    return (
        f"{look.at_s:4.0f} s, {look.step}: {len(observed.cpu)} nodes measured, {look.bound} of "
        f"{len(look.pods)} pods bound, {len(look.hot)} nodes hot, "
        f"{observed.outcomes['evict', 'done']} pods evicted"
    )


def render(look: Look, observed: Observed) -> RenderableType:
    """The whole view."""
    used = look.cpu
    nodes = sorted({*observed.cpu, *used})
    cells = Text()
    for number, node in enumerate(nodes):
        if number and number % _PER_ROW == 0:
            cells.append("\n")
        cells.append(_CELL, style=_style(100 * used.get(node, 0) / NODE_MILLICORES))
    legend = Text.assemble(
        ("■", "green"), " cool  ", ("■", "yellow"), " warm  ",
        ("■", "bold red"), f" above {HOT_PERCENT} % of its CPU",
    )  # fmt: skip
    said = [Text(line(look, observed)), legend]
    if observed.why:
        said.append(Text(f"newest eviction: {replace_unprintable(observed.why)}", style="dim"))
    title = f"{len(nodes)} nodes of a real control plane"
    return Group(Panel(cells, title=title, border_style="blue"), *said)


def _style(percent: float) -> str:
    if percent > HOT_PERCENT:
        return "bold red"
    return "yellow" if percent > HOT_PERCENT * _WARM else "green"
