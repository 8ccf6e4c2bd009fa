"""Kubernetes quantities: "250m", "1.5Gi", "1e3", "2582039212n" to exact integers.

A quantity is read to nanos (units of 10^-9), the finest step that Kubernetes keeps, with integer
arithmetic only. Sums are made in nanos and rounded once, by `amount_of`: rounding each summand
would come out higher than Kubernetes does.

The rules are those of `ParseQuantity`, `MilliValue` and `Value` in k8s.io/apimachinery
(pkg/api/resource/quantity.go):

- suffixes n u m k M G T P E (powers of 1000), Ki to Ei (powers of 1024), or an exponent e3, E3; a lone
  E is exa;
- a sign, ".5" and "5." are allowed, blanks are not;
- what is finer than a nano is rounded away from zero when it is read, so "0.1n" is one nano;
- the integers are rounded away from zero as well: "1.2341" cpu is 1235 milli, "1500m" bytes are 2;
- "8Ei" is 2^63-1: magnitudes end there.

Kubernetes leaves three things undefined, and here they are defined: a decimal quantity above
2^63-1, whose `Value` overflows there, is capped like a binary one; milli values end at 2^63-1 too;
a text without any digit ("Gi", "."), which its grammar forbids and its parser mostly takes for 0,
is refused.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

#: Longest text that is read.
QUANTITY_TEXT_MAX = 64
#: What a quantity looks like; the same in Python, Rust and JSON Schema, so [0-9] and not \d.
QUANTITY_PATTERN = (
    r"^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,18})?$"
)

_NANOS_PER_UNIT = 10**9
_NANOS_PER_MILLI = 10**6
_INT64_MAX = 2**63 - 1
_NANOS_MAX = _INT64_MAX * _NANOS_PER_UNIT
#: Powers of ten beyond which every amount of at most 64 digits is over the cap or under one nano;
#: they keep "1e999999999" from becoming an integer of a billion digits.
_SHIFT_MAX = 40
_SHIFT_MIN = -QUANTITY_TEXT_MAX

_DECIMAL_POWERS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(QUANTITY_PATTERN)


class QuantityError(ValueError):
    """A text is no Kubernetes quantity; the message is a sentence that quotes it."""


@lru_cache(maxsize=16_384)
def nanos(text: str) -> int:
    """The amount in units of 10^-9, exact, or rounded away from zero where it is finer than that.

    Raises QuantityError if `text` is no quantity.
    """
    if len(text) > QUANTITY_TEXT_MAX:
        raise QuantityError(
            f"quantity {text[:20]!r}... has {len(text)} characters; at most {QUANTITY_TEXT_MAX} are read"
        )
    parts = _QUANTITY.fullmatch(text)
    if parts is None:
        raise QuantityError(
            f"{text!r} is no quantity; expected a number such as 250m, 1.5Gi or 1e3 with one of the"
            " suffixes n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent"
        )
    sign, number, suffix = parts.groups(default="")
    whole, _, fraction = number.partition(".")
    amount = int(whole + fraction) << _BINARY_POWERS.get(suffix, 0)
    power = 0
    if suffix not in _BINARY_POWERS:
        power = _DECIMAL_POWERS[suffix] if suffix in _DECIMAL_POWERS else int(suffix[1:])
    shift = min(max(power - len(fraction) + 9, _SHIFT_MIN), _SHIFT_MAX)
    amount = amount * 10**shift if shift >= 0 else _divided_up(amount, 10**-shift)
    amount = min(amount, _NANOS_MAX)
    return -amount if sign == "-" else amount


def amount_of(resource: str, nanos: int) -> int:
    """The integer that decisions compute with: cpu in milli, every other resource in whole units.

    Rounded away from zero, at most 2^63-1 in magnitude.
    """
    return _rounded(nanos, _NANOS_PER_MILLI if resource == "cpu" else _NANOS_PER_UNIT)


def amount(resource: str, text: str) -> int:
    """`amount_of` of a quantity as it is written; raises QuantityError."""
    return amount_of(resource, nanos(text))


def amounts(resources: Mapping[str, str]) -> dict[str, int]:
    """A resource list as integers, in the order given; raises QuantityError."""
    return {resource: amount_of(resource, nanos(text)) for resource, text in resources.items()}


def amount_text(resource: str, amount: int) -> str:
    """An amount as one writes it: cpu in milli, what is large in whole Mi.

    For people: what is less than half a Mi beside others is rounded away.
    """
    if resource == "cpu":
        return f"{amount}m"
    return f"{round(amount / 2**20)}Mi" if amount >= 2**20 else f"{amount}"


def _rounded(nanos: int, unit: int) -> int:
    magnitude = min(_divided_up(abs(nanos), unit), _INT64_MAX)
    return -magnitude if nanos < 0 else magnitude


def _divided_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
