"""`clock`: the time, as the worker that owns a partition writes it once a second.

The log is the clock: a decision's `now` is the time of the last clock record applied, so a replay sees
the same time and a sped-up run has a sped-up clock.
"""

from schemas.base import Count, EpochMs, Message


class ClockTick(Message):
    """It is `now_ms` (key: the partition). A tick older than the last one applied is ignored."""

    partition: Count
    """Partition of the input topics whose time this is; also the partition of this record."""
    now_ms: EpochMs
    """The time from now on."""
