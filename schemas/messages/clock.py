"""`clock`: the time, as the worker that owns a partition writes it once a second.

The log is the clock: a decision's `now` is the time of the last clock record applied, so a replay
sees the same time and a sped-up run has a sped-up clock.

Time in the log never goes back, so one record far in the future would stop it until then. A worker
that writes the time therefore refuses ticks that are too far ahead of its own clock, and notes in
the journal that it did.
"""

from schemas.base.message import Count, EpochMs, Message

#: How far a tick may be ahead of the clock of the worker that applies it, in ms. Clocks in step (NTP)
#: differ by less than one second. A wrong refusal does no harm, since the refusing worker writes
#: its own ticks.
AHEAD_MAX_MS = 10_000


class ClockTick(Message):
    """It is `now_ms` (key: the partition). A tick older than the last one applied is ignored."""

    partition: Count
    """Partition of the input topics whose time this is; also the partition of this record."""
    now_ms: EpochMs
    """The time from now on."""
    state_lost: bool = False
    """What the worker knew of the partition was deleted (`loadstream partition reset`): producers
    send their full lists again, and the requests that wait."""
