"""The display during the demo: a live view on a terminal, or a line for each change.

Each node is a cell, coloured by the CPU usage of its pods: hot nodes turn from red to green as pods leave.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from schemas.base.printable import replace_unprintable
from simulation.kubernetes_demo.cluster import NODE_MILLICORES
from simulation.kubernetes_demo.steps import HOT_PERCENT, Observations, Snapshot

Show = Callable[[Snapshot, Observations], None]

#: Number of nodes in a row, and the cell of a node.
_PER_ROW = 40
_CELL = "■ "
#: Nodes above this share of the threshold are shown as warm.
_WARM = 0.7


@contextmanager
def show_live(console: Console, *, plain: bool) -> Iterator[Show]:
    """Yield a function that shows snapshots: live on a terminal, else as plain lines."""
    if plain or not console.is_terminal:
        shown = ""

        def show(snapshot: Snapshot, observed: Observations) -> None:
            nonlocal shown
            line = format_line(snapshot, observed)
            if line != shown:
                text = f"{snapshot.at_s:4.0f} s, {line}"
                console.print(text, markup=False, highlight=False, soft_wrap=True)
                shown = line

        yield show
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda snapshot, observed: live.update(render(snapshot, observed), refresh=True)


def format_line(snapshot: Snapshot, observed: Observations) -> str:
    return (
        f"{snapshot.step}: {len(observed.cpu)} nodes measured, {snapshot.bound_pods} of "
        f"{len(snapshot.pods)} pods bound, {len(snapshot.hot_nodes)} nodes hot, "
        f"{observed.outcomes['evict', 'done']} pods evicted"
    )


def render(snapshot: Snapshot, observed: Observations) -> RenderableType:
    used = snapshot.cpu
    nodes = sorted({*observed.cpu, *used})
    cells = Text()
    for number, node in enumerate(nodes):
        if number and number % _PER_ROW == 0:
            cells.append("\n")
        cells.append(_CELL, style=_choose_style(100 * used.get(node, 0) / NODE_MILLICORES))
    legend = Text.assemble(
        ("■", "green"), " cool  ", ("■", "yellow"), " warm  ",
        ("■", "bold red"), f" above {HOT_PERCENT} % of its CPU",
    )  # fmt: skip
    lines = [Text(f"{snapshot.at_s:4.0f} s, {format_line(snapshot, observed)}"), legend]
    if observed.reason:
        lines.append(Text(f"newest eviction: {replace_unprintable(observed.reason)}", style="dim"))
    title = f"{len(nodes)} nodes of a real control plane"
    return Group(Panel(cells, title=title, border_style="blue"), *lines)


def _choose_style(percent: float) -> str:
    if percent > HOT_PERCENT:
        return "bold red"
    return "yellow" if percent > HOT_PERCENT * _WARM else "green"
