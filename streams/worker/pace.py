"""The pace of work that is done beside batches: short turns, and rests that are longer than the
turns.

A batch passes through the event loop some twenty times before its decisions are published. Work
that takes a turn at each of these times, however short, makes all of them late; so between turns
the loop is left to the batches. How long the whole takes is not guaranteed: a busy machine makes
turns and rests longer.
"""

import asyncio
import time

#: Longest turn, in seconds; what is asked for in between may be a little longer.
TURN_S = 0.002
#: Share of the time that is worked.
SHARE = 0.25
#: Longest rest, in seconds: a turn in which the process had no core says nothing about the work.
REST_MAX_S = 0.05


class Pace:
    """Measures turns; one for each stretch of work."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def over(self) -> bool:
        """The turn is over: `rest` before anything else is done."""
        return time.perf_counter() - self._began_s >= TURN_S

    async def rest(self, *, hurry: bool = False) -> None:
        """Leave the loop to the batches; `hurry`: they have one turn, and work goes on."""
        worked_s = time.perf_counter() - self._began_s
        await asyncio.sleep(0 if hurry else min(worked_s * (1 / SHARE - 1), REST_MAX_S))
        self._began_s = time.perf_counter()
