"""Time of a measurement: the node's own, or ours if the node's clock is wrong.

A kubelet stamps its figures and its answers (header `Date`) with its node's clock. While this clock is
within `SKEW_MAX_MS` of ours, a measurement keeps the node's time unchanged. Otherwise a measurement
would be refused as one from the future, or look stale forever. Then its time is that of the answer by
our clock, minus the age of the figures by the node's clock, and the skew is reported.
"""

from dataclasses import dataclass

from connectors.kubernetes.sources.health import SKEW_MAX_MS

#: `Date` is truncated to seconds: half a second is missing on average.
_DATE_CUT_MS = 500


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Times of a request and its answer by our clock, and the answer's `Date`, all in ms."""

    asked_at_ms: int
    came_at_ms: int
    date_ms: int | None
    """None: no such header."""


def estimate_skew_ms(answered: AnswerTimes, stamped_ms: int | None) -> int | None:
    """Return the node's clock minus ours, by `Date` or by a stamp from the future; None: unknown."""
    if answered.date_ms is not None:
        halfway_ms = (answered.asked_at_ms + answered.came_at_ms) // 2
        return answered.date_ms + _DATE_CUT_MS - halfway_ms
    if stamped_ms is not None and stamped_ms > answered.came_at_ms:
        return stamped_ms - answered.came_at_ms
    return None


def choose_sample_time(answered: AnswerTimes, stamped_ms: int | None) -> tuple[int, int | None]:
    """Return the time of figures with this stamp (None: that of the answer), and the clock skew."""
    skew = estimate_skew_ms(answered, stamped_ms)
    if stamped_ms is None:
        return answered.came_at_ms, skew
    if skew is None or abs(skew) <= SKEW_MAX_MS:
        return min(stamped_ms, answered.came_at_ms + SKEW_MAX_MS), skew
    age_ms = 0
    if answered.date_ms is not None:
        age_ms = max(0, answered.date_ms + _DATE_CUT_MS - stamped_ms)
    return answered.came_at_ms - age_ms, skew
