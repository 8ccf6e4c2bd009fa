"""The display during a run: a live view on a terminal, or a line every few seconds.

The view shows the nodes in columns, or the busiest nodes if not all fit. Below are the newest decisions of
the worker, with the sentences of `loadstream topic tail`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from connectors.queries.wording import sentence
from schemas.base.printable import replace_unprintable
from schemas.topics.codec import decode
from simulation.closed_loop.measures import HOT_CPU
from simulation.closed_loop.scenario import Array
from simulation.closed_loop.world import World

#: Refreshes of the live view per second, and seconds between two lines.
_PICTURES_PER_S = 8.0
_LINE_EVERY_S = 5.0
#: Minimum width of a column of nodes, and minimum and maximum number of outputs.
_NODE_WIDTH = 48
_OUTPUTS_MIN = 6
OUTPUTS_SHOWN = 50
_BAR_CELLS = 20
#: Nodes above this share of their CPU are shown as warm.
_WARM = 0.8 * HOT_CPU


@dataclass
class RunState:
    """A run at one time."""

    world: World
    now_ms: int
    real_s: float
    """Real time since the worker applied the first records."""
    evicted: int
    """Number of evicted pods."""
    latest: Sequence[tuple[str, bytes]]
    """Topics and values of the worker's newest outputs, oldest first."""
    hint: str = ""
    """A command that shows the records."""
    demand: Array = field(init=False)
    """Demand of each node, as shares of its CPU and memory."""

    def __post_init__(self) -> None:
        usage = self.world.usage
        self.demand = usage.measure(self.now_ms).demand / usage.allocatable

    @property
    def line(self) -> str:
        """The state in one line."""
        day = (self.now_ms - self.world.scenario.begin_ms) // 86_400_000 + 1
        clock = f"day {day}, {datetime.fromtimestamp(self.now_ms / 1000, UTC):%H:%M}"
        cpu = 100 * self.demand[:, 0]
        cluster = self.world.cluster
        pods = sum(len(cluster.kubelets.list_pods_on(machine.name)) for machine in cluster.machines)
        return (
            f"{clock}: {pods} pods, {len(cluster.waiting_pods)} waiting; cpu mean {cpu.mean():.0f} % "
            f"max {cpu.max():.0f} %, {int((cpu > 100 * HOT_CPU).sum())} hot; {self.evicted} evicted"
        )


class Display:
    """Shows the states of a run; a context manager around the run."""

    def __init__(self, console: Console, *, plain: bool) -> None:
        self._console = console
        live = not plain and console.is_terminal
        # With the alternate screen, the terminal shows its earlier content again at the end.
        self._live = Live(console=console, screen=True, auto_refresh=False) if live else None
        self._due_s = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def print(self, line: str) -> None:
        self._console.print(
            replace_unprintable(line), markup=False, highlight=False, soft_wrap=True
        )

    def show(self, state: RunState) -> None:
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        if self._live is None:
            self._due_s = now_s + _LINE_EVERY_S
            self.print(state.line)
        else:
            self._due_s = now_s + 1.0 / _PICTURES_PER_S
            size = self._console.size
            self._live.update(render(state, size.width, size.height), refresh=True)


def render(state: RunState, width: int, height: int) -> RenderableType:
    scenario = state.world.scenario
    columns = max(1, (width - 4) // _NODE_WIDTH)
    nodes = np.arange(len(scenario.machines))
    # 8 lines: two frames, the heading of the nodes, and three lines at the top.
    lines = min(max(3, height - 8 - _OUTPUTS_MIN), -(-len(nodes) // columns))
    title = f"{len(nodes)} nodes"
    if len(nodes) > lines * columns:
        nodes = np.sort(np.argsort(-state.demand[:, 0], kind="stable")[: lines * columns])
        title = f"the busiest {len(nodes)} of {title}"
    outputs = _build_outputs(state, max(_OUTPUTS_MIN, height - 8 - lines))
    return Group(
        _build_heading(state, width),
        Panel(_build_nodes(state, nodes.tolist(), lines), title=title, border_style="blue"),
        Panel(outputs, title="what the worker decides", border_style="blue"),
    )


def _build_heading(state: RunState, width: int) -> RenderableType:
    scenario = state.world.scenario
    passed_ms = state.now_ms - scenario.begin_ms
    speed = passed_ms / 1000 / state.real_s if state.real_s > 1 else 0.0
    bar = max(10, min(60, width - 60))
    done = round(bar * min(1.0, passed_ms / (scenario.end_ms - scenario.begin_ms)))
    first = Text.assemble(
        ("loadstream demo  ", "bold"), f"{speed:.0f} times as fast as the clock  ",
        ("━" * done, "cyan"), ("━" * (bar - done), "bright_black"),
    )  # fmt: skip
    lines = (first, Text(state.line, "bold"), Text(replace_unprintable(state.hint), "dim"))
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _build_nodes(state: RunState, nodes: list[int], lines: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    groups = -(-len(nodes) // lines)
    for _ in range(groups):
        for head in ("node", "cpu", "", "mem", "req", "pods"):
            table.add_column(
                head, no_wrap=True, justify="left" if head in ("node", "cpu") else "right"
            )
    for line in range(lines):
        cells: list[RenderableType] = []
        for node in nodes[line::lines]:
            cells += _build_cells(state, node)
        table.add_row(*cells)
    return table


def _build_cells(state: RunState, node: int) -> list[RenderableType]:
    machine = state.world.scenario.machines[node]
    kubelets = state.world.cluster.kubelets
    cpu, memory = state.demand[node].tolist()
    requested = kubelets.sum_requests(machine.name).get("cpu", 0) / machine.millicores
    style = "bold red" if cpu > HOT_CPU else "yellow" if cpu > _WARM else "green"
    filled = min(_BAR_CELLS, round(cpu * _BAR_CELLS))
    bar = Text.assemble(("█" * filled, style), ("·" * (_BAR_CELLS - filled), "bright_black"))
    return [
        Text(replace_unprintable(machine.name)),
        bar,
        Text(f"{cpu:.0%}", style),
        f"{memory:.0%}",
        Text(f"{requested:.0%}", "dim"),
        Text(str(len(kubelets.list_pods_on(machine.name))), "dim"),
    ]


def _build_outputs(state: RunState, lines: int) -> RenderableType:
    newest = list(state.latest)[::-1][:lines]
    text = Text("\n".join(sentence(decode(topic, value)) for topic, value in newest))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
