"""The time of a partition: the median of the times of its newest samples.

Samples name their own time, and a producer's clock can be wrong by years. A median of a few follows
the majority at once and no single clock, whichever way it errs, so one of them can neither make a
partition forget its nodes nor keep it from forgetting.
"""

from collections.abc import Iterable

#: Samples that the median is of.
HEARD_MAX = 15


class PartitionClock:
    """Median of the newest samples' times, in the order of the log."""

    __slots__ = ("heard_ms",)

    def __init__(self, heard_ms: Iterable[int] = ()) -> None:
        self.heard_ms = list(heard_ms)
        """Times of the newest samples, in the order of the log."""

    def hear(self, time_ms: int) -> None:
        """Take in the time of a sample."""
        self.heard_ms.append(time_ms)
        if len(self.heard_ms) > HEARD_MAX:
            del self.heard_ms[0]

    @property
    def now_ms(self) -> int | None:
        """The time; None until there were enough samples to know it."""
        if len(self.heard_ms) < HEARD_MAX:
            return None
        return sorted(self.heard_ms)[HEARD_MAX // 2]
