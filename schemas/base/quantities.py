"""Kubernetes quantities such as "250m", "1.5Gi", "1e3" and "2582039212n" as exact integers.

A quantity is read as an integer number of nanos (10^-9), the finest unit that Kubernetes keeps. Sums
are computed in nanos and rounded once (`round_amount`); rounding each summand would give more than
Kubernetes does.

The rules are those of `ParseQuantity`, `MilliValue` and `Value` in k8s.io/apimachinery
(pkg/api/resource/quantity.go):

- suffixes n u m k M G T P E (powers of 1000), Ki to Ei (powers of 1024), or an exponent e3, E3; a
  single E is exa;
- a sign, ".5" and "5." are allowed, blanks are not;
- a value finer than a nano is rounded away from zero: "0.1n" is one nano;
- the results are rounded away from zero, too: "1.2341" cpu is 1235 milli, "1500m" bytes are 2;
- the largest magnitude is 2^63-1, which is also the value of "8Ei".

Three cases that Kubernetes leaves undefined are defined here. A decimal quantity above 2^63-1, whose
`Value` overflows in Kubernetes, is capped like a binary one. Milli values are capped at 2^63-1, too.
A text without digits ("Gi", "."), which the grammar forbids but the parser mostly reads as 0, is
refused.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

#: Longest text that is parsed.
QUANTITY_TEXT_MAX = 64
#: [0-9] instead of \d, so that the pattern means the same in Python, Rust and JSON Schema.
QUANTITY_PATTERN = (
    r"^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,18})?$"
)

_NANOS_PER_UNIT = 10**9
_NANOS_PER_MILLI = 10**6
_INT64_MAX = 2**63 - 1
_NANOS_MAX = _INT64_MAX * _NANOS_PER_UNIT
#: Larger exponents are cut: every amount of at most 64 digits is then above the cap or below one nano.
#: Otherwise "1e999999999" would become an integer of a billion digits.
_SHIFT_MAX = 40
_SHIFT_MIN = -QUANTITY_TEXT_MAX

_DECIMAL_POWERS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(QUANTITY_PATTERN)


class QuantityError(ValueError):
    """A text is not a Kubernetes quantity; the message quotes it."""


@lru_cache(maxsize=16_384)
def parse_nanos(text: str) -> int:
    """Return the amount in units of 10^-9, rounded away from zero.

    Raises QuantityError if `text` is not a quantity.
    """
    if len(text) > QUANTITY_TEXT_MAX:
        raise QuantityError(
            f"quantity {text[:20]!r}... has {len(text)} characters; expected at most {QUANTITY_TEXT_MAX}"
        )
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise QuantityError(
            f"{text!r} is not a quantity; expected a number such as 250m, 1.5Gi or 1e3 with one of the"
            " suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
        )
    sign, number, suffix = parts.groups(default="")
    whole, _, fraction = number.partition(".")
    amount = int(whole + fraction) << _BINARY_POWERS.get(suffix, 0)
    power = 0
    if suffix not in _BINARY_POWERS:
        power = _DECIMAL_POWERS[suffix] if suffix in _DECIMAL_POWERS else int(suffix[1:])
    shift = min(max(power - len(fraction) + 9, _SHIFT_MIN), _SHIFT_MAX)
    amount = amount * 10**shift if shift >= 0 else _divide_up(amount, 10**-shift)
    amount = min(amount, _NANOS_MAX)
    return -amount if sign == "-" else amount


def round_amount(resource: str, nanos: int) -> int:
    """Return cpu in millicores and other resources in whole units, rounded away from zero and at
    most 2^63-1 in magnitude."""
    return _round(nanos, _NANOS_PER_MILLI if resource == "cpu" else _NANOS_PER_UNIT)


def parse_amount(resource: str, text: str) -> int:
    """Parse a quantity and round it as `round_amount` does; raises QuantityError."""
    return round_amount(resource, parse_nanos(text))


def parse_amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """Return a resource list as integers, in the order given; raises QuantityError."""
    return {
        resource: round_amount(resource, parse_nanos(text)) for resource, text in resources.items()
    }


def format_amount(resource: str, amount: int) -> str:
    """Return an amount for people: cpu in millicores, amounts from 1 Mi on rounded to whole Mi."""
    if resource == "cpu":
        return f"{amount}m"
    return f"{round(amount / 2**20)}Mi" if amount >= 2**20 else f"{amount}"


def _round(nanos: int, unit: int) -> int:
    magnitude = min(_divide_up(abs(nanos), unit), _INT64_MAX)
    return -magnitude if nanos < 0 else magnitude


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
