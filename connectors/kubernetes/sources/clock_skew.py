"""Whose time a measurement carries: the node's own, or ours where the node's clock is wrong.

A kubelet stamps its figures and its answers (`Date`) by its node's clock. While that clock is
within `SKEW_MAX_MS` of ours, a measurement keeps the node's own time, unchanged. Beyond that it
cannot: one from the future is refused, one from the past looks stale for ever. Then it carries the
time at which the answer came, less the age that the figures have by the node's own clock, and this
is reported for the node as long as it holds.
"""

from dataclasses import dataclass

from connectors.kubernetes.sources.health import SKEW_MAX_MS

#: `Date` is cut to whole seconds: on average half of one is missing.
_DATE_CUT_MS = 500


@dataclass(frozen=True, slots=True)
class Answered:
    """When an answer was asked for and came, by our clock, and its `Date`, all in ms."""

    asked_at_ms: int
    came_at_ms: int
    date_ms: int | None
    """None: it had none."""


@dataclass(frozen=True, slots=True)
class SampleTime:
    """When something was measured."""

    at_ms: int
    skew_ms: int | None
    """The node's clock minus ours; none: not known."""
    from_receipt: bool
    """`at_ms` is by our clock, since the node's is off."""


def estimate_skew_ms(answered: Answered, stamped_ms: int | None) -> int | None:
    """The node's clock minus ours; none: neither `Date` nor a stamp from the future shows it."""
    if answered.date_ms is not None:
        halfway_ms = (answered.asked_at_ms + answered.came_at_ms) // 2
        return answered.date_ms + _DATE_CUT_MS - halfway_ms
    if stamped_ms is not None and stamped_ms > answered.came_at_ms:
        return stamped_ms - answered.came_at_ms
    return None


def choose_sample_time(answered: Answered, stamped_ms: int | None) -> SampleTime:
    """The time of figures that are stamped like this; none: they hold for when the answer came."""
    skew = estimate_skew_ms(answered, stamped_ms)
    if stamped_ms is None:
        return SampleTime(answered.came_at_ms, skew, from_receipt=False)
    if skew is None or abs(skew) <= SKEW_MAX_MS:
        return SampleTime(min(stamped_ms, answered.came_at_ms + SKEW_MAX_MS), skew, False)
    age_ms = 0
    if answered.date_ms is not None:
        age_ms = max(0, answered.date_ms + _DATE_CUT_MS - stamped_ms)
    return SampleTime(answered.came_at_ms - age_ms, skew, from_receipt=True)
