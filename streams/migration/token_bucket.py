"""Token buckets in the log's time, exact: no float, and no drift however often they are looked at.

A rate is a fraction of tokens per millisecond. A bucket holds whole tokens and a part of the next
one, as a number of units of which `parts` make a token; what is beyond the burst is lost. A bucket
that has never been drawn from is full, so one that is full again need not be kept.
"""

from dataclasses import dataclass
from fractions import Fraction

#: Most units that a token may have: parts and products with a time stay within what a row can hold.
PARTS_MAX = 10**18


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a bucket fills, and how much it holds."""

    per_ms: Fraction
    """Tokens per millisecond, above 0."""
    burst: int
    """Most tokens, at least 1."""
    part: Fraction = Fraction(0)
    """Part of a further token that it holds at most, below 1."""

    @property
    def parts(self) -> int:
        """Units that a token has."""
        return self.per_ms.denominator


def rate_per_second(tokens: float, burst: int) -> Rate:
    """Tokens per second, read as the decimal number that was written."""
    per_ms = (Fraction(repr(tokens)) / 1000).limit_denominator(PARTS_MAX)
    return Rate(max(per_ms, Fraction(1, PARTS_MAX)), max(1, burst))


def rate_over(tokens: int, duration_ms: int, burst: int) -> Rate:
    """Tokens per duration."""
    return Rate(Fraction(tokens, duration_ms), max(1, burst))


@dataclass(frozen=True, slots=True)
class Bucket:
    """What is in a bucket at a time."""

    tokens: int
    part: int
    parts: int
    at_ms: int

    def filled(self, rate: Rate, now_ms: int) -> "Bucket":
        """The bucket later; under another rate than before, its part is rounded down."""
        units = self.part * rate.parts // self.parts
        units += max(0, now_ms - self.at_ms) * rate.per_ms.numerator
        tokens, part = self.tokens + units // rate.parts, units % rate.parts
        most = full(rate, now_ms)
        if (tokens, part) >= (most.tokens, most.part):
            return most
        return Bucket(tokens, part, rate.parts, now_ms)

    def taken(self) -> "Bucket":
        """The bucket without one of its tokens."""
        return Bucket(self.tokens - 1, self.part, self.parts, self.at_ms)

    def wait_ms(self, rate: Rate) -> int:
        """How long until it has a token: 0 if it has one."""
        if self.tokens:
            return 0
        return -(-(rate.parts - self.part) // rate.per_ms.numerator)


def full(rate: Rate, now_ms: int) -> Bucket:
    """A bucket that nothing was drawn from."""
    return Bucket(rate.burst, int(rate.part * rate.parts), rate.parts, now_ms)
