"""A shorter trace that fails in the same kind: less time, fewer faults, fewer pods and nodes.

What failed before the end is not lived on from. Faults are left out by delta debugging (see
`tests.fuzz.shorten`), which is possible since each has random numbers of its own.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.faults.life import Report, live, scenario
from tests.faults.trace import STEP_S, Fault, Trace
from tests.fuzz.shorten import minimal


def shrunk(
    report: Report, seconds: float, enough: Callable[[Trace], bool] = lambda trace: False
) -> Report:
    """The shortest that was found within so much CPU, or the first that is enough, and how it fails."""
    assert report.failure is not None
    search = _Search(report, report.failure.kind, time.process_time() + seconds, enough)
    search.cut_off()
    search.leave_out()
    for smaller in (_less_time, _fewer_pods, _fewer_nodes, _shorter_faults):
        search.go_on(smaller)
    search.leave_out()
    return search.best


class _Search:
    """The best so far, and until when to search."""

    def __init__(
        self, report: Report, kind: str, end_s: float, enough: Callable[[Trace], bool]
    ) -> None:
        self.best = report
        self._kind = kind
        self._end_s = end_s
        self._enough = enough

    def over(self) -> bool:
        return time.process_time() >= self._end_s or self._enough(self.best.trace)

    def fails(self, trace: Trace) -> bool:
        """Whether it fails in the same kind; if so it is the best."""
        report = live(trace)
        if report.failure is None or report.failure.kind != self._kind:
            return False
        self.best = report
        return True

    def cut_off(self) -> None:
        """End where it failed, if that was before all was put in order."""
        if self.best.second < self.best.trace.length_s:
            length_s = self.best.second + STEP_S
            trace = self.best.trace
            self.fails(_until(trace, length_s, quiet=False))

    def leave_out(self) -> None:
        """Leave out all faults that can be left out."""

        def fails(faults: Sequence[Fault]) -> bool:
            return self.fails(replace(self.best.trace, faults=tuple(faults)))

        if self.best.trace.faults and not fails(()):
            minimal(self.best.trace.faults, fails, self.over)

    def go_on(self, smaller: Callable[[Trace], Iterator[Trace]]) -> None:
        """Make it smaller in one way as long as it fails."""
        while not self.over():
            if not any(self.fails(each) for each in smaller(self.best.trace) if not self.over()):
                return


def _until(trace: Trace, length_s: int, *, quiet: bool) -> Trace:
    faults = tuple(fault for fault in trace.faults if fault.at_s < length_s)
    return replace(trace, length_s=length_s, faults=faults, quiet=quiet)


def _less_time(trace: Trace) -> Iterator[Trace]:
    for share in (0.5, 0.75, 0.9):
        length_s = int(trace.length_s * share) // STEP_S * STEP_S
        if 0 < length_s < trace.length_s:
            yield _until(trace, length_s, quiet=trace.quiet)


def _fewer_pods(trace: Trace) -> Iterator[Trace]:
    pods = len(scenario(trace).plans) if trace.pods is None else trace.pods
    for share in (0.5, 0.75, 0.9):
        if 0 < int(pods * share) < pods:
            yield replace(trace, pods=int(pods * share))


def _fewer_nodes(trace: Trace) -> Iterator[Trace]:
    if trace.nodes > 1:
        yield replace(trace, nodes=trace.nodes - 1)


def _shorter_faults(trace: Trace) -> Iterator[Trace]:
    """Each fault for half of its time."""
    for number, fault in enumerate(trace.faults):
        for_s = fault.for_s // 2 // STEP_S * STEP_S
        if for_s:
            faults = list(trace.faults)
            faults[number] = replace(fault, for_s=for_s)
            yield replace(trace, faults=tuple(faults))
