"""`clock`: the time, written once a second by the worker that owns a partition.

The log is the clock: a decision uses the time of the last applied clock record. So a replay sees the
same time, and a simulation can run faster than real time.

Log time does not go back, so it would stand still after a record far in the future. A worker refuses
ticks that are too far ahead of its own clock, and records the refusal in the journal.
"""

from typing import ClassVar

from schemas.base.message import Count, EpochMs, Message

#: Maximum lead of a tick over the clock of the worker that applies it, in ms. Clocks synchronized by NTP
#: differ by less than one second. A wrong refusal does no harm, because the worker also writes its own ticks.
AHEAD_MAX_MS = 10_000


class ClockTick(Message):
    """Log time becomes `now_ms` (key: the partition).

    A tick older than the last applied tick is ignored.
    """

    record_time: ClassVar = "now_ms"

    partition: Count
    """Partition of the input topics, and of this record."""
    now_ms: EpochMs
    """The new log time."""
    state_lost: bool = False
    """The state of the partition was deleted (`loadstream partition reset`): producers send their
    full lists and waiting requests again."""
