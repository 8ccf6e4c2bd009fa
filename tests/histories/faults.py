"""Faults of the surroundings of the stages, and which of them last at the moment.

A fault is an event as any other (`history`). It strikes a random share of records or commands for
a random time; both are drawn from the random numbers of its event.
"""

from random import Random
from typing import NamedTuple


class Fault(NamedTuple):
    """How often a fault is drawn, how long it lasts at most, and the largest share it strikes."""

    frequency: float
    seconds_max: int = 0
    share_max: float = 1.0


#: A fault without a duration happens once; `run` or the worker or sink that it hits applies it.
FAULTS: dict[str, Fault] = {
    # Usage samples on their way from the agents.
    "samples are lost": Fault(0.3, 300),
    "samples are late": Fault(0.3, 300),
    "samples come twice": Fault(0.2, 300),
    "samples are shuffled": Fault(0.2, 300),
    "samples repeat old values": Fault(0.3, 600),
    "samples report wrong amounts": Fault(0.3, 600),
    # State and requests on their way from the watch.
    "the watch loses records": Fault(0.4, 60),
    "the watch is late": Fault(0.4, 60),
    "records are written twice": Fault(0.2, 300, 0.5),
    # Workers and what they read.
    "the cluster worker stops": Fault(1.2),
    "the cluster worker fails over": Fault(0.5),
    "the cluster worker stands still": Fault(0.4, 90),
    "the aggregate worker stops": Fault(0.8),
    "metrics are read late": Fault(0.4, 300),
    "records are delivered again": Fault(0.4, 300, 0.5),
    # Binder and evictor.
    "commands fail": Fault(0.8, 300),
    "commands are refused": Fault(0.8, 300),
    "outcomes are not reported": Fault(0.5, 300),
    "commands wait": Fault(0.8, 300),
    "the sink restarts": Fault(0.4),
    "commands are read twice": Fault(0.3, 300, 0.5),
}


class Faults:
    """The faults that last now."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._lasting: dict[str, tuple[int, float, Random]] = {}
        """End, share and random numbers of the newest fault of each kind."""

    def begin(self, kind: str, random: Random) -> None:
        _, seconds_max, share_max = FAULTS[kind]
        end_ms = self.now_ms + 1_000 * random.randint(1, seconds_max)
        self._lasting[kind] = end_ms, random.uniform(0.1, share_max), random

    def end_all(self) -> None:
        self._lasting.clear()

    def lasts(self, kind: str) -> bool:
        return kind in self._lasting and self._lasting[kind][0] > self.now_ms

    def strikes(self, kind: str) -> Random | None:
        """Return the random numbers of the fault if it strikes the record at hand."""
        if not self.lasts(kind):
            return None
        _, share, random = self._lasting[kind]
        return random if random.random() < share else None
