"""How a run is shown while it lasts: a live view on a terminal, or a line every few seconds."""

import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live

from schemas.base.printable import printable
from simulation.demo.session import Session
from simulation.demo.status import Status
from simulation.demo.view import render
from simulation.demo.wording import clock_text

#: Pictures of the live view in a second, and seconds between two lines.
_PICTURES_PER_S = 8.0
_LINE_EVERY_S = 5.0


class Display(Protocol):
    """Shows a session; a context manager around the run."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, session: Session, status: Status) -> None:
        """Called as often as one likes."""


class LiveDisplay:
    """The whole terminal; what was there before comes back at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._due_s = 0.0

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, session: Session, status: Status) -> None:
        """Draw the view, a few times a second."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + 1.0 / _PICTURES_PER_S
        size = self._console.size
        self._live.update(render(session, status, size.width, size.height), refresh=True)


class PlainDisplay:
    """Lines, for files and screen readers."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._due_s = 0.0
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def show(self, session: Session, status: Status) -> None:
        """Print a line, every few seconds and when the run begins."""
        now_s = time.monotonic()
        if now_s < self._due_s and (status.phase == "starting") == (self._phase == "starting"):
            return
        self._due_s, self._phase = now_s + _LINE_EVERY_S, status.phase
        self._console.print(
            printable(line_of(session, status)), markup=False, highlight=False, soft_wrap=True
        )


def line_of(session: Session, status: Status) -> str:
    """Where the run stands, on one line."""
    if status.phase == "starting":
        return "the worker is starting ..."
    observed = session.observed
    known = [node.cpu for node in observed.nodes.values() if node.cpu is not None]
    usage = (
        f"cpu mean {100 * sum(known) / len(known):.0f} % max {100 * max(known):.0f} %"
        if known
        else "cpu unknown"
    )
    waiting = len(observed.waiting())
    hot = sorted(session.relief.hot)
    names = f" ({', '.join(hot[:3])}{' ...' if len(hot) > 3 else ''})" if hot else ""
    rate = f"; {session.samples / status.real_s:.0f} samples/s" if status.real_s > 1 else ""
    return (
        f"{clock_text(session.now_ms, session.scenario.begin_ms)}: {session.requests} requests,"
        f" {len(session.placed_at_ms)} placed, {waiting} waiting; {usage}, {len(hot)} hot{names};"
        f" {_moved(session)}{rate}"
    )


def _moved(session: Session) -> str:
    """What rebalancing has done so far."""
    if session.enforced_ms is None:
        return f"{session.relief.dry_commands} dry evictions"
    return f"{len(session.evictions)} evicted"
