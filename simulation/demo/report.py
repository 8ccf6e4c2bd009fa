"""What is printed at the end: the summary table, the files, and what to try next."""

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from schemas.base.printable import printable
from simulation.demo.rebalance_summary import Rebalanced
from simulation.demo.saved import Way
from simulation.demo.summary import SHORT_ABOVE, Figures, Spread
from simulation.demo.wording import reason_text

#: Names that a row of the summary holds.
_NAMES_MAX = 6


def print_report(console: Console, figures: Figures, thresholds: tuple[float, float]) -> None:
    """The summary and the comparison."""
    console.print()
    console.print(_summary(figures))
    console.print()
    console.print(_comparison(figures, thresholds))
    console.print()
    console.print(_saved(figures.ways))
    if figures.rebalanced is not None:
        console.print()
        console.print(_relieved(figures.rebalanced))


def _summary(figures: Figures) -> Table:
    table = Table(title="What happened", title_justify="left", show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    for row in (
        ("simulated time", f"{figures.simulated_h:.1f} h", f"in {figures.real_s:.0f} s"),
        ("requests", f"{figures.requests}", "pods that asked for a node"),
        ("placed", f"{figures.placed}", ""),
        ("waiting at the end", f"{figures.waiting}", _reasons(figures.waiting_reasons)),
        ("refused for good", f"{figures.refused}", _reasons(figures.refused_reasons)),
        ("decisions", f"{figures.decisions}", "repeated ones about waiting pods included"),
        (
            "usage samples",
            f"{figures.samples}",
            f"{figures.samples_per_s:.0f} a second; {figures.metrics} node metrics were made of them",
        ),
        (
            "full at the end",
            f"{len(figures.full_nodes)}",
            f"their load lets no pod in: {_names(figures.full_nodes) or 'none'}",
        ),
        ("dead letters", f"{figures.dead_letters}", ""),
    ):
        table.add_row(*row)
    return table


def _saved(ways: tuple[Way, ...]) -> Table:
    table = Table(
        title="What it saves: the same pods on the same load, over the whole time",
        title_justify="left",
        box=None,
        caption="hot: from the share on that this run's policy calls hot; waiting: at the end",
        caption_justify="left",
    )
    table.add_column("", style="bold", no_wrap=True)
    for head in ("hot-node min", "evictions", "waiting"):
        table.add_column(head, justify="right", no_wrap=True)
    for way in ways:
        waiting = "-" if way.waiting is None else f"{way.waiting}"
        table.add_row(way.name, f"{way.hot_minutes:.0f}", f"{way.evictions}", waiting)
    return table


def _relieved(found: Rebalanced) -> Table:
    table = Table(
        title=f"What rebalancing did, in {found.hours:.1f} h of evictions that were carried out",
        title_justify="left",
        box=None,
        show_header=False,
        caption=f"hot: above {found.hot_above:.0%} of its cores on average of {found.bin_minutes:.0f}"
        " minutes; without: the"
        " same pods on the same load, none of them evicted",
        caption_justify="left",
    )
    table.add_column(style="bold", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(style="dim")
    cooled = (
        "" if found.minutes_to_cool is None
        else f"half of them within {found.minutes_to_cool:.0f} min"
    )  # fmt: skip
    results = ", ".join(f"{count} {result}" for result, count in found.results)
    for row in (
        (
            "hot-node minutes",
            f"{found.hot_minutes:.0f}",
            f"without evictions {found.hot_minutes_staying:.0f}",
        ),
        ("times a node was hot", f"{found.turned_hot}", ""),
        ("times a node cooled", f"{found.cooled}", cooled),
        ("hot at the end", f"{len(found.still_hot)}", _names(found.still_hot)),
        ("evictions", f"{found.evictions}", f"of {found.commands} commands: {results or 'none'}"),
        ("commanded twice", f"{found.repeated}", ""),
        ("placed again", f"{found.placed_again}", "pods that came in place of evicted ones"),
        ("dry runs", f"{found.dry_commands}", "commands of the first act, in observe mode"),
    ):
        table.add_row(*row)
    return table


def _names(names: tuple[str, ...]) -> str:
    return _text(", ".join(names[:_NAMES_MAX]) + (" ..." if len(names) > _NAMES_MAX else ""))


def _reasons(reasons: tuple[tuple[str, int], ...]) -> str:
    return _text("; ".join(f"{count}: {reason_text(reason)}" for reason, count in reasons))


def _text(text: str) -> str:
    """Text of others in a cell, which rich reads as markup."""
    return escape(printable(text))


def _comparison(figures: Figures, thresholds: tuple[float, float]) -> Table:
    table = Table(
        title="How even it was: usage over all nodes and the whole time",
        title_justify="left",
        box=None,
        caption="by requests alone: the same pods on the same load, each put where the largest share"
        " of what it requests is free",
        caption_justify="left",
    )
    table.add_column("", style="bold", no_wrap=True)
    for head in ("by real load", "by requests alone"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, ours, theirs, threshold in (
        ("cpu", figures.cpu, figures.cpu_by_requests, thresholds[0]),
        ("memory", figures.memory, figures.memory_by_requests, thresholds[1]),
    ):
        rows = {
            "mean": "mean",
            "standard deviation over nodes": "deviation",
            "busiest node": "largest",
            f"time above {threshold:.0%}": "hot",
            f"time above {SHORT_ABOVE:.0%}": "short",
        }
        for label, attribute in rows.items():
            table.add_row(f"{name}: {label}", *(_share(s, attribute) for s in (ours, theirs)))
    return table


def _share(spread: Spread, attribute: str) -> str:
    return f"{getattr(spread, attribute) * 100:.1f} %"


def print_next(console: Console, output: Path, files: list[Path], *, traced: bool) -> None:
    """Where the files are, and what to try next."""
    console.print()
    for file in files:
        line = printable(f"{_FILES[file.name]}: {file}")
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print("[bold]What to try next[/]")
    lines = _suggestions(output, traced=traced)
    for command, what in lines:
        text = Text.assemble("  ", (f"{what}:", "dim"), printable(f"\n    {command}"))
        console.print(text, highlight=False, soft_wrap=True)


def _suggestions(output: Path, *, traced: bool) -> list[tuple[str, str]]:
    """Commands that work from here, and what they are good for."""
    us = _command()
    lines = [
        (f"{us} tail placement-decisions", "in a second terminal, while the demo runs"),
        (f"{us} why-not demo", "in a second terminal: why not more is evicted"),
        (f"{us} policy check {output / 'policy.yaml'}", "the policy of this run in full"),
    ]
    if _KOORDINATOR.is_file():
        lines.append(
            (f"{us} policy check {_KOORDINATOR}", "a policy that does what Koordinator does")
        )
    if not traced:
        lines.append(
            (f"{us} demo --trace DIR", "machines of Alibaba, tasks of OpenB, as they were")
        )
    lines.append((f"{us} demo --nodes 200 --seed 2", "a larger cluster, other pods"))
    if Path("Makefile").is_file():
        lines.append(("make test", "what holds, to the integer"))
    return lines


def _command() -> str:
    """How the command is called from here: by its name, or by its path if that does not find it."""
    if shutil.which("loadstream") is not None:
        return "loadstream"
    beside = Path(sys.executable).with_name("loadstream")
    if beside.is_relative_to(Path.cwd()):
        beside = beside.relative_to(Path.cwd())
    return str(beside)


_KOORDINATOR = Path("deploy/policies/koordinator.yaml")
_FILES = {
    "usage.png": "picture",
    "usage.svg": "picture",
    "decisions.jsonl": "all decisions",
    "evictions.jsonl": "all eviction commands",
    "rounds.jsonl": "all rounds of rebalancing",
    "summary.json": "all figures",
    "policy.yaml": "policy of the first act",
    "worker.log": "log of the worker",
}


def write_figures(figures: Figures, file: Path) -> None:
    """The figures as JSON."""
    file.write_text(json.dumps(asdict(figures), indent=2) + "\n", encoding="utf-8")
