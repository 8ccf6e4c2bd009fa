"""A shorter history that fails in the same way.

Events are left out by delta debugging: Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input" (2002). Whole kinds of events are left out first, which takes few runs.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from tests.histories.history import Event, History
from tests.histories.run import Report, run


def shrink(report: Report, seconds: float) -> Report:
    """Return the report of the shortest history found within so many seconds of CPU."""
    search = _Search(report, time.process_time() + seconds)
    search.try_events(report.history.events[: report.event])
    search.leave_out_kinds()
    search.leave_out_events()
    return search.best


class _Search:
    def __init__(self, report: Report, end_s: float) -> None:
        assert report.failure is not None
        self.best, self._kind, self._end_s = report, report.failure.kind, end_s

    @property
    def events(self) -> Sequence[Event]:
        return self.best.history.events

    def is_over(self) -> bool:
        return time.process_time() >= self._end_s

    def try_events(self, events: Sequence[Event]) -> bool:
        """Tell whether these events fail in the same way; if so, they are the best so far."""
        report = run(History(self.best.history.seed, tuple(events)))
        if report.failure is None or report.failure.kind != self._kind:
            return False
        self.best = replace(
            report, history=replace(report.history, events=report.history.events[: report.event])
        )
        return True

    def leave_out_kinds(self) -> None:
        for kind in sorted({event.kind for event in self.events}):
            if self.is_over():
                return
            self.try_events([event for event in self.events if event.kind != kind])

    def leave_out_events(self) -> None:
        """Leave out ever smaller pieces."""
        size = len(self.events) // 2
        while size and not self.is_over():
            shrunk = False
            start = 0
            while start < len(self.events) and not self.is_over():
                if self.try_events([*self.events[:start], *self.events[start + size :]]):
                    shrunk = True
                else:
                    start += size
            if size == 1 and not shrunk:
                return
            size = max(1, size // 2)
