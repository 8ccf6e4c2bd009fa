"""The part of the live view that shows rebalancing: hot nodes now, and what happened last."""

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from schemas.base.printable import printable
from simulation.demo.relief import Happening, HotSpell, Relief, usage_text
from simulation.demo.session import Session
from simulation.demo.wording import hour_text

_STYLES = {"hot": "red", "left": "cyan", "dry": "dim", "back": "green", "cool": "bold green"}


def relief_panel(session: Session, lines: int, width: int) -> Panel:
    """Hot nodes in the upper half of the lines, happenings in the rest, newest first."""
    relief = session.relief
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", max_width=max(20, width - 11))
    spells = sorted(relief.hot.values(), key=lambda spell: (spell.since_ms, spell.node))
    shown = spells[: max(1, lines // 2)] if spells else []
    rows = [_spell(relief, spell, session.now_ms) for spell in shown]
    latest = list(relief.happenings)[::-1][: max(0, lines - len(rows))]
    rows += [_happening(each) for each in latest]
    for row in rows[:lines]:
        table.add_row(*row)
    for _ in range(lines - len(rows)):
        table.add_row("", "")
    return Panel(table, title=_title(session, relief), border_style="blue", padding=(0, 1))


def _title(session: Session, relief: Relief) -> str:
    if session.enforced_ms is None:
        return f"rebalancing observes: {relief.dry_commands} dry commands"
    return f"rebalancing: {len(relief.hot)} hot, {len(session.evictions)} evicted"


def _spell(relief: Relief, spell: HotSpell, now_ms: int) -> tuple[Text, Text]:
    minutes = max(0, now_ms - spell.since_ms) // 60_000
    left = f", {spell.left} left" if spell.left else ""
    gate = relief.gate(spell.node)
    said = f": {usage_text(spell.used, relief.hot_above)}{f' ({gate})' if gate else ''}"
    return Text("hot", "bold red"), Text(
        printable(f"{spell.node} for {minutes} min{left}{said}"), "red"
    )


def _happening(each: Happening) -> tuple[Text, Text]:
    return Text(hour_text(each.at_ms), "dim"), Text(printable(each.text), _STYLES[each.what])
