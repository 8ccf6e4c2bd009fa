"""Compute rates from counters of CPU time.

A rate is the mean between two readings of a counter, by the times of the readings. A reading gives no rate,
and only starts the next one, if

- the counter has decreased or has another start time, because the container was restarted;
- the previous reading was 0, because it may be from long before;
- the previous reading is too old.

A reading of 0 after others (the container is ending), or with an earlier time, is dropped. So the rates
never add up to more than was used.
"""

from schemas.base.message import AMOUNT_MAX

#: Readings within this time count as one, in ms, because kubelets answer from a cache.
RATE_MIN_MS = 100
#: Longest time between the readings of a rate, in ms, unless the interval is longer.
RATE_MAX_MS = 300_000


class CpuCounter:
    """CPU seconds of one node, pod or container."""

    __slots__ = ("at_ms", "began_s", "millicores", "seconds", "span_ms")

    def __init__(self, seconds: float, at_ms: int, began_s: float | None = None) -> None:
        self.seconds = seconds
        self.at_ms = at_ms
        self.began_s = began_s
        """Start time of the container; None: unknown."""
        self.millicores: int | None = None
        """The rate that ends at `at_ms`; None: unknown."""
        self.span_ms = 0
        """The time over which the rate is averaged."""

    def take(
        self,
        seconds: float,
        at_ms: int,
        longest_ms: int = RATE_MAX_MS,
        began_s: float | None = None,
    ) -> None:
        """Add a reading; a rate is averaged over at most `longest_ms`."""
        span_ms, used = at_ms - self.at_ms, seconds - self.seconds
        if 0 <= span_ms < RATE_MIN_MS and used >= 0:
            return  # not new: the last rate stays
        self.millicores, self.span_ms = None, 0
        # If the clock was set back by more than `longest_ms`, the counter starts again.
        if -longest_ms <= span_ms < 0 or (seconds == 0 and self.seconds > 0):
            return
        if began_s is not None and self.began_s is not None and began_s != self.began_s:
            used = -1.0
        self.began_s = began_s
        if used >= 0 and 0 < span_ms <= longest_ms and (self.seconds > 0 or used == 0):
            rate = used * 1e6 / span_ms
            if rate <= AMOUNT_MAX:
                self.millicores, self.span_ms = int(rate + 0.5), span_ms
        self.seconds, self.at_ms = seconds, at_ms
