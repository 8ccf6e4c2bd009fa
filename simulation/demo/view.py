"""The live view in a terminal: nodes, decisions and counts, as large as the terminal is.

Nodes stand in as many columns as fit; where there are too many the busiest are shown. `render` is a
function of the session alone, so that it can be looked at without a run.
"""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from schemas.base.printable import printable
from schemas.messages.decisions import PlacementDecision
from simulation.demo.observed import ObservedNode
from simulation.demo.reliefview import relief_panel
from simulation.demo.session import Session
from simulation.demo.status import Status
from simulation.demo.summary import thresholds
from simulation.demo.wording import clock_text, decision_text, hour_text

#: Least width of one column of nodes, and how many decisions there is always room for.
_NODE_WIDTH = 58
_DECISIONS_MIN = 6
_BAR_CELLS = 16
#: From this width on decisions and rebalancing stand side by side.
_SIDE_BY_SIDE = 110
#: From this share of the threshold on a node is nearly hot.
_WARM = 0.8

_OUTCOME_STYLES = {
    "placed": "green",
    "waiting": "yellow",
    "refused": "red",
    "expired": "red",
    "withdrawn": "dim",
}


def render(session: Session, status: Status, width: int, height: int) -> RenderableType:
    """The whole view."""
    columns = max(1, (width - 4) // _NODE_WIDTH)
    # Both panels have a frame, the nodes a head line, and the top has three lines.
    room = max(3, height - 3 - 3 - 2 - _DECISIONS_MIN)
    nodes = list(session.observed.nodes.values())
    lines = min(room, -(-len(nodes) // columns))
    shown = nodes if len(nodes) <= lines * columns else _busiest(nodes, lines * columns)
    title = (
        f"{len(nodes)} nodes"
        if len(shown) == len(nodes)
        else f"the busiest {len(shown)} of {len(nodes)} nodes"
    )
    rest = max(_DECISIONS_MIN, height - 3 - 3 - 2 - lines)
    return Group(
        _head(session, status, width),
        Panel(_nodes(session, shown, lines), title=title, border_style="blue", padding=(0, 1)),
        _what_happens(session, rest, width),
    )


def _what_happens(session: Session, lines: int, width: int) -> RenderableType:
    """Decisions and rebalancing: side by side where there is room, else one above the other."""
    if width < _SIDE_BY_SIDE:
        upper = (lines - 2) // 2
        return Group(
            relief_panel(session, upper, width),
            _decisions_panel(session, lines - 2 - upper, width),
        )
    both = Table.grid(expand=True)
    both.add_column(ratio=1)
    both.add_column(ratio=1)
    half = width // 2
    both.add_row(_decisions_panel(session, lines, half), relief_panel(session, lines, half))
    return both


def _decisions_panel(session: Session, lines: int, width: int) -> Panel:
    decisions = _decisions(session, lines, width - 6)
    return Panel(decisions, title="latest decisions", border_style="blue", padding=(0, 1))


def _head(session: Session, status: Status, width: int) -> RenderableType:
    observed, scenario = session.observed, session.scenario
    share = min(1.0, (session.now_ms - scenario.begin_ms) / (scenario.end_ms - scenario.begin_ms))
    clock = clock_text(session.now_ms, scenario.begin_ms)
    passed_s = (session.now_ms - scenario.begin_ms) / 1000
    speed, samples_per_s = (
        each / status.real_s if status.real_s > 1 else 0.0 for each in (passed_s, session.samples)
    )
    phases = {
        "starting": "the worker is starting ...",
        "running": f"{speed:.0f} times as fast as the clock",
    }
    first = Text.assemble(
        ("loadstream demo  ", "bold"), (clock, "bold cyan"), f"  {phases[status.phase]}"
    )
    bar = max(10, min(40, width - len(first) - 4))
    first.append("  ")
    first.append("━" * round(bar * share), "cyan")
    first.append("━" * (bar - round(bar * share)), "bright_black")
    waiting = len(observed.waiting())
    second = Text.assemble(
        _count(session.requests, "requests", ""),
        _count(len(session.placed_at_ms), "placed", "green"),
        _count(waiting, "waiting", "yellow" if waiting else ""),
        _count(sum(1 for _ in observed.of_outcome("refused")), "refused", ""),
        _count(len(session.relief.hot), "hot", "red" if session.relief.hot else ""),
        (f"{samples_per_s:.0f} samples/s  ", ""),
        _count(len(session.evictions), "evicted", "cyan"),
        _count(
            len(observed.dead_letters), "dead letters", "bold red" if observed.dead_letters else ""
        ),
    )
    lines = (first, second, Text(printable(status.note), "dim"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _count(number: int, what: str, style: str) -> tuple[str, str]:
    return (f"{number} {what}  ", style)


def _busiest(nodes: list[ObservedNode], count: int) -> list[ObservedNode]:
    order = sorted(nodes, key=lambda n: (-(n.cpu_p95 or n.cpu or 0.0), n.machine.name))
    names = {node.machine.name for node in order[:count]}
    return [node for node in nodes if node.machine.name in names]


def _nodes(session: Session, nodes: list[ObservedNode], lines: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), expand=False, pad_edge=False)
    groups = -(-len(nodes) // max(1, lines))
    for group in range(groups):
        gap = "" if group == groups - 1 else "  "
        table.add_column("node", no_wrap=True)
        table.add_column("cpu usage, ┃ p95", no_wrap=True)
        for head in ("cpu", "p95", "mem", "req", "pods"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column(gap, no_wrap=True)
    threshold = thresholds(session)[0]
    for line in range(lines):
        cells: list[RenderableType] = []
        for group in range(groups):
            index = group * lines + line
            cells += _cells(session, nodes[index], threshold) if index < len(nodes) else [""] * 8
        table.add_row(*cells)
    return table


def _cells(session: Session, node: ObservedNode, threshold: float) -> list[RenderableType]:
    name = node.machine.name
    requested = session.cluster.kubelets.requested(name)
    cores = requested.get("cpu", 0) + requested.get("kubernetes.io/batch-cpu", 0)
    pods = session.cluster.kubelets.live_pods(name)
    hot = name in session.relief.hot
    style = _style(node, threshold)
    return [
        Text(printable(name), "bold red" if hot else ""),
        usage_bar(node.cpu, node.cpu_p95, style),
        Text(_percent(node.cpu), style),
        Text(_percent(node.cpu_p95), style),
        _percent(node.memory),
        Text(_percent(cores / node.machine.millicores), "dim"),
        Text(str(pods), "dim"),
        Text("hot", "bold red") if hot else Text("full", "red") if node.full else Text("   "),
    ]


def _style(node: ObservedNode, threshold: float) -> str:
    share = node.cpu_p95 if node.cpu_p95 is not None else node.cpu
    if share is None:
        return "dim"
    return "red" if node.full else "yellow" if share > _WARM * threshold else "green"


def usage_bar(share: float | None, p95: float | None, style: str, cells: int = _BAR_CELLS) -> Text:
    """Usage as a bar, with a mark where the p95 is."""
    bar = Text()
    filled = round((share or 0.0) * cells)
    mark = None if p95 is None else min(cells - 1, int(p95 * cells))
    for cell in range(cells):
        if cell == mark:
            bar.append("┃", style)
        elif cell < filled:
            bar.append("█", style)
        else:
            bar.append("·", "bright_black")
    return bar


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f}%"


def _decisions(session: Session, count: int, width: int) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, width - 7))
    lines = _grouped(session.observed.latest)[:count]
    for decision, alike in lines:
        table.add_row(
            Text(hour_text(decision.decided_at_ms), "dim"),
            Text(printable(decision_text(decision, alike)), _OUTCOME_STYLES[decision.outcome]),
        )
    for _ in range(count - len(lines)):
        table.add_row("", "")
    return table


def _grouped(latest: Iterable[PlacementDecision]) -> list[tuple[PlacementDecision, int]]:
    """Newest decisions first; of pods that wait for the same reasons one, and how many more."""
    grouped: list[tuple[PlacementDecision, int]] = []
    for decision in reversed(list(latest)):
        if grouped and decision.outcome == "waiting":
            last, alike = grouped[-1]
            same = (last.outcome, last.reasons, last.decided_at_ms)
            if same == (decision.outcome, decision.reasons, decision.decided_at_ms):
                grouped[-1] = (last, alike + 1)
                continue
        grouped.append((decision, 0))
    return grouped
