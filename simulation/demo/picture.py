"""The picture at the end: usage of every node over time, placements, and the comparison.

Drawn without a display, into files; matplotlib is loaded only here.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulation.demo.grid import UsageGrid
from simulation.demo.rebalance_summary import hot_nodes
from simulation.demo.session import Session
from simulation.demo.summary import thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _SOFT, _GRID = "#22272e", "#6b7280", "#e5e7eb"
_LOADSTREAM, _REQUESTS, _WAITING = "#0f766e", "#c2410c", "#d97706"
_LEFT = "#1d4ed8"
#: Most names that fit beside the heat map.
_NAMES_MAX = 50


def can_draw() -> bool:
    """Whether matplotlib is installed, which only the extra `simulation` requires."""
    return find_spec("matplotlib") is not None


def draw(session: Session, compared: UsageGrid, staying: UsageGrid, files: list[Path]) -> None:
    """Draw the run into files; their suffixes say how (.png, .svg).

    `compared` is the usage with pods placed by requests alone, `staying` that without evictions.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    nodes = len(session.scenario.machines)
    figure = Figure(figsize=(13, 8.8 + min(nodes, _NAMES_MAX) * 0.085), layout="constrained")
    FigureCanvasAgg(figure)
    heat, hot, pods, evenness = figure.subplots(
        4, 1, sharex=True, height_ratios=(2.4 + min(nodes, _NAMES_MAX) * 0.045, 1.1, 0.9, 1.3)
    )
    hours = _hours(session)
    _heat(heat, session, hours)
    _moves(heat, session)
    _hot(hot, session, staying, hours)
    _pods(pods, session, hours)
    _evenness(evenness, session, compared, hours)
    figure.suptitle(
        f"loadstream: {len(session.placed_at_ms)} pods placed on {nodes} nodes by real load,"
        f" {len(session.evictions)} evicted from hot ones",
        color=_INK, fontsize=14, fontweight="bold",
    )  # fmt: skip
    # Text stays text, and equal runs give equal files.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "loadstream"}):
        for file in files:
            metadata: dict[str, Any] = {"Date": None} if file.suffix == ".svg" else {}
            figure.savefig(file, dpi=130, metadata=metadata)


def _hours(session: Session) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Edges of the bins in hours since the beginning, shape (bins + 1,)."""
    bins = len(session.grid.cpu)
    return np.arange(bins + 1) * session.grid.bin_ms / 3_600_000


def _heat(axes: "Axes", session: Session, hours: Any) -> None:
    usage = session.grid.cpu.T * 100
    names = [machine.name for machine in session.scenario.machines]
    rows = np.arange(len(names) + 1)
    from matplotlib import colormaps

    colours = colormaps["YlOrRd"].with_extremes(bad=_GRID)
    mesh = axes.pcolormesh(
        hours, rows, np.ma.masked_invalid(usage), cmap=colours, vmin=0, vmax=100, rasterized=True
    )
    axes.invert_yaxis()
    axes.set_title("CPU usage of every node", loc="left", color=_INK, fontsize=11)
    if len(names) <= _NAMES_MAX:
        axes.set_yticks(rows[:-1] + 0.5, names, fontsize=6.5)
        axes.tick_params(axis="y", length=0)
    else:
        axes.set_ylabel(f"{len(names)} nodes")
    bar = axes.figure.colorbar(mesh, ax=axes, pad=0.01, aspect=30)
    bar.set_label("% of its cores; grey: no sample", color=_SOFT, fontsize=8)
    bar.outline.set_visible(False)
    _plain(axes)


def _moves(axes: "Axes", session: Session) -> None:
    """What left a node, and where what came in its place went, over the usage of the nodes."""
    rows = {machine.name: row + 0.5 for row, machine in enumerate(session.scenario.machines)}
    begin_ms = session.scenario.begin_ms
    if session.enforced_ms is not None:
        hour = (session.enforced_ms - begin_ms) / 3_600_000
        axes.axvline(hour, color=_INK, linewidth=1.0, linestyle="--")
        axes.annotate(
            "evictions are carried out ▸", (hour, 0), xytext=(0, 3), textcoords="offset points",
            ha="center", va="bottom", fontsize=8, color=_INK, annotation_clip=False,
        )  # fmt: skip
    for what, marker, face, label in (
        ("left", "v", _LEFT, "a pod leaves"),
        ("back", "o", "white", "its replacement arrives"),
    ):
        moves = [each for each in session.relief.happenings if each.what == what]
        axes.scatter(
            [(each.at_ms - begin_ms) / 3_600_000 for each in moves], [rows[each.node] for each in moves],
            s=18, marker=marker, facecolor=face, edgecolor=_LEFT, linewidth=0.8, label=label, zorder=3,
        )  # fmt: skip
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False, ncols=2, fontsize=9,
        borderaxespad=0.1,
    )  # fmt: skip


def _hot(axes: "Axes", session: Session, staying: UsageGrid, hours: Any) -> None:
    """How many nodes were hot, with evictions and without."""
    known = ~np.isnan(session.grid.cpu).all(axis=1)
    for grid, colour, name in (
        (staying, _REQUESTS, "without evictions"),
        (session.grid, _LOADSTREAM, "with them"),
    ):
        counts = np.where(known, hot_nodes(session, grid), np.nan)
        axes.stairs(counts, hours, color=colour, linewidth=1.8, label=name, baseline=None)
        axes.stairs(np.nan_to_num(counts), hours, color=colour, alpha=0.15, fill=True)
    times = [
        (eviction.at_ms - session.scenario.begin_ms) / 3_600_000 for eviction in session.evictions
    ]
    if times:
        axes.hist(times, bins=hours, color=_LEFT, alpha=0.8, label="evictions")
    axes.set_ylabel("nodes", color=_SOFT)
    axes.set_title(
        "Nodes that the policy calls hot: the same pods on the same load",
        loc="left", color=_INK, fontsize=11,
    )  # fmt: skip
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, ncols=3, fontsize=9)
    _plain(axes)


def _pods(axes: "Axes", session: Session, hours: Any) -> None:
    placed, waiting = session.placements_per_bin()
    width = hours[1] - hours[0]
    axes.bar(hours[:-1], placed, width=width * 0.9, align="edge", color=_LOADSTREAM, label="placed")
    axes.step(hours[:-1], waiting, where="post", color=_WAITING, linewidth=1.5, label="waiting")
    axes.set_ylabel("pods", color=_SOFT)
    axes.set_title(f"Pods in {width * 60:.0f} minutes", loc="left", color=_INK, fontsize=11)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, ncols=2, fontsize=9)
    _plain(axes)


def _evenness(axes: "Axes", session: Session, compared: UsageGrid, hours: Any) -> None:
    middles = (hours[:-1] + hours[1:]) / 2
    for grid, colour, name in (
        (compared, _REQUESTS, "by requests alone"),
        (session.grid, _LOADSTREAM, "by real load"),
    ):
        usage = grid.cpu * 100
        known = ~np.isnan(usage).all(axis=1)
        low, middle, high = np.nanpercentile(usage[known], (10, 50, 90), axis=1)
        axes.fill_between(middles[known], low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(middles[known], middle, color=colour, linewidth=1.8, label=f"{name}: median")
        axes.plot(
            middles[known], np.nanmax(usage[known], axis=1), color=colour, linewidth=1.0,
            linestyle=":", label=f"{name}: busiest node",
        )  # fmt: skip
    axes.axhline(thresholds(session)[0] * 100, color=_SOFT, linewidth=0.8, linestyle="--")
    axes.annotate(
        "threshold", (hours[-1], thresholds(session)[0] * 100), xytext=(-4, 3),
        textcoords="offset points", ha="right", fontsize=8, color=_SOFT,
    )  # fmt: skip
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of the cores", color=_SOFT)
    axes.set_xlabel("hours since the beginning", color=_SOFT)
    axes.set_title(
        "CPU usage across the nodes: the same pods on the same load (band: 10th to 90th percentile)",
        loc="left", color=_INK, fontsize=11,
    )  # fmt: skip
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False, ncols=4, fontsize=9)
    _plain(axes)


def _plain(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_GRID)
    axes.tick_params(colors=_SOFT, labelcolor=_SOFT)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=13, steps=[1, 2, 3, 4, 6, 10]))
