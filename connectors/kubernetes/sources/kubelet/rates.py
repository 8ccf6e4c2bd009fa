"""Counters of CPU time to rates.

A rate is the mean between two readings of a counter, by the times of the readings. It is never
negative and never a guess: where a counter fell or has another start time (what it counts was restarted),
where it left 0 (it may have begun long before), or where the last reading is too old, the reading is
only where the next rate begins. A reading of 0 after others (what it counts is dying), or of a time
before the last one, is dropped. So over any history the rates add up to at most what was used.
"""

from schemas.base.message import AMOUNT_MAX

#: Readings closer together are one, in ms: a kubelet answers from a cache.
RATE_MIN_MS = 100
#: The longest time that a rate is the mean of, in ms, unless readings are farther apart on purpose.
RATE_MAX_MS = 300_000


class CpuCounter:
    """CPU seconds of one node, pod or container."""

    __slots__ = ("at_ms", "began_s", "millicores", "seconds", "span_ms")

    def __init__(self, seconds: float, at_ms: int, began_s: float | None = None) -> None:
        self.seconds = seconds
        self.at_ms = at_ms
        self.began_s = began_s
        """Start time of what is counted; none: not known."""
        self.millicores: int | None = None
        """The rate that ends at `at_ms`; none: not known."""
        self.span_ms = 0
        """The time that the rate is the mean of."""

    def take(
        self,
        seconds: float,
        at_ms: int,
        longest_ms: int = RATE_MAX_MS,
        began_s: float | None = None,
    ) -> None:
        """The next reading; a rate is the mean of at most `longest_ms`."""
        span_ms, used = at_ms - self.at_ms, seconds - self.seconds
        if 0 <= span_ms < RATE_MIN_MS and used >= 0:
            return  # nothing new: the last rate stands
        self.millicores, self.span_ms = None, 0
        # A clock that was set back farther than that is followed.
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
