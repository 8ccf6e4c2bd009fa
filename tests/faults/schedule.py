"""Which faults there are now, each with random numbers of its own."""

from collections.abc import Iterator
from random import Random

from simulation.closed_loop.scenario import BEGIN_MS
from tests.faults.trace import STEP_S, Fault, Trace


class Schedule:
    """The faults of a trace, as time goes on."""

    def __init__(self, trace: Trace) -> None:
        self.second = 0
        self.now_ms = BEGIN_MS
        self._end_s = trace.length_s
        self._faults: dict[str, list[Fault]] = {}
        self._randoms: dict[int, Random] = {}
        for fault in trace.faults:
            self._faults.setdefault(fault.kind, []).append(fault)
            self._randoms[fault.number] = Random(f"{trace.seed} fault {fault.number}")

    def advance(self, second: int) -> None:
        """It is so many seconds after the beginning."""
        self.second = second
        self.now_ms = BEGIN_MS + 1000 * second

    @property
    def over(self) -> bool:
        """Nothing goes wrong any more."""
        return self.second >= self._end_s

    def active(self, kind: str) -> Iterator[Fault]:
        """Faults of a kind that last now."""
        for fault in self._faults.get(kind, ()):
            if fault.at_s <= self.second < min(fault.at_s + fault.for_s, self._end_s):
                yield fault

    def begins(self, kind: str) -> Iterator[Fault]:
        """Faults of a kind that begin with this step."""
        for fault in self._faults.get(kind, ()):
            if self.second - STEP_S < fault.at_s <= self.second < self._end_s:
                yield fault

    def ends(self, kind: str) -> Iterator[Fault]:
        """Faults of a kind that end with this step."""
        for fault in self._faults.get(kind, ()):
            if self.second - STEP_S < fault.at_s + fault.for_s <= self.second < self._end_s:
                yield fault

    def random(self, fault: Fault) -> Random:
        """The fault's random numbers."""
        return self._randoms[fault.number]

    def strikes(self, kind: str) -> Fault | None:
        """A fault of the kind that strikes the record at hand; none: it is spared."""
        for fault in self.active(kind):
            if self._randoms[fault.number].random() < fault.share:
                return fault
        return None
